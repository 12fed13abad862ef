//! Which node serves: one that is killed, asked to stop, drained, stopped and continued, or without its
//! registry, and the next one.

use super::*;

#[test]
fn kill_9_of_the_owner_loses_nothing_and_the_next_one_serves_after_the_lease() {
    let mut cluster = Cluster::start(2);
    let owner = cluster.owner();
    let host = Host::start(&cluster);
    cluster.nodes[owner].process.kill().expect("kill -9");
    cluster.nodes[1 - owner].says("array: serves");
    let done = host.verified();
    println!("kill -9: a gap of {:?} in {} writes", done.gap, done.count);
    assert!(done.gap > Duration::from_secs(4), "{:?}", done.gap);
    assert_eq!(cluster.nodes[1 - owner].takes_over(), (0, 1));
    // The dead one comes back as a standby.
    cluster.again(owner);
    cluster.nodes[owner].says("standby of");
}

#[test]
fn an_owner_that_is_asked_to_stop_hands_over_at_once() {
    let mut cluster = Cluster::start(2);
    let owner = cluster.owner();
    let host = Host::start(&cluster);
    cluster.nodes[owner].signal("-TERM");
    let took = cluster.nodes[1 - owner].says("array: serves");
    // This host does not log out when it is asked to: others that did wait for it.
    assert!(took < Duration::from_secs(2), "the next one serves after {took:?}");
    assert_eq!(cluster.nodes[owner].ended(), Some(0));
    let done = host.verified();
    println!("SIGTERM: a gap of {:?} in {} writes", done.gap, done.count);
    // It has told the standbys before: hosts wait there for the next owner.
    let asked = Command::new("grep").args(["-rqs", "ask = \"drain\"", &cluster.registry]).status();
    assert!(asked.expect("grep runs").success(), "standbys led hosts to an owner that left");
    assert_eq!(cluster.nodes[1 - owner].takes_over(), (1, 0));
}

#[test]
fn an_owner_that_stops_leads_its_hosts_to_the_next_one_and_a_second_signal_ends_it_at_once() {
    let mut cluster = Cluster::start(2);
    let first = cluster.owner();
    for (owner, signal, is_told_twice) in [(first, "-INT", false), (1 - first, "-TERM", true)] {
        // It has no other path: only the node that leaves can lead it.
        let host = Host::over(&cluster, vec![cluster.nodes[owner].port]);
        cluster.nodes[owner].signal(signal);
        cluster.nodes[1 - owner].says("array: serves");
        cluster.nodes[owner].says(&format!("leads hosts to {}", cluster.nodes[1 - owner].name));
        host.goes_on();
        if is_told_twice {
            cluster.nodes[owner].signal(signal);
        }
        assert_eq!(cluster.nodes[owner].ended(), Some(0));
        let log = cluster.nodes[owner].log();
        let end =
            if is_told_twice { "a second signal: ends at once" } else { "ends: 1 connections of hosts" };
        assert!(log.lines().last().is_some_and(|line| line.contains(end)), "{log}");
        let done = host.verified();
        println!("{signal}: a gap of {:?} in {} writes over the portal that goes", done.gap, done.count);
        assert_eq!(cluster.nodes[1 - owner].takes_over().1, 0);
        cluster.again(owner);
        cluster.nodes[owner].says("standby of");
    }
}

#[test]
fn an_owner_without_another_node_stops_at_once() {
    let mut cluster = Cluster::start(1);
    cluster.owner();
    cluster.nodes[0].signal("-TERM");
    assert_eq!(cluster.nodes[0].ended(), Some(0));
    let log = cluster.nodes[0].log();
    assert!(log.contains("hands over") && !log.contains("leads hosts") && !log.contains("ends:"), "{log}");
}

#[test]
fn a_drained_owner_stands_by_and_can_be_the_owner_again() {
    let cluster = Cluster::start(2);
    let owner = cluster.owner();
    let host = Host::start(&cluster);
    let registry = cluster.registry.clone();
    for from in [owner, 1 - owner] {
        let (drained, next) = (&cluster.nodes[from], &cluster.nodes[1 - from]);
        let refused = drained.command(&["node", "drain", &next.name, "--registry", &registry]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && text.contains("there is nothing to move"), "{text}");
        let moved = drained.ok(&["node", "drain", &drained.name, "--registry", &registry]);
        assert!(moved.contains(&format!("has moved from {} to {}", drained.name, next.name)), "{moved}");
        drained.stands_by();
        // Its log says so a moment after the registry does.
        until("the other node serves", || next.serves());
        assert!(!drained.serves());
    }
    let done = host.verified();
    println!("drained twice: a gap of {:?} in {} writes", done.gap, done.count);
    cluster.nodes.iter().for_each(|node| assert_eq!(node.takes_over().1, 0));
}

