//! Planned moves to a named node, of three.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

/// Where the array goes, and how the command ends.
fn drain(cluster: &Cluster, from: usize, to: &str) -> (bool, String) {
    let (node, registry) = (&cluster.nodes[from], &cluster.registry);
    let output = node.command(&["node", "drain", &node.name, "--to", to, "--registry", registry]);
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), said.concat())
}

#[test]
fn a_drained_array_goes_to_the_named_node_and_to_no_other() {
    let mut cluster = Cluster::start(3);
    let first = cluster.owner();
    let host = Host::start(&cluster);
    let (second, third) = ((first + 1) % 3, (first + 2) % 3);
    // Each standby is named in turn, so that none is met by chance.
    for (from, to) in [(first, third), (third, second), (second, third), (third, first), (first, second)] {
        let other = 3 - from - to;
        cluster.nodes[to].stands_by();
        cluster.nodes[other].stands_by();
        let (done, said) = drain(&cluster, from, &cluster.nodes[to].name);
        let moved = format!("has moved from {} to {} in", cluster.nodes[from].name, cluster.nodes[to].name);
        assert!(done && said.contains(&moved), "{said}");
        // Its log says so a moment after the registry does.
        until("the named node serves", || cluster.nodes[to].serves());
        assert!(!cluster.nodes[from].serves());
    }
    cluster.nodes[first].process.kill().expect("kill -9");
    until("its lease ends", || {
        let list = cluster.nodes[second].ok(&["node", "list", "--registry", &cluster.registry]);
        let row = list.lines().find(|line| line.contains(&cluster.nodes[first].name));
        row.is_some_and(|row| row.contains("down"))
    });
    let name = |at: usize| cluster.nodes[at].name.clone();
    for (to, cause) in [
        (name(second), format!("node {} owns the array already", name(second))),
        (name(first), format!("node {} is down", name(first))),
        ("n9".into(), "no standby \"n9\" of this array".into()),
    ] {
        let (done, said) = drain(&cluster, second, &to);
        assert!(!done && said.contains(&cause), "{said}");
    }
    assert!(cluster.nodes[second].serves(), "a refused move changes nothing");
    let done = host.verified();
    println!("moved five times: a gap of {:?} in {} writes", done.gap, done.count);
    cluster.nodes.iter().for_each(|node| assert_eq!(node.takes_over().1, 0));
}

#[test]
fn when_the_named_node_dies_after_the_request_another_one_takes_over_and_says_so() {
    let mut cluster = Cluster::start(3);
    let owner = cluster.owner();
    let (named, other) = ((owner + 1) % 3, (owner + 2) % 3);
    cluster.nodes[named].stands_by();
    cluster.nodes[other].stands_by();
    // No path leads through the named one: the owner would wait for the session that it carried.
    let used = [owner, other].map(|at| cluster.nodes[at].port);
    let host = Host::over(&cluster, used.to_vec());
    // It stands still, so that it cannot take over before it dies; its lease lives meanwhile.
    cluster.nodes[named].signal("-STOP");
    until("all of its threads stand still", || cluster.nodes[named].stands_still());
    let (done, said) = drain(&cluster, owner, &cluster.nodes[named].name);
    cluster.nodes[named].process.kill().expect("kill -9");
    let (names, names_other) = (&cluster.nodes[named].name, &cluster.nodes[other].name);
    assert!(
        !done && said.contains(&format!("has moved from {} to {names_other}", cluster.nodes[owner].name))
    );
    assert!(said.contains(&format!("node {names} did not take over in time, {names_other} did")), "{said}");
    let events = cluster.nodes[other].ok(&["events"]);
    let text = format!("was moved to {names}, which did not take over in time: {names_other} does");
    assert!(events.contains(&text), "{events}");
    let done = host.verified();
    println!("the named node died: a gap of {:?} in {} writes", done.gap, done.count);
    assert!(done.gap > Duration::from_millis(1800), "{:?}", done.gap);
    assert_eq!(cluster.nodes[other].takes_over(), (1, 0));
}

/// What the API of a node answers on its socket.
fn post(node: &Node, path: &str, body: &str) -> String {
    ask(node, "POST", path, body)
}

pub(super) fn ask(node: &Node, verb: &str, path: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(node.dir.join("api.sock")).expect("the API");
    let len = body.len();
    let head = "HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json";
    write!(stream, "{verb} {path} {head}\r\ncontent-length: {len}\r\n\r\n{body}").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn the_api_moves_the_array_and_refuses_what_the_command_refuses() {
    let cluster = Cluster::start(2);
    let owner = cluster.owner();
    let (from, to) = (&cluster.nodes[owner], &cluster.nodes[1 - owner]);
    to.stands_by();
    let drain = |name: &str, to: &str| {
        post(from, &format!("/v1/nodes/{name}/drain"), &format!("{{\"to\": \"{to}\"}}"))
    };
    for (name, to, status, words) in [
        ("n9", &*to.name, 404, "no node"),
        (&to.name, &from.name, 409, "there is nothing to move"),
        (&from.name, &from.name, 422, "owns the array already"),
        ("this", "n9", 422, "no standby"),
    ] {
        let answer = drain(name, to);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(words), "{answer}");
    }
    let answer = post(from, "/v1/nodes/this/drain", "{\"form\": 1}");
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    let answer = drain(&from.name, &to.name);
    assert!(answer.starts_with("HTTP/1.1 202") && answer.contains("asked to hand over to"), "{answer}");
    to.says("array: serves");
    from.stands_by();
}

