//! A registry that has lost a part of what nodes need.

use super::*;

/// The directories of the keys that begin so.
pub(super) fn keys(cluster: &Cluster, prefix: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(cluster.registry().join("keys")).expect("a registry").flatten();
    all.map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect()
}

/// The files of a key whose names begin so: `=` has its value, `@` its version.
pub(super) fn files(key: &Path, prefix: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(key).expect("a key").flatten().map(|entry| entry.path());
    all.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect()
}

pub(super) fn said(output: Output) -> String {
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    // Terminals have lines of 80 characters.
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_registry_without_the_state_is_refused_by_every_node_and_one_command_puts_it_back() {
    let mut cluster = Cluster::start(1);
    cluster.owner();
    cluster.nodes[0].ok(&["volume", "create", "by-command", "--size", "1MiB"]);
    cluster.nodes[0].signal("-TERM");
    assert_eq!(cluster.nodes[0].ended(), Some(0));
    let state = cluster.nodes[0].dir.join("array.state.toml");
    let before = fs::read_to_string(&state).expect("a state");
    keys(&cluster, "state%").iter().for_each(|key| fs::remove_dir_all(key).expect("removed"));
    cluster.again(0);
    cluster.join();
    for node in &cluster.nodes {
        node.says("has had an owner, and has no state of the array; put back");
        node.says("masu node restore-state");
    }
    assert_eq!(keys(&cluster, "state%"), Vec::<PathBuf>::new(), "a node has put a state of its own");
    let registry = cluster.registry.clone();
    let back = ["node", "restore-state", "--yes", "--registry", &registry];
    let refused = said(cluster.nodes[1].command(&back));
    assert!(refused.contains("has no state of an array"), "{refused}");
    cluster.nodes[0].ok(&back);
    let owner = cluster.successor(usize::MAX);
    assert!(cluster.nodes[owner].ok(&["volume", "list"]).contains("by-command"));
    let id = |text: &str| text.lines().find(|line| line.starts_with("id = ")).map(str::to_owned);
    let after = fs::read_to_string(cluster.nodes[owner].dir.join("array.state.toml")).expect("a state");
    assert_eq!(id(&after), id(&before));
    // Another one may be refused because it has seen a later owner.
    let refused = said(cluster.nodes[owner].command(&back));
    assert!(refused.contains("stop it first"), "an owner lives: {refused}");
}

#[test]
fn an_owner_mends_what_the_registry_has_damaged_and_says_what_it_cannot() {
    let cluster = Cluster::start(2);
    let owner = cluster.owner();
    let (from, to) = (&cluster.nodes[owner], &cluster.nodes[1 - owner]);
    to.stands_by();
    from.ok(&["volume", "create", "by-command", "--size", "1MiB"]);
    for (key, text) in [
        ("state%array.state.toml", "has put its state into the registry again"),
        ("owner%array", "has put its record into the registry again"),
    ] {
        let key = cluster.registry().join("keys").join(key);
        files(&key, "=").iter().for_each(|file| fs::write(file, "").expect("emptied"));
        from.says(text);
    }
    // Without the file of its version a key cannot be changed any more.
    let key = cluster.registry().join("keys/state%array.state.toml");
    files(&key, "@").iter().for_each(|file| fs::remove_file(file).expect("removed"));
    until("it is a trouble", || said(from.command(&["status"])).contains("a key without a state"));
    let registry = cluster.registry.clone();
    let drain = |node: &Node| said(node.command(&["node", "drain", &from.name, "--registry", &registry]));
    let refused = drain(from);
    assert!(refused.contains("no node could take over from"), "{refused}");
    assert!(from.serves());
    fs::remove_dir_all(&key).expect("removed");
    until("it is no trouble", || said(from.command(&["status"])).contains("No problems"));
    let moved = drain(from);
    assert!(moved.contains("has moved from"), "{moved}");
    assert!(to.ok(&["volume", "list"]).contains("by-command"));
}

#[test]
fn a_command_that_reads_creates_no_registry() {
    let dir = tempfile::tempdir().expect("a directory");
    let typo = dir.path().join("typo");
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    let output = command.args(["node", "list", "--registry"]).arg(&typo).output().expect("masu runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(said(output).contains("no registry in"));
    assert!(!typo.exists());
}

#[test]
fn an_owner_and_its_standby_that_are_stopped_at_once_end_at_once() {
    let mut cluster = Cluster::start(2);
    let owner = cluster.owner();
    cluster.nodes[1 - owner].stands_by();
    // The array serves, wherever that is asked.
    cluster.nodes[1 - owner].ok(&["wait", "--timeout", "10s"]);
    // What stops is the node, and not the array.
    let stopped = cluster.nodes[1 - owner].ok(&["stop"]);
    assert!(stopped.starts_with("the node has stopped"), "{stopped}");
    assert_eq!(cluster.nodes[1 - owner].ended(), Some(0));
    cluster.again(1 - owner);
    cluster.nodes[1 - owner].stands_by();
    cluster.nodes.iter().for_each(|node| node.signal("-TERM"));
    cluster.nodes.iter_mut().for_each(|node| assert_eq!(node.ended(), Some(0)));
    // It has not waited for one that would take over.
    let log = cluster.nodes[owner].log();
    assert!(log.contains("hands over") && !log.contains("no other node has taken over"), "{log}");
    cluster.again(owner);
    cluster.nodes[owner].ok(&["wait", "--timeout", "10s"]);
}

#[test]
fn a_directory_of_a_node_is_not_served_without_the_others() {
    let mut cluster = Cluster::start(1);
    cluster.owner();
    cluster.nodes[0].signal("-TERM");
    assert_eq!(cluster.nodes[0].ended(), Some(0));
    let alone = |cluster: &Cluster| {
        let (node, declaration) = (&cluster.nodes[0], cluster.dir.path().join("array.toml"));
        let listen = format!("127.0.0.1:{}", node.port);
        let options = ["serve", "--listen", &listen, "--data"];
        let mut serve = Command::new(env!("CARGO_BIN_EXE_masu"));
        serve.args(options).arg(&node.dir).arg("--config").arg(declaration).stderr(Stdio::piped());
        serve.spawn().expect("masu runs")
    };
    let refused = alone(&cluster).wait_with_output().expect("it ended");
    assert_eq!(refused.status.code(), Some(2));
    let refused = said(refused);
    assert!(refused.contains("was a node of an array of several (epoch 1)"), "{refused}");
    // The way back that the text names.
    fs::remove_file(cluster.nodes[0].dir.join("array.epoch")).expect("removed");
    cluster.nodes[0].process = alone(&cluster);
    until("the array", || cluster.nodes[0].command(&["status"]).status.success());
}

/// The copy of a node that was not the last owner was put back like the newest one: what was declared since
/// was gone.
#[test]
fn a_copy_of_which_its_node_knows_that_it_is_old_is_put_back_only_when_that_is_meant() {
    let mut cluster = Cluster::start(2);
    let first = cluster.owner();
    cluster.nodes[1 - first].stands_by();
    let registry = cluster.registry.clone();
    let name = cluster.nodes[first].name.clone();
    cluster.nodes[first].ok(&["node", "drain", &name, "--registry", &registry]);
    cluster.nodes[first].stands_by();
    cluster.nodes[1 - first].ok(&["volume", "create", "later", "--size", "1MiB"]);
    cluster.nodes.iter().for_each(|node| node.signal("-TERM"));
    cluster.nodes.iter_mut().for_each(|node| assert_eq!(node.ended(), Some(0)));
    keys(&cluster, "state%").iter().for_each(|key| fs::remove_dir_all(key).expect("removed"));
    let back = ["node", "restore-state", "--yes", "--registry", &registry];
    let old = cluster.nodes[first].command(&back);
    assert_eq!(old.status.code(), Some(2));
    let old = said(old);
    assert!(old.contains("owned the array in epoch 1, and has seen an owner of epoch 2"), "{old}");
    assert_eq!(keys(&cluster, "state%"), Vec::<PathBuf>::new(), "nothing was put");
    // Where the other directory is lost, it is what there is.
    let older = [&back[..], &["--older"]].concat();
    cluster.nodes[first].ok(&older);
    cluster.nodes[1 - first].ok(&back);
    cluster.again(first);
    let owner = cluster.successor(usize::MAX);
    assert!(cluster.nodes[owner].ok(&["volume", "list"]).contains("later"));
}

/// Their portals kept their tags before only while a node that ran put them again.
#[test]
fn nodes_keep_their_numbers_when_the_registry_has_lost_everything() {
    let mut cluster = Cluster::start(1);
    let owner = cluster.owner();
    cluster.join();
    cluster.nodes[1].stands_by();
    let members = cluster.registry().join("keys");
    let number = |at: usize| {
        let found = files(&members.join(format!("members%n{at}")), "=");
        found.iter().map(|file| fs::read_to_string(file).expect("readable")).collect::<String>()
    };
    assert!(number(2).contains("number = 1"), "{}", number(2));
    cluster.nodes.iter().rev().for_each(|node| node.signal("-TERM"));
    cluster.nodes.iter_mut().for_each(|node| assert_eq!(node.ended(), Some(0)));
    fs::remove_dir_all(cluster.registry()).expect("removed");
    let registry = cluster.registry.clone();
    cluster.nodes[owner].ok(&["node", "restore-state", "--yes", "--registry", &registry]);
    // In the other order.
    cluster.again(1);
    cluster.successor(usize::MAX);
    assert!(number(2).contains("number = 1"), "{}", number(2));
    cluster.again(0);
    cluster.nodes[0].stands_by();
    assert!(number(1).contains("number = 0"), "{}", number(1));
}