#[test]
fn an_owner_that_was_stopped_for_longer_than_its_lease_wakes_up_and_writes_nothing() {
    let mut cluster = Cluster::start(2);
    let owner = cluster.owner();
    let next = 1 - owner;
    let host = Host::start(&cluster);
    // What was handed to the kernel before may still be carried out by it: the locks are held until then. So
    // that the drive does not change by this, nothing is in flight when the owner is stopped.
    host.hold();
    cluster.nodes[owner].signal("-STOP");
    until("all of its threads stand still", || cluster.nodes[owner].stands_still());
    // The next write waits in the socket of the stopped one.
    host.go_on();
    cluster.nodes[next].says("waits for its drives");
    assert!(!cluster.nodes[next].serves());
    // The next one stands still, too, so that every write would be the first one's.
    cluster.nodes[next].signal("-STOP");
    let before = cluster.drive();
    cluster.nodes[owner].signal("-CONT");
    assert_eq!(cluster.nodes[owner].ended(), Some(LOST));
    let after = cluster.drive();
    assert!(after == before, "it has written");
    cluster.nodes[next].signal("-CONT");
    cluster.nodes[next].says("array: serves");
    let done = host.verified();
    println!("SIGSTOP: a gap of {:?} in {} writes", done.gap, done.count);
    assert!(cluster.nodes[next].log().contains("the drives are free"));
}

#[test]
fn an_owner_rides_out_a_short_absence_of_the_registry_and_stops_in_a_long_one() {
    let mut cluster = Cluster::start(2);
    let owner = cluster.owner();
    let host = Host::start(&cluster);
    let away = cluster.dir.path().join("away");
    fs::rename(cluster.registry(), &away).expect("moved");
    sleep(Duration::from_millis(2500));
    fs::rename(&away, cluster.registry()).expect("moved");
    sleep(Duration::from_secs(1));
    let done = host.verified();
    println!("registry away for 2.5 s: a gap of {:?} in {} writes", done.gap, done.count);
    assert!(cluster.nodes[owner].serves());
    assert_eq!(cluster.nodes[owner].takes_over(), (1, 0));
    let host = Host::start(&cluster);
    fs::rename(cluster.registry(), &away).expect("moved");
    let begun = Instant::now();
    assert_eq!(cluster.nodes[owner].ended(), Some(LOST));
    let time = begun.elapsed();
    assert!(time > Duration::from_secs(4), "{time:?}");
    sleep(Duration::from_secs(2));
    assert!(!cluster.nodes[1 - owner].serves(), "nobody takes over without the registry");
    fs::rename(&away, cluster.registry()).expect("moved");
    cluster.nodes[1 - owner].says("array: serves");
    let done = host.verified();
    println!("registry away for {:?}: a gap of {:?}", time + Duration::from_secs(2), done.gap);
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-r").args([from, to]).status().expect("cp runs");
    assert!(done.success());
}

#[test]
fn of_three_nodes_one_serves_and_changes_by_command_follow_the_owner() {
    let mut cluster = Cluster::start(2);
    let first = cluster.owner();
    cluster.join();
    cluster.nodes[2].says("standby of");
    assert!(!cluster.nodes[2].serves());
    // On a socket that nobody leads to the owner, a standby says what it is.
    let refused = moves::ask(&cluster.nodes[2], "GET", "/readyz", "");
    assert!(
        refused.contains("503") && refused.contains("standby of") && refused.contains("epoch 1"),
        "{refused}"
    );
    cluster.nodes[first].ok(&["volume", "create", "by-command", "--size", "1MiB"]);
    cluster.nodes[first].ok(&["host", "unmap", "any", "v0", "--yes"]);
    let backup = cluster.dir.path().join("backup");
    copy(&cluster.registry(), &backup);
    cluster.nodes[first].signal("-TERM");
    assert_eq!(cluster.nodes[first].ended(), Some(0));
    let second = cluster.owner();
    cluster.nodes[second].says("array: serves");
    let list = cluster.nodes[second].ok(&["volume", "list"]);
    // The declaration maps v0: that it was unmapped by command is known only with the base that follows, too.
    assert!(list.contains("by-command") && !list.contains("any:0"), "{list}");
    let registry = cluster.registry();
    let nodes = cluster.nodes[second].ok(&["node", "list", "--registry", registry.to_str().expect("utf-8")]);
    let row = |name: &str| nodes.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(
        row(&cluster.nodes[second].name)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("owner 2 "),
        "{nodes}"
    );
    assert!(row(&cluster.nodes[first].name).contains("down"), "{nodes}");
    // A registry that was restored from before the take-over.
    for node in &mut cluster.nodes {
        // One has ended already.
        let _ = node.process.kill();
        node.ended();
    }
    fs::remove_dir_all(&registry).expect("removed");
    fs::rename(&backup, &registry).expect("moved");
    cluster.again(second);
    cluster.nodes[second].says("the registry is older than the array");
    assert!(!cluster.nodes[second].serves());
    cluster.nodes[second].process.kill().expect("kill -9");
    cluster.nodes[second].ended();
    refused_by_the_labels_until_the_epoch_is_raised(&mut cluster);
}