/// The nodes as one of them lists them, without what changes while they are asked.
fn listed(node: &Node) -> Vec<serde_json::Value> {
    let answer = ask(node, "GET", "/v1/nodes", "");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    let list: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let mut items = list["items"].as_array().cloned().unwrap_or_default();
    for node in items.iter_mut().filter_map(serde_json::Value::as_object_mut) {
        ["is_this", "lease_left_us", "controllers", "uptime_s"]
            .iter()
            .for_each(|key| drop(node.remove(*key)));
    }
    items
}

#[test]
fn all_nodes_list_the_same_nodes() {
    let mut cluster = Cluster::start(3);
    let owner = cluster.owner();
    let dead = (owner + 1) % 3;
    // One that dies before it has joined was never a node, even if it was listed as up for as long as its
    // lease lived.
    cluster.nodes[dead].stands_by();
    cluster.nodes[dead].process.kill().expect("kill -9");
    let living = [owner, (owner + 2) % 3];
    let names = [owner, dead, living[1]].map(|at| cluster.nodes[at].name.clone());
    for at in living {
        until("it has seen that a node is down", || {
            let all = listed(&cluster.nodes[at]);
            all.len() == 3 && all.iter().any(|n| n["name"] == *names[1] && n["role"] == "down")
        });
    }
    let [all, others] = living.map(|at| listed(&cluster.nodes[at]));
    assert_eq!(all, others);
    let of = |name: &str| all.iter().find(|n| n["name"] == *name).expect("a node");
    let (first, standby) = (of(&names[0]), of(&names[2]));
    assert!(first["role"] == "owner" && first["epoch"].as_u64() >= Some(1), "{first}");
    assert!(standby["role"] == "standby" && standby["could_take_over"] == true, "{standby}");
    assert!(
        all.iter()
            .all(|n| n["version"].is_string() && n["portals"].as_array().is_some_and(|p| !p.is_empty()))
    );
    for (at, name) in living.into_iter().zip([&names[0], &names[2]]) {
        let this = ask(&cluster.nodes[at], "GET", "/v1/nodes/this", "");
        assert!(this.contains(&format!("\"name\":\"{name}\"")), "{this}");
    }
}

#[test]
fn each_node_says_what_would_happen_if_the_owner_failed() {
    let mut cluster = Cluster::start(2);
    let owner = cluster.owner();
    let next = 1 - owner;
    let says = |cluster: &Cluster, at: usize, text: &str| {
        until(text, || {
            let output = cluster.nodes[at].command(&["status"]);
            let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
            said.concat().split_whitespace().collect::<Vec<_>>().join(" ").contains(text)
        });
    };
    let names = [owner, next].map(|at| cluster.nodes[at].name.clone());
    let [first, second] = &names;
    let never = format!("if {first} failed: {second} would take over; never tried");
    says(&cluster, owner, &never);
    says(&cluster, next, &never);
    let moved = cluster.nodes[next].ok(&["node", "test-failover", "--yes", "--registry", &cluster.registry]);
    let (_, took) = moved.trim().rsplit_once(" in ").expect("a time");
    assert_eq!(cluster.nodes[owner].ended(), Some(LOST));
    let alone = format!("if {second} failed: no other node could take over");
    says(&cluster, next, &format!("{alone} → start another node"));
    cluster.again(owner);
    let tested = format!("if {second} failed: {first} would take over; {took} at the last test");
    says(&cluster, next, &tested);
    says(&cluster, owner, &tested);
    let status = cluster.nodes[next].ok(&["status", "--output", "json"]);
    assert!(status.contains("\"successors\"") && status.contains("\"kind\": \"test\""), "{status}");
    // A take-over that nobody asked for.
    cluster.nodes[next].process.kill().expect("kill -9");
    cluster.nodes[next].ended();
    assert_eq!(cluster.successor(next), owner);
    cluster.again(next);
    says(&cluster, owner, &format!("if {first} failed: {second} would take over;"));
    says(&cluster, owner, "s at the last take-over");
    says(&cluster, next, "s at the last take-over");
}

#[test]
fn declarations_of_nodes_that_differ_are_told_at_a_move() {
    let mut cluster = Cluster::start(1);
    cluster.owner();
    // The second node reads another file: the first one has read its own.
    let file = cluster.dir.path().join("array.toml");
    let text = fs::read_to_string(&file).expect("a declaration");
    fs::write(&file, text.replace("initiator = \"*\"", "initiator = \"iqn.2004-10.com.example:kvm\""))
        .expect("written");
    cluster.join();
    cluster.nodes[1].stands_by();
    let registry = cluster.registry.clone();
    cluster.nodes[0].ok(&["node", "drain", "n1", "--to", "n2", "--registry", &registry]);
    cluster.successor(0);
    let told = "this node's declaration is not the one applied last: host any: initiator";
    until("the event", || cluster.nodes[1].ok(&["events"]).contains(told));
}
