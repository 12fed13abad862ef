//! The state in the registry, encrypted.

use std::fs;
use std::path::Path;

use super::{Cluster, Node};

/// All that the files of a directory say.
fn all_text(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        all.extend(if path.is_dir() { all_text(&path) } else { fs::read(&path).expect("readable") });
    }
    all
}

#[test]
fn the_state_in_the_registry_is_encrypted_by_the_key_of_the_nodes() {
    let mut cluster = Cluster::start(1);
    cluster.owner();
    let secret = "secret-of-a-host";
    let chap = cluster.dir.path().join("chap");
    fs::write(&chap, format!("name:{secret}")).expect("written");
    let has_secret = |cluster: &Cluster| {
        let all = all_text(&cluster.registry());
        all.windows(secret.len()).any(|part| part == secret.as_bytes())
    };
    let create = |node: &Node, host: &str| {
        let iqn = format!("iqn.2026-11.net.example:{host}");
        node.ok(&["host", "create", host, &iqn, "--chap-file", chap.to_str().expect("UTF-8")])
    };
    create(&cluster.nodes[0], "before");
    assert!(has_secret(&cluster), "without a key it is in the clear, so that this test can tell");
    // With a key, an owner encrypts what it finds, and what it keeps.
    let key_file = cluster.dir.path().join("key");
    let new_key = |cluster: &Cluster, older: &str| {
        let key = cluster.nodes[0].ok(&["node", "key"]);
        fs::write(&key_file, format!("{key}{older}")).expect("written");
        let _ = fs::set_permissions(&key_file, std::os::unix::fs::PermissionsExt::from_mode(0o600));
        key
    };
    let key = new_key(&cluster, "");
    let again = |cluster: &mut Cluster| {
        cluster.nodes[0].signal("-TERM");
        assert_eq!(cluster.nodes[0].ended(), Some(0));
        fs::remove_file(cluster.nodes[0].dir.with_extension("log")).expect("removed");
        cluster.again(0);
        cluster.owner();
    };
    cluster.options = vec!["--state-key".into(), key_file.display().to_string()];
    again(&mut cluster);
    assert!(!has_secret(&cluster), "in the registry, in what was there before");
    create(&cluster.nodes[0], "after");
    assert!(!has_secret(&cluster), "in the registry");
    // With a newer key before it, too.
    new_key(&cluster, &key);
    again(&mut cluster);
    let hosts = cluster.nodes[0].ok(&["host", "list", "--output", "name"]);
    assert!(hosts.contains("before") && hosts.contains("after"), "{hosts}");
    // A node without the key, or with another one, does not stand by for what it cannot take over.
    for (options, cause) in
        [(vec![], "pass the nodes' --state-key"), (cluster.options.clone(), "by another key")]
    {
        let other = std::mem::replace(&mut cluster.options, options);
        new_key(&cluster, "");
        cluster.join();
        let mut refused = cluster.nodes.pop().expect("the last");
        assert_eq!(refused.ended(), Some(2), "{}", refused.log());
        assert!(refused.log().contains(cause), "{}", refused.log());
        cluster.options = other;
    }
}
