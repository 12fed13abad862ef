//! Nodes of two versions of masu: judges/rolling_upgrade.sh builds the older one, and runs these.

use super::*;

/// The longest time without an acknowledgement while nodes are updated in order.
const PLANNED: Duration = Duration::from_secs(1);
/// A node that is up offers to run its controllers within this time.
const OFFERED: Duration = Duration::from_secs(4);

fn older() -> PathBuf {
    std::env::var("MASU_OLDER").expect("MASU_OLDER is not set").into()
}

fn newer() -> PathBuf {
    env!("CARGO_BIN_EXE_masu").into()
}

/// Three nodes of the older version. LUN 0 is on the second of two controllers.
fn older_nodes() -> Cluster {
    let dir = directory();
    let pools = controllers::pools(dir.path(), 2);
    let text = format!(
        "target = \"{TARGET}\"\ncontrollers = 2\n{pools}\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v1\", 1 = \"v0\" }}\n"
    );
    let registry = dir.path().join("registry").display().to_string();
    let mut cluster = Cluster::declared(0, dir, &text, registry);
    cluster.masu = older();
    (0..3).for_each(|_| cluster.join());
    cluster.owner();
    cluster
}

/// Ends a standby in order, and starts it with this version.
fn restarted(cluster: &mut Cluster, at: usize, masu: &Path) {
    cluster.nodes[at].signal("-TERM");
    assert_eq!(cluster.nodes[at].ended(), Some(0), "{}", cluster.nodes[at].log());
    cluster.masu = masu.to_owned();
    cluster.again(at);
    cluster.nodes[at].stands_by();
}

/// The same, and waits until all nodes are up.
fn updated(cluster: &mut Cluster, at: usize, masu: &Path) {
    restarted(cluster, at, masu);
    // Its record has a lease again.
    until("all nodes are up", || {
        let list = cluster.nodes[at].ok(&["node", "list", "--registry", &cluster.registry]);
        list.contains(" owner ") && !list.contains(" down ")
    });
}

/// Updates all nodes one after the other, the owner last, as docs/releasing.md says.
fn roll(cluster: &mut Cluster, masu: &Path) {
    let owner = cluster.owner();
    for at in (0..3).filter(|at| *at != owner) {
        updated(cluster, at, masu);
    }
    let next = (owner + 1) % 3;
    let name = |at: usize| cluster.nodes[at].name.clone();
    cluster.nodes[owner].ok(&[
        "node",
        "drain",
        &name(owner),
        "--to",
        &name(next),
        "--registry",
        &cluster.registry,
    ]);
    until("the next one serves", || cluster.nodes[next].serves());
    cluster.nodes[owner].stands_by();
    updated(cluster, owner, masu);
    assert_eq!(cluster.owner(), next);
}

#[test]
#[ignore = "needs an older version: judges/rolling_upgrade.sh"]
fn nodes_are_updated_one_after_the_other_and_back_under_load() {
    let mut cluster = older_nodes();
    let host = Host::start(&cluster);
    for (masu, volume) in [(newer(), "of-the-newer"), (older(), "of-the-older"), (newer(), "again")] {
        roll(&mut cluster, &masu);
        host.goes_on();
        let owner = cluster.owner();
        cluster.nodes[owner].ok(&["volume", "create", volume, "--size", "1MiB", "--pool", "p0"]);
        cluster.nodes[owner].ok(&["status"]);
    }
    let owner = cluster.owner();
    let volumes = cluster.nodes[owner].ok(&["volume", "list"]);
    for volume in ["of-the-newer", "of-the-older", "again"] {
        assert!(volumes.contains(volume), "{volumes}");
    }
    let done = host.verified();
    println!(
        "updated, back, updated: gap {} ms, bar {} ms, {} writes",
        done.gap.as_millis(),
        PLANNED.as_millis(),
        done.count
    );
}

#[test]
#[ignore = "needs an older version: judges/rolling_upgrade.sh"]
fn a_node_of_either_version_takes_over_from_one_of_the_other_that_was_killed() {
    let mut cluster = older_nodes();
    let owner = cluster.owner();
    for at in (0..3).filter(|at| *at != owner) {
        updated(&mut cluster, at, &newer());
    }
    let host = Host::start(&cluster);
    cluster.nodes[owner].process.kill().expect("kill -9");
    cluster.nodes[owner].ended();
    // For a moment the kernel still accepts connections for the one that was killed.
    let next = cluster.successor(owner);
    host.goes_on();
    // The other one becomes the older version's again, and then the only one that is left.
    let other = 3 - owner - next;
    restarted(&mut cluster, other, &older());
    cluster.nodes[next].process.kill().expect("kill -9");
    cluster.nodes[next].ended();
    until("the node of the older version serves", || cluster.nodes[other].serves());
    host.goes_on();
    let done = host.verified();
    println!("killed twice: gap {} ms, {} writes", done.gap.as_millis(), done.count);
}

/// As long as one node is of the older version, its controllers stay where they were; then each gets its own.
#[test]
#[ignore = "needs an older version: judges/rolling_upgrade.sh"]
fn controllers_go_to_nodes_of_the_owners_version_alone() {
    let mut cluster = older_nodes();
    let host = Host::start(&cluster);
    roll(&mut cluster, &newer());
    let now = cluster.owner();
    let (own, other) = (cluster.nodes[now].name.clone(), (now + 1) % 3);
    let config = cluster.dir.path().join("array.toml");
    let known_to_both = fs::read_to_string(&config).expect("readable");
    let there = cluster.nodes[other].name.clone();
    let text = known_to_both.replace(
        "controllers = 2\n",
        &format!("controllers = 2\ncontroller_nodes = [\"{own}\", \"{there}\"]\n"),
    );
    fs::write(&config, text).expect("written");
    cluster.nodes[now].signal("-HUP");
    let lent = format!("controller 1 runs at node {there}");
    cluster.nodes[now].says(&lent);
    host.goes_on();
    // It goes back to the older version: the owner has its controller.
    cluster.nodes[other].signal("-TERM");
    assert_eq!(cluster.nodes[other].ended(), Some(0));
    cluster.nodes[now].says("controller 1 runs at this node");
    // The owner keeps what it was told; the older version does not know it.
    fs::write(&config, known_to_both).expect("written");
    cluster.masu = older();
    cluster.again(other);
    cluster.nodes[other].stands_by();
    let times = cluster.nodes[now].log().matches(&lent).count();
    sleep(OFFERED);
    assert_eq!(cluster.nodes[now].log().matches(&lent).count(), times, "lent to an older version");
    host.goes_on();
    let done = host.verified();
    println!("a controller there and back: gap {} ms, {} writes", done.gap.as_millis(), done.count);
}
