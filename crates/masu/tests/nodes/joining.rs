//! What is typed to start a node: `masu node invite`, and what is wrong with it.

use std::os::unix::fs::PermissionsExt;

use super::damage::said;
use super::*;

fn new_key(path: &Path) {
    let key = Command::new(env!("CARGO_BIN_EXE_masu")).args(["node", "key"]).output().expect("masu runs");
    fs::write(path, key.stdout).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("permissions");
}

/// The line that is printed is executed as it is, but for the places that are the new machine's own.
#[test]
fn what_an_invitation_prints_makes_a_node_and_who_could_not_join_gets_none() {
    let mut cluster = Cluster::start(0);
    let [key, other] = ["state key", "other"].map(|name| cluster.dir.path().join(name));
    [&key, &other].iter().for_each(|path| new_key(path));
    cluster.options = vec!["--state-key".into(), key.display().to_string()];
    cluster.join();
    cluster.owner();
    let registry = cluster.registry.clone();
    let invite = |name: &str, more: &[&str]| {
        let command = [&["node", "invite", name, "--registry", &registry], more].concat();
        Command::new(env!("CARGO_BIN_EXE_masu")).args(command).output().expect("masu runs")
    };
    let right = ["--state-key", key.to_str().expect("UTF-8")];
    for (name, more, cause) in [
        ("n1", &right[..], "node n1 has joined already (owner)"),
        ("n2", &[], "pass the nodes' --state-key"),
        ("n2", &["--state-key", other.to_str().expect("UTF-8")], "encrypted by another key"),
        ("a/n", &right, "invalid node name"),
    ] {
        let refused = invite(name, more);
        assert!(!refused.status.success());
        let text = said(refused);
        assert!(text.contains(cause), "{name} {more:?}: {text}");
    }
    let invited = invite("n2", &right);
    assert!(invited.status.success(), "{invited:?}");
    let text = String::from_utf8(invited.stdout).expect("UTF-8");
    let secret = fs::read_to_string(&key).expect("readable");
    assert!(text.contains(&key.display().to_string()) && !text.contains(secret.trim()), "{text}");
    let line = text.lines().last().expect("a line");
    let (port, dir) = (test_ports::claim(), cluster.dir.path().join("n2"));
    let line = line
        .replace(&format!("ADDRESS:{}", cluster.nodes[0].port), &format!("127.0.0.1:{port}"))
        .replace("/etc/masu/array.toml", &cluster.dir.path().join("array.toml").display().to_string())
        .replace("/var/lib/masu/n2", &dir.display().to_string())
        .replacen("masu", env!("CARGO_BIN_EXE_masu"), 1);
    let log = File::create(dir.with_extension("log")).expect("a log");
    let process = Command::new("sh")
        .args(["-c", &format!("exec {line}")])
        .stderr(Stdio::from(log))
        .spawn()
        .expect("sh runs");
    cluster.nodes.push(Node { process, name: "n2".into(), port, dir });
    cluster.nodes[1].stands_by();
    assert!(said(invite("n2", &right)).contains("node n2 has joined already (standby)"));
    // A node that has no key is not told to have one.
    let plain = Cluster::start(1);
    plain.owner();
    let arguments = ["node", "invite", "n2", "--registry", &plain.registry];
    let refused = Command::new(env!("CARGO_BIN_EXE_masu")).args(arguments).args(right).output();
    assert!(said(refused.expect("masu runs")).contains("the nodes have no --state-key"));
}

/// The system says of the second one that its address is in use, and the operator looks for another process.
#[test]
fn an_address_that_two_options_have_and_a_file_that_is_none_are_named_with_their_option() {
    let dir = directory();
    fs::write(dir.path().join("array.toml"), "").expect("written");
    let (at, place) = (format!("127.0.0.1:{}", test_ports::claim()), dir.path().display().to_string());
    let (registry, data) = (format!("{place}/registry"), format!("{place}/data"));
    let alone = vec!["--listen", &*at, "--data", &data];
    let node = [&["--node", "n1", "--registry", &registry], &alone[..]].concat();
    let over_etcd = [&["--node", "n1", "--registry", "etcds://127.0.0.1:9"], &alone[..]].concat();
    let config = format!("{place}/array.toml");
    for (options, more, cause) in [
        (&node, vec!["--node-listen", &at], format!("--node-listen {at}: portal {at} listens there, too")),
        (
            &node,
            vec!["--api", &at, "--config", &config],
            format!("--api {at}: portal {at} listens there, too"),
        ),
        (&alone, vec!["--api", &at], format!("--api {at}: portal {at} listens there, too")),
        (&over_etcd, vec!["--registry-ca", &place], format!("--registry-ca: {place} is a directory")),
        (&over_etcd, vec!["--registry-login", &place], format!("--registry-login: {place} is a directory")),
        (&alone, vec!["--data", &config], format!("--data: {config}: not a directory")),
    ] {
        let options =
            options.iter().filter(|option| !more.contains(&"--data") || !["--data", &data].contains(option));
        let done = Command::new(env!("CARGO_BIN_EXE_masu")).arg("serve").args(options).args(&more).output();
        let done = done.expect("masu runs");
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        let text = said(done);
        assert!(text.contains(&cause), "{more:?}: {text}");
    }
}

/// A new node begins a new array in a registry that was emptied, is refused by the drives, and ends. A node
/// that had stood by took its state over then, in place of the one that it knew, and had to be given an empty
/// directory.
#[test]
fn a_node_that_stood_by_for_an_array_takes_no_other_one_from_an_emptied_registry() {
    let mut cluster = Cluster::start(1);
    cluster.owner();
    cluster.join();
    cluster.nodes[1].stands_by();
    for at in [0, 1] {
        cluster.nodes[at].signal("-KILL");
        cluster.nodes[at].ended();
    }
    fs::remove_dir_all(&cluster.registry).expect("emptied");
    cluster.join();
    assert_eq!(cluster.nodes[2].ended(), Some(2));
    assert!(cluster.nodes[2].log().contains("belongs to group g0"), "{}", cluster.nodes[2].log());
    cluster.again(1);
    assert_eq!(cluster.nodes[1].ended(), Some(2), "{}", cluster.nodes[1].log());
    assert!(cluster.nodes[1].log().contains("has stood by for array"), "{}", cluster.nodes[1].log());
    let data = cluster.nodes[0].dir.display().to_string();
    let restore = ["node", "restore-state", "--data", &data, "--registry", &cluster.registry, "--yes"];
    let restored = Command::new(&cluster.masu).args(restore).output().expect("masu runs");
    assert!(restored.status.success(), "{restored:?}");
    cluster.again(1);
    cluster.again(0);
    // Each may be the one that serves.
    cluster.owner();
    until("both are nodes of it", || {
        let list =
            Command::new(&cluster.masu).args(["node", "list", "--registry", &cluster.registry]).output();
        let list = said(list.expect("masu runs"));
        list.contains("owner") && list.contains("standby")
    });
}
