//! Commands at any node: the owner answers them, and what they change is changed there.

use super::damage::said;
use super::moves::ask;
use super::*;

/// What changes from one look to the next is left out.
fn status(node: &Node) -> serde_json::Value {
    let text = node.ok(&["status", "--output", "json"]);
    let mut all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let parts = ["target", "failover", "volumes", "pools", "groups", "hosts", "ports"];
    let parts = parts.map(|part| (part.to_owned(), all[part].take()));
    serde_json::Value::Object(parts.into_iter().collect())
}

/// Before, a standby refused each command, and said where the owner is.
#[test]
fn a_command_says_and_does_the_same_at_each_node() {
    let mut cluster = Cluster::start(2);
    let owner = cluster.owner();
    let (first, second) = (&cluster.nodes[owner], &cluster.nodes[1 - owner]);
    second.stands_by();
    // The owner knows the node within its next look.
    until("the owner answers for the standby", || second.command(&["status"]).status.success());
    let text = |node| status(node)["failover"]["text"].to_string();
    until("the owner has seen the standby", || text(second).contains("would take over"));
    assert_eq!(status(first), status(second));
    second.ok(&["volume", "create", "of-the-other", "--size", "1MiB"]);
    assert!(first.ok(&["volume", "list"]).contains("of-the-other"));
    let user = format!("user {} of node {}", rustix::process::geteuid().as_raw(), second.name);
    let events = second.ok(&["events"]);
    assert!(events.contains(&user), "{events}");
    assert_eq!(events, first.ok(&["events"]));
    // `this` is the node that was asked, and what is asked of one process is not asked of another one.
    let answer = ask(second, "POST", "/v1/nodes/this/drain", "{}");
    let nothing = format!("node {} does not own the array", second.name);
    assert!(answer.starts_with("HTTP/1.1 409") && answer.contains(&nothing), "{answer}");
    for path in ["/readyz", "/metrics"] {
        let answer = ask(second, "GET", path, "");
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("standby of"), "{answer}");
    }
    // A refusal is the owner's, too.
    let refused = second.command(&["volume", "create", "of-the-other", "--size", "1MiB"]);
    assert!(!refused.status.success() && !said(refused).contains("standby"));
    // An owner that stands still: who asks waits no longer than until it is none.
    first.signal("-STOP");
    let asked = Instant::now();
    let answer = second.command(&["status"]);
    assert!(!answer.status.success(), "{answer:?}");
    assert!(asked.elapsed() < WAIT, "{:?}", asked.elapsed());
    first.signal("-KILL");
    cluster.nodes[owner].ended();
    let next = &cluster.nodes[1 - owner];
    next.says("array: serves");
    assert!(next.ok(&["volume", "list"]).contains("of-the-other"));
}
