//! Controllers that other nodes run for the owner: LUN 0 is on controller 1, which is that of n2.

use std::collections::BTreeMap;

use super::*;
use crate::paths::groups_at;

/// So many pools, each with a drive, a volume and a controller of its own.
pub(super) fn pools(dir: &Path, count: usize) -> String {
    let pool = |index: usize| {
        let drive = dir.join(format!("d{index}.img"));
        format!(
            "[[drive]]\nname = \"d{index}\"\nfile = \"{}\"\nsize = \"64MiB\"\n\
             [[group]]\nname = \"g{index}\"\nlevel = \"raid0\"\ndrives = [\"d{index}\"]\n\
             [[pool]]\nname = \"p{index}\"\ngroups = [\"g{index}\"]\ncontroller = {index}\n\
             [[volume]]\nname = \"v{index}\"\npool = \"p{index}\"\nsize = \"16MiB\"\n",
            drive.display()
        )
    };
    (0..count).map(pool).collect()
}

/// Three pools, of which the volume of the second one is LUN 0.
fn declaration(dir: &Path) -> String {
    let pools = pools(dir, 3);
    format!(
        "target = \"{TARGET}\"\ncontrollers = 3\ncontroller_nodes = [\"n1\", \"n2\", \"n3\"]\n{pools}\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v1\", 1 = \"v0\", 2 = \"v2\" }}\n"
    )
}

/// Three nodes, of which n1 owns the array; n2 and n3 run their controllers.
fn start() -> Cluster {
    let dir = directory();
    let text = declaration(dir.path());
    let registry = dir.path().join("registry").display().to_string();
    let mut cluster = Cluster::declared(1, dir, &text, registry);
    assert_eq!(cluster.owner(), 0);
    for text in ["controller 1 runs at node n2", "controller 2 runs at node n3"] {
        // One after the other: they are numbered in this order.
        cluster.join();
        cluster.nodes[0].says(text);
    }
    cluster
}

fn count(cluster: &Cluster, at: usize, text: &str) -> usize {
    cluster.nodes[at].log().matches(text).count()
}

/// Returns when a node has said it once more than it had before.
fn again(cluster: &Cluster, at: usize, text: &str, before: usize) {
    until_within(text, 3 * WAIT, || count(cluster, at, text) > before);
}

#[test]
fn the_ports_of_the_node_that_runs_the_controller_are_the_optimized_ones() {
    let cluster = start();
    let optimized = |at: usize| {
        let groups: BTreeMap<u16, (u8, u8)> = groups_at(cluster.nodes[at].port);
        groups.into_iter().filter(|(_, (_, state))| *state == 0).map(|(tag, _)| tag).collect::<Vec<_>>()
    };
    for at in 0..3 {
        assert_eq!(optimized(at), [65], "LUN 0, as the port of n{} says", at + 1);
    }
}

/// The node of controller 1 is killed, begins anew, and is stopped: each time the host goes on.
fn dies_returns_and_stops(cluster: &mut Cluster, host: &Host) {
    cluster.nodes[1].process.kill().expect("kill -9");
    cluster.nodes[0].says("controller 1 runs at this node");
    host.goes_on();
    let before = count(cluster, 0, "controller 1 runs at node n2");
    cluster.again(1);
    again(cluster, 0, "controller 1 runs at node n2", before);
    host.goes_on();
    // In order: it says so, and nobody waits for its term.
    cluster.nodes[1].signal("-TERM");
    again(cluster, 0, "controller 1 runs at this node", 1);
    host.goes_on();
}

#[test]
fn a_node_that_dies_loses_nothing_and_gets_its_controller_back_when_it_returns() {
    let mut cluster = start();
    let host = Host::start(&cluster);
    dies_returns_and_stops(&mut cluster, &host);
    let done = host.verified();
    println!("killed, back, stopped: a gap of {:?} in {} writes", done.gap, done.count);
    assert_eq!(count(&cluster, 0, "owns the array"), 2, "the line and its event: the owner stays");
}

#[test]
fn when_the_owner_dies_the_others_stop_their_controllers_and_one_takes_over() {
    let mut cluster = start();
    let host = Host::start(&cluster);
    cluster.nodes[0].process.kill().expect("kill -9");
    let next = cluster.successor(0);
    let (own, other) = if next == 1 {
        ("n2", "controller 2 runs at node n3")
    } else {
        ("n3", "controller 1 runs at node n2")
    };
    cluster.nodes[next].says(other);
    let done = host.verified();
    println!("the owner dies, {own} follows: a gap of {:?} in {} writes", done.gap, done.count);
    for at in [1, 2] {
        assert!(cluster.nodes[at].process.try_wait().expect("wait").is_none(), "n{} has ended", at + 1);
    }
}

