//! Nodes that share drives: real processes of `masu serve --registry`, with a registry in a directory and a
//! host that writes over all portals; the owner is killed, stopped, continued, and loses its registry. What
//! was acknowledged must be there at the next owner.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "hosts and processes of the real world"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use block::Pieces;
use futures::future::{Either, select};
use iscsi::initiator::{Options, Session};
use rustix::fs::{Mode, OFlags};
use scsi::Lun;
use world::World;

#[path = "nodes/claims.rs"]
mod claims;
#[path = "nodes/controllers.rs"]
mod controllers;
#[path = "nodes/damage.rs"]
mod damage;
#[path = "nodes/link.rs"]
mod link;
#[path = "nodes/moves.rs"]
mod moves;
#[path = "nodes/paths.rs"]
mod paths;
#[path = "nodes/rbd_and_etcd.rs"]
mod rbd_and_etcd;
#[path = "nodes/reservations.rs"]
mod reservations;
#[path = "nodes/rolling_upgrade.rs"]
mod rolling_upgrade;
#[path = "nodes/state_key.rs"]
mod state_key;
#[path = "nodes/trusted_etcd.rs"]
mod trusted_etcd;
#[path = "nodes/what_it_opens.rs"]
mod what_it_opens;

const TARGET: &str = "iqn.2026-11.net.example:array";
const WAIT: Duration = Duration::from_secs(20);
/// After this time a host tries its other path.
const GIVES_UP: Duration = Duration::from_millis(500);
/// Blocks of 4 KiB that the host writes in turn.
const SLOTS: u64 = 512;
const SLOT_BYTES: usize = 4096;
const WRITE_10: u8 = 0x2a;
const READ_10: u8 = 0x28;
/// The exit status of an owner that has lost the array.
const LOST: i32 = 75;

fn until(what: &str, holds: impl FnMut() -> bool) -> Duration {
    until_within(what, WAIT, holds)
}

fn until_within(what: &str, time: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < time, "{what}: not within {time:?}");
        sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

/// In memory where files there can be opened as drives: on a disk that others use, a flush may wait for
/// seconds, as long as a lease.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = tempfile::tempdir_in(memory).ok().filter(|dir| {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::DIRECT;
        rustix::fs::open(dir.path().join("probe"), flags, Mode::RUSR).is_ok()
    });
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("a directory"))
}

/// A process of one node.
struct Node {
    process: Child,
    name: String,
    port: u16,
    dir: PathBuf,
}

/// The shared drives, the registry, and the nodes.
struct Cluster {
    nodes: Vec<Node>,
    registry: String,
    /// More for each process.
    options: Vec<String>,
    /// The program of processes that are started from now on.
    masu: PathBuf,
    dir: tempfile::TempDir,
}

impl Cluster {
    /// With so many nodes, all started at once.
    fn start(nodes: usize) -> Cluster {
        let dir = directory();
        let drive = format!("file = \"{}\"\nsize = \"64MiB\"", dir.path().join("d0.img").display());
        let registry = dir.path().join("registry").display().to_string();
        Cluster::of(nodes, dir, &drive, registry)
    }

    /// On this drive, with this registry.
    fn of(nodes: usize, dir: tempfile::TempDir, drive: &str, registry: String) -> Cluster {
        let group = "[[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]";
        Cluster::over(nodes, dir, &format!("[[drive]]\nname = \"d0\"\n{drive}\n{group}"), registry)
    }

    /// On these drives, declared with their group g0.
    fn over(nodes: usize, dir: tempfile::TempDir, drives: &str, registry: String) -> Cluster {
        let text = format!(
            "target = \"{TARGET}\"\n{drives}\n\
             [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n\
             [[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"16MiB\"\n\
             [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"v0\" }}\n"
        );
        Cluster::declared(nodes, dir, &text, registry)
    }

    /// With this declaration.
    fn declared(nodes: usize, dir: tempfile::TempDir, text: &str, registry: String) -> Cluster {
        fs::write(dir.path().join("array.toml"), text).expect("written");
        let masu = PathBuf::from(env!("CARGO_BIN_EXE_masu"));
        let mut cluster = Cluster { nodes: vec![], registry, options: vec![], masu, dir };
        (0..nodes).for_each(|_| cluster.join());
        cluster
    }

    /// One more node.
    fn join(&mut self) {
        let name = format!("n{}", self.nodes.len() + 1);
        let port = test_ports::claim();
        let dir = self.dir.path().join(&name);
        let process = self.process(&name, port, &dir);
        self.nodes.push(Node { process, name, port, dir });
    }

    fn process(&self, name: &str, port: u16, dir: &Path) -> Child {
        let log = File::options().create(true).append(true).open(dir.with_extension("log")).expect("a log");
        Command::new(&self.masu)
            .args(["serve", "--node", name, "--listen", &format!("127.0.0.1:{port}")])
            .arg("--registry")
            .arg(&self.registry)
            .arg("--data")
            .arg(dir)
            .arg("--config")
            .arg(self.dir.path().join("array.toml"))
            .args(&self.options)
            .stderr(Stdio::from(log))
            .spawn()
            .expect("masu runs")
    }