/// With the registry from before the epoch 2: a new node has not seen that epoch. The drives have.
fn refused_by_the_labels_until_the_epoch_is_raised(cluster: &mut Cluster) {
    cluster.join();
    let image = cluster.dir.path().join("d0.img");
    let drive = || fs::read(&image).expect("the drive");
    let before = drive();
    let refused = "another owner had it open with epoch 2, and this one has epoch 2";
    cluster.nodes[3].says(refused);
    cluster.nodes[3].says("take this one with `masu node raise-epoch 3`");
    assert!(drive() == before, "it wrote to the drive");
    let registry = cluster.registry.clone();
    let raise = |node: &Node, epoch: &str| {
        let output = node.command(&["node", "raise-epoch", epoch, "--yes", "--registry", &registry]);
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    };
    let said = raise(&cluster.nodes[3], "2");
    assert!(said.contains("owns the array (epoch 2): stop it first"), "{said}");
    cluster.nodes[3].signal("-TERM");
    assert_eq!(cluster.nodes[3].ended(), Some(0));
    // Another take-over would be by epoch 3, which is above that of the labels.
    cluster.again(3);
    let older = "the registry is older than the array: it has epoch 2, and drives have a later one";
    cluster.nodes[3].says(older);
    cluster.nodes[3].signal("-TERM");
    assert_eq!(cluster.nodes[3].ended(), Some(0));
    let said = raise(&cluster.nodes[3], "1");
    assert!(said.contains("has epoch 2, which is not below 1"), "{said}");
    let said = raise(&cluster.nodes[3], "3");
    assert!(said.contains("has epoch 3 now, before 2"), "{said}");
    assert!(drive() == before, "it wrote to the drive");
    cluster.again(3);
    cluster.nodes[3].says("group g0: opened");
}

/// Before, a registry without a state opened whatever its declaration named, as a new array would.
#[test]
fn a_new_registry_does_not_open_what_an_owner_of_another_one_had_open() {
    let mut cluster = Cluster::start(1);
    cluster.owner();
    cluster.nodes[0].says("array: serves");
    let exported = cluster.nodes[0].ok(&["config", "export"]);
    let id = exported.lines().find(|line| line.starts_with("id = ")).expect("the array's identifier");
    let config = cluster.dir.path().join("array.toml");
    let declared = fs::read_to_string(&config).expect("a declaration");
    fs::write(&config, format!("{id}\n{declared}")).expect("written");
    cluster.nodes[0].process.kill().expect("kill -9");
    cluster.nodes[0].ended();
    let before = cluster.drive();
    cluster.registry = cluster.dir.path().join("another").display().to_string();
    cluster.join();
    cluster.nodes[1].says("another owner had it open with epoch 1, and this one has epoch 1");
    cluster.nodes[1].says("masu node raise-epoch 2");
    cluster.nodes[1].signal("-TERM");
    cluster.nodes[1].ended();
    assert!(cluster.drive() == before, "it wrote to the drive");
    let registry = cluster.registry.clone();
    cluster.nodes[1].ok(&["node", "raise-epoch", "2", "--yes", "--registry", &registry]);
    cluster.again(1);
    cluster.nodes[1].says("group g0: opened");
}

#[test]
fn drives_that_other_nodes_cannot_reach_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let shared = format!("file = \"{}\"", dir.path().join("d0.img").display());
    let directory = dir.path().join("registry").display().to_string();
    for (drive, registry, cause) in [
        ("file = \"d0.img\"", &*directory, "data directory"),
        ("memory = true", &directory, "memory of this node"),
        // Two machines would both have the lock of a file. Nobody answers there: it is refused before.
        (&shared, "etcd://127.0.0.1:1", "one machine only"),
    ] {
        let text = format!("[[drive]]\nname = \"d0\"\n{drive}\nsize = \"64MiB\"\n");
        let config = dir.path().join("array.toml");
        fs::write(&config, text).expect("written");
        let output = Command::new(env!("CARGO_BIN_EXE_masu"))
            .args(["serve", "--node", "n1", "--listen", "127.0.0.1:0", "--registry", registry])
            .arg("--data")
            .arg(dir.path().join("data"))
            .arg("--config")
            .arg(&config)
            .output()
            .expect("masu runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("drive \"d0\"") && said.contains(cause), "{said}");
    }
}