#[test]
fn a_node_that_stands_still_is_fenced_by_its_locks_and_writes_nothing_when_it_goes_on() {
    let mut cluster = start();
    let host = Host::start(&cluster);
    cluster.nodes[1].signal("-STOP");
    until("all of its threads stand still", || cluster.nodes[1].stands_still());
    cluster.nodes[0].says("waits for the drives of controllers that node n2 ran");
    let status = cluster.nodes[0].ok(&["status"]);
    assert!(status.contains("node n2 is gone"), "{status}");
    let shown = cluster.nodes[0].command(&["pool", "show", "p1"]);
    let said = String::from_utf8_lossy(&shown.stderr);
    assert!(!shown.status.success() && said.contains("not served: node n2 is gone"), "{said}");
    // Another owner would serve nothing before n2 goes on.
    let says = |args: &[&str]| {
        let output = cluster.nodes[0].command(&[args, &["--registry", &cluster.registry]].concat());
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let waits = "node n2 stands still and holds drives";
    until("the registry has it", || says(&["node", "list"]).1.contains(waits));
    let (moved, said) = says(&["node", "drain", "n1"]);
    assert!(!moved && said.contains(waits), "{said}");
    cluster.nodes[1].signal("-CONT");
    assert_eq!(cluster.nodes[1].ended(), Some(LOST));
    cluster.nodes[0].says("controller 1 runs at this node");
    host.goes_on();
    let done = host.verified();
    println!("stands still: a gap of {:?} in {} writes", done.gap, done.count);
}

/// Its commands take two hops: from n3 to the owner, and from there to n2.
#[test]
fn a_host_at_the_portal_of_one_standby_reaches_the_lu_of_another_one() {
    let mut cluster = start();
    let mut done = vec![];
    // A host at the third node alone, and one at the node that runs the controller.
    for at in [2, 1] {
        let host = Host::over(&cluster, vec![cluster.nodes[at].port]);
        let before = host.count.load(Relaxed);
        sleep(Duration::from_secs(2));
        done.push((host.count.load(Relaxed) - before) / 2);
        host.verified();
    }
    println!("writes a second: two hops {}, at its own node {}", done[0], done[1]);
    let host = Host::over(&cluster, vec![cluster.nodes[2].port]);
    dies_returns_and_stops(&mut cluster, &host);
    let done = host.verified();
    println!("two hops, killed, back, stopped: a gap of {:?} in {} writes", done.gap, done.count);
}

#[test]
fn a_planned_move_ends_the_controllers_of_other_nodes_in_order() {
    let cluster = start();
    let host = Host::start(&cluster);
    for (from, to, then) in
        [(0, "n2", "controller 0 runs at node n1"), (1, "n1", "controller 1 runs at node n2")]
    {
        let at = usize::from(from == 0);
        let before = count(&cluster, at, then);
        let node = &cluster.nodes[from];
        node.ok(&["node", "drain", &node.name, "--to", to, "--registry", &cluster.registry]);
        again(&cluster, at, then, before);
        host.goes_on();
    }
    let done = host.verified();
    println!("moved twice: a gap of {:?} in {} writes", done.gap, done.count);
}

#[test]
fn a_node_with_two_controllers_gives_both_back_when_it_ends() {
    let dir = directory();
    let text = declaration(dir.path()).replace("[\"n1\", \"n2\", \"n3\"]", "[\"\", \"n2\", \"n2\"]");
    let registry = dir.path().join("registry").display().to_string();
    let mut cluster = Cluster::declared(1, dir, &text, registry);
    assert_eq!(cluster.owner(), 0);
    cluster.join();
    let both = |text: &str| [1, 2].map(|index| format!("controller {index} runs at {text}"));
    both("node n2").iter().for_each(|text| _ = cluster.nodes[0].says(text));
    let host = Host::start(&cluster);
    cluster.nodes[1].process.kill().expect("kill -9");
    both("this node").iter().for_each(|text| _ = cluster.nodes[0].says(text));
    host.goes_on();
    cluster.nodes[1].ended();
    cluster.again(1);
    both("node n2").iter().for_each(|text| again(&cluster, 0, text, 1));
    cluster.nodes[1].signal("-TERM");
    assert_eq!(cluster.nodes[1].ended(), Some(0), "in order, beside a host");
    both("this node").iter().for_each(|text| again(&cluster, 0, text, 1));
    host.goes_on();
    let done = host.verified();
    println!("two controllers come back: a gap of {:?} in {} writes", done.gap, done.count);
}

/// A host that had registered without APTPL lost its fence with the node, and did not know it.
#[test]
fn a_fence_holds_when_the_node_of_its_controller_dies_and_when_it_comes_back() {
    let mut cluster = start();
    let fenced = reservations::fence(&cluster);
    cluster.nodes[1].process.kill().expect("kill -9");
    cluster.nodes[0].says("controller 1 runs at this node");
    assert_eq!(reservations::found(&cluster), fenced, "at the owner");
    let before = count(&cluster, 0, "controller 1 runs at node n2");
    cluster.again(1);
    again(&cluster, 0, "controller 1 runs at node n2", before);
    assert_eq!(reservations::found(&cluster), fenced, "at its node again");
    cluster.nodes[0].process.kill().expect("kill -9");
    cluster.successor(0);
    assert_eq!(reservations::found(&cluster), fenced, "after a take-over");
}

/// It was accepted, and no node could take the array over any more.
#[test]
fn a_drive_that_other_nodes_cannot_have_is_refused_when_the_command_comes() {
    let cluster = Cluster::start(1);
    let node = &cluster.nodes[cluster.owner()];
    // In its data directory.
    let output = node.command(&["drive", "create", "own", "own.img", "--size", "64MiB"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("a path that all nodes share"), "{said}");
    let status = node.ok(&["status"]);
    assert!(!status.contains("cannot save"), "{status}");
}