    fn again(&mut self, at: usize) {
        let (name, port, dir) = (&self.nodes[at].name, self.nodes[at].port, &self.nodes[at].dir);
        self.nodes[at].process = self.process(name, port, dir);
    }

    fn registry(&self) -> PathBuf {
        PathBuf::from(&self.registry)
    }

    fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    /// The node that serves, when one does; two at once are the failure.
    fn owner(&self) -> usize {
        let mut owner = None;
        until("an owner", || {
            let serving: Vec<usize> = (0..self.nodes.len()).filter(|at| self.nodes[*at].serves()).collect();
            assert!(serving.len() <= 1, "{serving:?} serve at once");
            owner = serving.first().copied();
            owner.is_some()
        });
        owner.expect("an owner")
    }

    /// The node that serves instead of this one, which may stand still. Fences and leases wait for disks.
    fn successor(&self, of: usize) -> usize {
        let mut next = None;
        until_within("another owner", 3 * WAIT, || {
            next = (0..self.nodes.len()).find(|at| *at != of && self.nodes[*at].serves());
            next.is_some()
        });
        next.expect("another owner")
    }

    /// The content of the drive.
    fn drive(&self) -> Vec<u8> {
        fs::read(self.dir.path().join("d0.img")).expect("readable")
    }
}

