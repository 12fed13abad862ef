//! A node that is to run a controller, and cannot claim a drive of it: another process has its lock.

use std::os::unix::fs::PermissionsExt;

use rustix::fs::{FlockOperation, flock};

use super::*;
use crate::controllers::pools;

/// Takes the lock of a drive as soon as nobody has it, and keeps it until it is dropped.
struct Holder(JoinHandle<File>);

impl Holder {
    fn of(drive: &Path) -> Holder {
        let file = File::options().read(true).write(true).open(drive).expect("the drive's file");
        Holder(std::thread::spawn(move || {
            flock(&file, FlockOperation::LockExclusive).expect("locked");
            file
        }))
    }

    fn has_it(&self) -> bool {
        self.0.is_finished()
    }

    fn lets_go(self) {
        drop(self.0.join().expect("locked"));
    }
}

/// The owner n1 with controller 0, n2 with controller 2, and n3, which is to run controller 1 and waits for
/// its drive. LUN 0 is on controller 0.
fn waiting() -> (Cluster, Holder) {
    let dir = directory();
    let text = format!(
        "target = \"{TARGET}\"\ncontrollers = 3\ncontroller_nodes = [\"n1\", \"n3\", \"n2\"]\n{}\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\", 1 = \"v1\", 2 = \"v2\" }}\n",
        pools(dir.path(), 3)
    );
    let registry = dir.path().join("registry").display().to_string();
    let mut cluster = Cluster::declared(1, dir, &text, registry);
    assert_eq!(cluster.owner(), 0);
    cluster.join();
    cluster.nodes[0].says("controller 2 runs at node n2");
    let holder = Holder::of(&cluster.dir.path().join("d1.img"));
    cluster.join();
    until("the owner has closed the drive", || holder.has_it());
    (cluster, holder)
}

/// It waited without limit, and the owner with the array locked.
#[test]
fn a_node_that_cannot_claim_a_drive_gives_its_controller_back_and_nobody_else_waits() {
    let (mut cluster, holder) = waiting();
    let host = Host::start(&cluster);
    // Before it gives up: another node is lost.
    sleep(Duration::from_secs(2));
    cluster.nodes[1].process.kill().expect("kill -9");
    cluster.nodes[0].says("controller 2 runs at this node");
    assert!(!cluster.nodes[2].log().contains("gives controllers back"), "{}", cluster.nodes[2].log());
    host.goes_on();
    let create = ["volume", "create", "more", "--pool", "p0", "--size", "1MiB"];
    let refused = cluster.nodes[0].command(&create);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("node n3, which is to run it, waits"), "{said}");

    let cause = "it cannot claim the drives of controller 1: drive \"d1\": in use by another process";
    let refused = format!("node n3 does not run controller 1: {cause}");
    until_within(&refused, 2 * WAIT, || cluster.nodes[0].log().contains(&refused));
    cluster.nodes[0].says("controller 1 runs at this node");
    cluster.nodes[0].ok(&create);
    let cannot = "cannot claim the drives of controller 1";
    let status = || cluster.nodes[0].ok(&["status", "--output", "json"]);
    until("the status says so", || status().contains(cannot));
    let list = || cluster.nodes[0].command(&["node", "list", "--registry", &cluster.registry]);
    until("so does the list of nodes", || String::from_utf8_lossy(&list().stderr).contains(cannot));
    holder.lets_go();
    until("the owner serves its pool", || cluster.nodes[0].command(&["pool", "show", "p1"]).status.success());
    assert_eq!(
        cluster.nodes[0].log().matches("controller 1 runs at node n3").count(),
        0,
        "not again at once"
    );
    host.goes_on();
    let done = host.verified();
    println!("a drive that another process has: a gap of {:?} in {} writes", done.gap, done.count);
}

