//! Nodes over RBD images with etcd, both real: judges/cluster.sh starts them, and runs these.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Acknowledged, Cluster, Host, LOST, TARGET, until};

/// A table line of one case, with its bar: said, not judged, for other work may run beside.
pub(super) fn tell(case: &str, done: &Acknowledged, bar: Duration) {
    let verdict = if done.gap <= bar { "held" } else { "not held" };
    let (gap, bar) = (done.gap.as_millis(), bar.as_millis());
    println!("{case:<32} gap {gap:>6} ms, bar {bar} {verdict}; {:>6} writes, nothing lost", done.count);
}

pub(super) const UNPLANNED: Duration = Duration::from_secs(12);
pub(super) const PLANNED: Duration = Duration::from_secs(1);
/// A drive that cannot be fenced is waited for this long, and for one more attempt.
const FENCE_PATIENCE: Duration = Duration::from_secs(6);
/// Of an absence of etcd for 10 s.
pub(super) const ETCD_AWAY: Duration = Duration::from_secs(22);

fn of_judge(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn rbd(args: &[&str]) {
    let done = Command::new("rbd").args(["-c", &of_judge("MASU_CEPH_CONF")]).args(args).status();
    assert!(done.expect("rbd runs").success(), "rbd {args:?}");
}

/// A new image, as a drive is declared on it.
pub(super) fn new_image(case: &str) -> String {
    let image = format!("vms/{case}");
    rbd(&["create", "--size", "192M", &image]);
    format!("rbd = \"{image}\"\nrbd_conf = \"{}\"", of_judge("MASU_CEPH_CONF"))
}

/// So many nodes on a new RBD image with etcd, as judges/cluster.sh has set them up.
fn over_rbd_and_etcd(nodes: usize, case: &str) -> Cluster {
    let drive = new_image(case);
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::of(nodes, dir, &drive, format!("etcd://{}/masu/{case}", of_judge("MASU_ETCD")));
    cluster.owner();
    cluster
}

fn etcd_stands_still(time: Duration) {
    let signal = |name: &str| {
        let pid = of_judge("MASU_ETCD_PID");
        assert!(Command::new("kill").args([name, &pid]).status().expect("kill runs").success());
    };
    signal("-STOP");
    sleep(time);
    signal("-CONT");
}

#[test]
#[ignore = "needs Ceph and etcd: judges/cluster.sh"]
fn kill_9() {
    let rounds = std::env::var("KILLS").map_or(3, |text| text.parse().expect("KILLS is a number"));
    for round in 0..rounds {
        let mut cluster = over_rbd_and_etcd(2, &format!("kill{round}"));
        let owner = cluster.owner();
        let host = Host::start(&cluster);
        cluster.nodes[owner].process.kill().expect("kill -9");
        cluster.nodes[1 - owner].says("array: serves");
        tell("kill -9 of the owner", &host.verified(), UNPLANNED);
    }
}

#[test]
#[ignore = "needs Ceph and etcd: judges/cluster.sh"]
fn sigstop() {
    let mut cluster = over_rbd_and_etcd(2, "stop");
    let owner = cluster.owner();
    let host = Host::start(&cluster);
    // In the middle of writes: what it still sends when it wakes up is refused by the OSDs.
    cluster.nodes[owner].signal("-STOP");
    cluster.nodes[1 - owner].says("array: serves");
    assert!(cluster.nodes[1 - owner].log().contains("fenced"), "served without a fence");
    sleep(Duration::from_secs(1));
    cluster.nodes[owner].signal("-CONT");
    assert_eq!(cluster.nodes[owner].ended(), Some(LOST));
    assert!(cluster.nodes[1 - owner].serves());
    tell("SIGSTOP, fenced, SIGCONT", &host.verified(), UNPLANNED);
}

#[test]
#[ignore = "needs Ceph and etcd: judges/cluster.sh"]
fn sigterm() {
    let mut cluster = over_rbd_and_etcd(2, "term");
    let owner = cluster.owner();
    let host = Host::start(&cluster);
    cluster.nodes[owner].signal("-TERM");
    cluster.nodes[1 - owner].says("array: serves");
    assert_eq!(cluster.nodes[owner].ended(), Some(0));
    assert!(!cluster.nodes[1 - owner].log().contains("fenced"), "nobody had the image");
    tell("SIGTERM of the owner", &host.verified(), PLANNED);
}

#[test]
#[ignore = "needs Ceph and etcd: judges/cluster.sh"]
fn absence_of_etcd() {
    for (seconds, most) in [(3, PLANNED), (10, ETCD_AWAY)] {
        let cluster = over_rbd_and_etcd(2, &format!("etcd{seconds}"));
        let host = Host::start(&cluster);
        etcd_stands_still(Duration::from_secs(seconds));
        cluster.owner();
        tell(&format!("etcd stopped for {seconds} s"), &host.verified(), most);
    }
}

/// An image that is missing held up the take-over of the whole array for ever.
#[test]
#[ignore = "needs Ceph and etcd: judges/cluster.sh"]
fn without_an_image_that_the_group_can_do_without() {
    const IMAGES: usize = 9;
    let conf = of_judge("MASU_CEPH_CONF");
    let drive = |n: usize| {
        rbd(&["create", "--size", "192M", &format!("vms/parity{n}")]);
        format!("[[drive]]\nname = \"d{n}\"\nrbd = \"vms/parity{n}\"\nrbd_conf = \"{conf}\"\n")
    };
    let drives: String = (0..IMAGES).map(drive).collect();
    let names: Vec<String> = (0..IMAGES).map(|n| format!("d{n}")).collect();
    let group = format!("[[group]]\nname = \"g0\"\nlevel = \"raid5\"\ndrives = {names:?}");
    let registry = format!("etcd://{}/masu/parity", of_judge("MASU_ETCD"));
    let dir = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::over(2, dir, &format!("{drives}{group}"), registry);
    let owner = cluster.owner();
    let host = Host::start(&cluster);
    // Its owner goes on with it; nobody else finds it by its name.
    rbd(&["rename", "vms/parity4", "vms/elsewhere"]);
    cluster.nodes[owner].process.kill().expect("kill -9");
    let next = cluster.successor(owner);
    let log = cluster.nodes[next].log();
    assert!(log.contains("begins without what it cannot claim: drive \"d4\""), "{log}");
    assert!(log.contains("group g0: opened, degraded"), "{log}");
    tell("kill -9, one of nine images away", &host.verified(), UNPLANNED + FENCE_PATIENCE);
}

/// The content of the image of a case.
fn image(case: &str) -> Vec<u8> {
    let export = Command::new("rbd")
        .args(["-c", &of_judge("MASU_CEPH_CONF"), "export", "--no-progress", &format!("vms/{case}"), "-"])
        .output()
        .expect("rbd runs");
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    export.stdout
}

/// The owner stands still for 30 s and goes on, while another node has the array.
fn stopped_and_woken(cluster: &mut Cluster, case: &str) {
    let owner = cluster.owner();
    let host = Host::start(cluster);
    cluster.nodes[owner].signal("-STOP");
    let stopped = Instant::now();
    until("all of its threads stand still", || cluster.nodes[owner].stands_still());
    let next = cluster.successor(owner);
    assert!(cluster.nodes[next].log().contains("fenced"), "served without a fence");
    sleep(Duration::from_secs(30).saturating_sub(stopped.elapsed()));
    // What changes the image from here on is of the one that wakes up: the other one has nothing to do.
    host.hold();
    let before = image(case);
    cluster.nodes[owner].signal("-CONT");
    assert_eq!(cluster.nodes[owner].ended(), Some(LOST));
    assert!(image(case) == before, "the one that woke up has written");
    host.go_on();
    assert!(cluster.nodes[next].serves());
    cluster.again(owner);
    cluster.nodes[owner].stands_by();
    tell("SIGSTOP for 30 s, SIGCONT", &host.verified(), UNPLANNED);
}

/// All in one cluster of three nodes, each case after the other: what a case left behind would hurt the next.
#[test]
#[ignore = "needs Ceph and etcd: judges/cluster.sh short"]
fn in_short() {
    const CASE: &str = "short";
    let mut cluster = over_rbd_and_etcd(3, CASE);

    let owner = cluster.owner();
    let host = Host::start(&cluster);
    cluster.nodes[owner].process.kill().expect("kill -9");
    cluster.successor(owner);
    tell("kill -9 of the owner", &host.verified(), UNPLANNED);
    cluster.nodes[owner].ended();
    cluster.again(owner);
    cluster.nodes[owner].stands_by();

    stopped_and_woken(&mut cluster, CASE);

    let owner = cluster.owner();
    let host = Host::start(&cluster);
    let name = cluster.nodes[owner].name.clone();
    let moved = cluster.nodes[owner].ok(&["node", "drain", &name, "--registry", &cluster.registry]);
    assert!(moved.contains(&format!("has moved from {name} to ")), "{moved}");
    cluster.nodes[owner].stands_by();
    tell("drained", &host.verified(), PLANNED);

    let owner = cluster.owner();
    let host = Host::start(&cluster);
    cluster.nodes[owner].signal("-TERM");
    assert_eq!(cluster.nodes[owner].ended(), Some(0));
    cluster.successor(owner);
    cluster.again(owner);
    cluster.nodes[owner].stands_by();
    tell("SIGTERM of the owner", &host.verified(), PLANNED);

    let owner = cluster.owner();
    let host = Host::start(&cluster);
    etcd_stands_still(Duration::from_secs(10));
    assert_eq!(cluster.nodes[owner].ended(), Some(LOST));
    cluster.successor(owner);
    tell("etcd stopped for 10 s", &host.verified(), ETCD_AWAY);
}

/// A node that runs a controller for the owner, on an image of its own.
#[test]
#[ignore = "needs Ceph and etcd: judges/cluster.sh"]
fn a_controller_at_another_node() {
    let conf = of_judge("MASU_CEPH_CONF");
    let part = |index: usize| {
        rbd(&["create", "--size", "192M", &format!("vms/part{index}")]);
        format!(
            "[[drive]]\nname = \"d{index}\"\nrbd = \"vms/part{index}\"\nrbd_conf = \"{conf}\"\n\
             [[group]]\nname = \"g{index}\"\nlevel = \"raid0\"\ndrives = [\"d{index}\"]\n\
             [[pool]]\nname = \"p{index}\"\ngroups = [\"g{index}\"]\ncontroller = {index}\n\
             [[volume]]\nname = \"v{index}\"\npool = \"p{index}\"\nsize = \"16MiB\"\n"
        )
    };
    let parts = [part(0), part(1)].concat();
    let text = format!(
        "target = \"{TARGET}\"\ncontrollers = 2\ncontroller_nodes = [\"n1\", \"n2\"]\n{parts}\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v1\" }}\n"
    );
    let (there, here) = ("controller 1 runs at node n2", "controller 1 runs at this node");
    let times = |cluster: &Cluster, text: &str| cluster.nodes[0].log().matches(text).count();
    let says = |cluster: &Cluster, text: &str, count| until(text, || times(cluster, text) == count);
    let registry = format!("etcd://{}/masu/parts", of_judge("MASU_ETCD"));
    let mut cluster = Cluster::declared(1, tempfile::tempdir().expect("a directory"), &text, registry);
    assert_eq!(cluster.owner(), 0);
    cluster.join();
    says(&cluster, there, 1);

    let host = Host::start(&cluster);
    cluster.nodes[1].process.kill().expect("kill -9");
    says(&cluster, here, 1);
    tell("kill -9 of a controller's node", &host.verified(), UNPLANNED);
    cluster.nodes[1].ended();
    cluster.again(1);
    says(&cluster, there, 2);

    let host = Host::start(&cluster);
    cluster.nodes[1].signal("-STOP");
    says(&cluster, here, 2);
    host.goes_on();
    // In the middle of writes: what it still sends when it wakes up is refused by the OSDs.
    host.hold();
    let before = image("part1");
    cluster.nodes[1].signal("-CONT");
    assert_eq!(cluster.nodes[1].ended(), Some(LOST));
    assert!(image("part1") == before, "the one that woke up has written");
    host.go_on();
    tell("SIGSTOP of it, SIGCONT", &host.verified(), UNPLANNED);
    cluster.again(1);
    says(&cluster, there, 3);

    let host = Host::start(&cluster);
    cluster.nodes[1].signal("-TERM");
    says(&cluster, here, 3);
    tell("SIGTERM of it", &host.verified(), PLANNED);
}