impl Node {
    fn serves(&self) -> bool {
        // A standby accepts connections, too, for the owner.
        let log = self.log();
        let begun = log.rfind("array: serves");
        let stands_by = log.rfind("standby").max(log.rfind("hands over"));
        begun.is_some() && begun > stands_by && TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    fn stands_by(&self) {
        let says = || self.log().trim_end().lines().last().is_some_and(|line| line.contains("standby of"));
        until(&format!("{} stands by", self.name), says);
    }

    fn signal(&self, name: &str) {
        let told = Command::new("kill").args([name, &self.process.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
    }

    /// A signal is only sent by `kill`: each thread stops when it gets it.
    fn stands_still(&self) -> bool {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.process.id())) else { return false };
        tasks.flatten().all(|task| {
            let state = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.with_extension("log")).unwrap_or_default()
    }

    /// How often it became the owner: of what nobody owned or was handed over, and after the lease of the one
    /// before had ended.
    fn takes_over(&self) -> (usize, usize) {
        let log = self.log();
        let taken =
            log.lines().filter(|line| line.contains("INFO") && line.contains("owns the array (epoch"));
        let (late, at_once): (Vec<_>, _) = taken.partition(|line| line.contains("has ended"));
        (at_once.len(), late.len())
    }

    fn says(&self, what: &str) -> Duration {
        until(&format!("{} says {what:?}", self.name), || self.log().contains(what))
    }

    fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
        command.env("MASU_DATA", &self.dir).args(args).output().expect("masu runs")
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.command(args);
        assert!(output.status.success(), "masu {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Its exit status.
    fn ended(&mut self) -> Option<i32> {
        until("its end", || self.process.try_wait().expect("wait").is_some());
        self.process.wait().expect("it ended").code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let stands = if self.stands_still() { " (stands still)" } else { "" };
            eprintln!("--- {}{stands}:\n{}", self.name, self.log());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a host had acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// The last number in each slot.
    slots: BTreeMap<u64, u64>,
    /// All numbers.
    count: u64,
    /// The longest time without an acknowledgement.
    gap: Duration,
}

/// Hosts of this process. Each writes numbers of its own, above those of the hosts before it: what one of
/// them wrote is never taken for what a later one did.
static HOSTS: AtomicU64 = AtomicU64::new(0);
const NUMBERS_PER_HOST: u64 = SLOTS << 20;

/// A host that writes numbers, one write at a time, to whichever portal answers.
struct Host {
    stops: Arc<AtomicBool>,
    holds: Arc<AtomicBool>,
    /// Writes that were acknowledged.
    count: Arc<AtomicU64>,
    thread: JoinHandle<Acknowledged>,
    /// Where it reads at the end.
    ports: Vec<u16>,
}

fn cdb(opcode: u8, slot: u64) -> [u8; 16] {
    let blocks = (SLOT_BYTES / 512) as u16;
    let mut cdb = [0; 16];
    // A write is durable when it is acknowledged (FUA): the pool has no journal, so WCE is 1.
    cdb[..2].copy_from_slice(&[opcode, if opcode == WRITE_10 { 0x08 } else { 0 }]);
    cdb[2..6].copy_from_slice(&(slot as u32 * u32::from(blocks)).to_be_bytes());
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

async fn within<T>(world: &World, time: Duration, work: impl Future<Output = T>) -> Option<T> {
    match select(std::pin::pin!(work), std::pin::pin!(world.sleep(time))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// At the first port where it succeeds in this time.
async fn login(world: &World, time: Duration, ports: &[u16]) -> Option<Session> {
    for port in ports {
        let address = SocketAddr::from(([127, 0, 0, 1], *port));
        let options = Options::new(address, "iqn.2026-11.net.example:host", TARGET, u32::from(*port));
        let login = Session::login(world, &options);
        if let Some(Ok(session)) = within(world, time, login).await {
            return Some(session);
        }
    }
    None
}

/// A command; unit attentions of a new session are passed over. None: no answer in time, or an error.
async fn command(
    world: &World,
    time: Duration,
    session: &Session,
    (cdb, out, len): ([u8; 16], Pieces, u32),
) -> Option<Pieces> {
    for _ in 0..5 {
        match within(world, time, session.command(Lun(0), cdb, out.clone(), len)).await? {
            Ok(done) if done.is_good() => return Some(done.data_in),
            Ok(done) if done.sense_codes().is_some_and(|(key, ..)| key == 6) => {}
            _ => return None,
        }
    }
    None
}

async fn write_all_the_time(
    world: World,
    ports: Vec<u16>,
    (stops, holds, count): (Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicU64>),
) -> Acknowledged {
    let (mut done, mut last) = (Acknowledged::default(), None);
    let mut number = HOSTS.fetch_add(1, Relaxed) * NUMBERS_PER_HOST;
    while !stops.load(Relaxed) {
        let Some(session) = login(&world, GIVES_UP, &ports).await else {
            world.sleep(Duration::from_millis(5)).await;
            continue;
        };
        while !stops.load(Relaxed) {
            number += 1;
            let slot = number % SLOTS;
            let data = Pieces::copy_of(&number.to_be_bytes().repeat(SLOT_BYTES / 8));
            let write = (cdb(WRITE_10, slot), data, 0);
            if command(&world, GIVES_UP, &session, write).await.is_none() {
                break;
            }
            let now = world.now();
            done.gap = done.gap.max(last.map_or(Duration::ZERO, |last| now - last));
            last = Some(now);
            done.slots.insert(slot, number);
            done.count += 1;
            count.store(done.count, Relaxed);
            world.sleep(Duration::from_millis(1)).await;
            while holds.load(Relaxed) {
                world.sleep(Duration::from_millis(1)).await;
            }
        }
        session.close();
    }
    done
}

/// Every slot has the number that was acknowledged last, or a later one that was not.
async fn verify(world: World, ports: Vec<u16>, done: &Acknowledged) {
    let session = login(&world, WAIT, &ports).await.expect("an owner");
    for (slot, number) in &done.slots {
        let cdb = cdb(READ_10, *slot);
        let read = command(&world, WAIT, &session, (cdb, Pieces::new(), SLOT_BYTES as u32)).await;
        let read = read.expect("readable").joined();
        let found = u64::from_be_bytes(read[..8].try_into().expect("eight bytes"));
        assert!(found >= *number && found % SLOTS == *slot, "slot {slot}: {found} instead of {number}");
        assert!(read.chunks(8).all(|part| part == &read[..8]), "slot {slot} is torn");
    }
}

impl Host {
    fn start(cluster: &Cluster) -> Host {
        Host::over(cluster, cluster.ports())
    }

    /// With these portals alone.
    fn over(cluster: &Cluster, used: Vec<u16>) -> Host {
        let stops = Arc::new(AtomicBool::new(false));
        let (holds, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (flags, ports) = ((stops.clone(), holds.clone(), count.clone()), cluster.ports());
        let thread = spawn(move || {
            world_real::run(world_real::Options::default(), |world| write_all_the_time(world, used, flags))
                .expect("a world")
        });
        let host = Host { stops, holds, count, thread, ports };
        sleep(Duration::from_millis(500));
        host
    }

    /// Sends nothing for a moment, in which the array ends what it has begun.
    fn hold(&self) {
        self.holds.store(true, Relaxed);
        sleep(Duration::from_millis(300));
    }

    fn go_on(&self) {
        self.holds.store(false, Relaxed);
    }

    /// Returns when it has written again.
    fn goes_on(&self) {
        let before = self.count.load(Relaxed);
        until("another write", || self.count.load(Relaxed) > before);
    }

    /// Stops, and verifies what was acknowledged. How long the host had to wait is printed: what it may be is
    /// tested in virtual time, and measured by `make cluster`.
    fn verified(self) -> Acknowledged {
        sleep(Duration::from_millis(500));
        self.stops.store(true, Relaxed);
        let done = self.thread.join().expect("no panic");
        assert!(done.count > 100, "only {} writes", done.count);
        let run = world_real::run(world_real::Options::default(), |world| verify(world, self.ports, &done));
        run.expect("a world");
        done
    }
}

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
        assert!(next.serves() && !drained.serves());
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
    let refused = cluster.nodes[2].command(&["status"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("standby of") && text.contains("epoch 1"), "{text}");
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