#[test]
fn an_owner_that_stops_does_not_wait_for_a_node_that_claims_drives() {
    let (mut cluster, holder) = waiting();
    sleep(Duration::from_secs(2));
    cluster.nodes[0].signal("-TERM");
    let begun = Instant::now();
    assert_eq!(cluster.nodes[0].ended(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    holder.lets_go();
    cluster.successor(0);
}

/// It waited for all of its drives, without limit.
#[test]
fn a_new_owner_serves_the_pools_whose_drives_it_has_and_the_other_one_when_that_is_free() {
    let dir = directory();
    let text = format!(
        "target = \"{TARGET}\"\ncontrollers = 2\n{}\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\", 1 = \"v1\" }}\n",
        pools(dir.path(), 2)
    );
    let registry = dir.path().join("registry").display().to_string();
    let mut cluster = Cluster::declared(2, dir, &text, registry);
    let owner = cluster.owner();
    let host = Host::start(&cluster);
    let holder = Holder::of(&cluster.dir.path().join("d1.img"));
    cluster.nodes[owner].process.kill().expect("kill -9");
    until("another process has the drive", || holder.has_it());
    let next = &cluster.nodes[cluster.successor(owner)];
    next.says("array: begins without what it cannot claim: drive \"d1\": in use by another process");
    host.goes_on();
    let shown = next.command(&["pool", "show", "p1"]);
    assert!(!shown.status.success(), "{shown:?}");
    let status = next.ok(&["status", "--output", "json"]);
    assert!(
        status.contains("waits for drive \\\"d1\\\": in use") && status.contains("\"unclaimed\""),
        "{status}"
    );
    next.ok(&["volume", "create", "more", "--pool", "p0", "--size", "1MiB"]);
    holder.lets_go();
    next.says("group g1: its drives are claimed");
    until("its pool is served", || next.command(&["pool", "show", "p1"]).status.success());
    let done = host.verified();
    println!("kill -9, a drive held by another process: a gap of {:?} in {} writes", done.gap, done.count);
}

/// The program of a node at which another file is in the place of a drive: in a mount namespace of its own.
/// None: this user may not make one.
fn behind(dir: &Path, drive: &Path, other: &Path) -> Option<PathBuf> {
    let may =
        Command::new("unshare").args(["--mount", "true"]).output().is_ok_and(|done| done.status.success());
    if !may {
        eprintln!("SKIPPED: this user cannot make a mount namespace");
        return None;
    }
    let program = dir.join("masu.sh");
    let masu = env!("CARGO_BIN_EXE_masu");
    let text = format!(
        "#!/bin/sh\nexec unshare --mount sh -c 'mount --bind \"$0\" \"$1\" && shift && exec {masu} \"$@\"' \
         {} {} \"$@\"\n",
        other.display(),
        drive.display()
    );
    fs::write(&program, text).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    Some(program)
}

/// Nobody has the drive, but it is not there: the pool was missing at the node, and stayed there.
#[test]
fn a_node_that_does_not_reach_a_drive_gives_its_controller_back() {
    let dir = directory();
    let text = format!(
        "target = \"{TARGET}\"\ncontrollers = 2\ncontroller_nodes = [\"n1\", \"n2\"]\n{}\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v1\", 1 = \"v0\" }}\n",
        pools(dir.path(), 2)
    );
    let (drive, other) = (dir.path().join("d1.img"), dir.path().join("other.img"));
    File::create(&other).and_then(|file| file.set_len(64 << 20)).expect("a file");
    let Some(program) = behind(dir.path(), &drive, &other) else { return };
    let registry = dir.path().join("registry").display().to_string();
    let mut cluster = Cluster::declared(1, dir, &text, registry);
    assert_eq!(cluster.owner(), 0);
    cluster.masu = program;
    cluster.join();
    cluster.nodes[0].says("controller 1 runs at node n2");
    let refused = "node n2 does not run controller 1: it does not serve group \"g1\"";
    until_within(refused, 2 * WAIT, || cluster.nodes[0].log().contains(refused));
    cluster.nodes[0].says("controller 1 runs at this node");
    let host = Host::over(&cluster, vec![cluster.nodes[0].port]);
    host.goes_on();
    host.verified();
    assert_eq!(
        cluster.nodes[0].log().matches("controller 1 runs at node n2").count(),
        1,
        "not again at once"
    );
}
