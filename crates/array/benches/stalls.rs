//! How long hosts wait because somebody looks, or because something changes: the longest time in which the
//! controller's thread does nothing else, with many volumes.
//!
//! `cargo bench -p array --bench stalls -- [VOLUMES]`; 1,251 hosts are declared, and a session of one of them
//! is open.

#![expect(clippy::disallowed_methods, reason = "it measures in the system's time")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::sleep;
use std::time::{Duration, Instant};

use array::config::{ArrayId, Config, DriveConfig, GroupConfig, HostConfig, Level, PoolConfig, VolumeConfig};
use array::{Array, ControllerHandle, DriveSpec, LocalSession, Lun, run_with_local_port};
use block::Pieces;
use futures::executor::block_on;
use scsi::{Request, Status};
use world::World;

const TARGET: &str = "iqn.2026-11.test:array";
const VOLUMES: usize = 10_000;
const DISK_BYTES: u64 = 64 << 30;

fn volume(n: usize) -> VolumeConfig {
    VolumeConfig::new(format!("volume-{n:05}"), "p".into(), 64 << 20)
}

fn config(volumes: usize) -> Config {
    let all: Vec<VolumeConfig> = (0..volumes).map(volume).collect();
    let luns = all.iter().enumerate().map(|(n, v)| (n as u16, v.name.clone())).take(256).collect();
    // Hosts as a farm has them: each sees eight volumes.
    let mut hosts = vec![HostConfig::new("first".into(), "iqn.2026-11.test:h".into(), luns)];
    for (h, own) in all.chunks(8).enumerate() {
        let luns = own.iter().enumerate().map(|(n, v)| (n as u16, v.name.clone())).collect();
        hosts.push(HostConfig::new(format!("host-{h:04}"), format!("iqn.2026-11.test:h{h}"), luns));
    }
    Config {
        id: ArrayId([1; 16]),
        drives: vec![DriveConfig {
            name: "d".into(),
            spec: DriveSpec::Memory { name: "d".into(), len_bytes: DISK_BYTES },
        }],
        groups: vec![GroupConfig::new("g".into(), Level::Raid0, vec!["d".into()])],
        pools: vec![PoolConfig::new("p".into(), vec!["g".into()])],
        volumes: all,
        hosts,
        ..Config::empty(TARGET)
    }
}

async fn read(session: &LocalSession) {
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x88, 8);
    let request = Request { tag: 1, ..Request::new(cdb, Pieces::new(), 4096) };
    let mut response = session.execute(Lun(0), request.clone()).await;
    while response.status == Status::CheckCondition {
        // A unit attention is heard once.
        response = session.execute(Lun(0), request.clone()).await;
    }
    assert_eq!(response.status, Status::Good);
}

/// The longest time from one read to the next, and how many there were.
#[derive(Default)]
struct Longest {
    cpu_ns: AtomicU64,
    wall_ns: AtomicU64,
    reads: AtomicU64,
}

impl Longest {
    fn told(&self, what: &str, took: Duration) {
        let take = |value: &AtomicU64| value.swap(0, Ordering::Relaxed);
        let [cpu, wall] = [&self.cpu_ns, &self.wall_ns].map(|v| Duration::from_nanos(take(v)));
        let reads = take(&self.reads);
        println!(
            "{what:<16} stall {cpu:>8.1?} of processor time ({wall:>8.1?} by the clock), {reads} reads in {took:.1?}"
        );
    }
}

/// Reads again and again. What the thread did between two reads is what a host waits for; by the clock there
/// is also what other programs of the machine took.
async fn read_task(world: World, session: LocalSession, longest: Arc<Longest>) {
    let of = |world: &World| (world.cpu_time(), Instant::now());
    let mut last = of(&world);
    loop {
        read(&session).await;
        let now = of(&world);
        longest.cpu_ns.fetch_max((now.0 - last.0).as_nanos() as u64, Ordering::Relaxed);
        longest.wall_ns.fetch_max((now.1 - last.1).as_nanos() as u64, Ordering::Relaxed);
        longest.reads.fetch_add(1, Ordering::Relaxed);
        last = now;
        world.sleep(Duration::from_micros(50)).await;
    }
}

/// A controller on a thread of its own; a host on the same thread reads when it is told to.
fn start(longest: Arc<Longest>) -> (ControllerHandle, mpsc::Sender<()>) {
    let (handle, mailbox) = ControllerHandle::new(0);
    let all = vec![handle.clone()];
    let (begin, told) = mpsc::channel();
    let started = world_real::start("controller-0", world_real::Options::default(), async move |world| {
        let (port, run) = run_with_local_port(world.clone(), 0, mailbox, all);
        let reading = world.clone();
        world.spawn(async move {
            while told.try_recv().is_err() {
                reading.sleep(Duration::from_millis(10)).await;
            }
            let session = port.open("iqn.2026-11.test:h", [0; 6]).expect("a session");
            read_task(reading, session, longest).await;
        });
        run.await;
    });
    // It ends with the process.
    drop(started.expect("a thread"));
    (handle, begin)
}

fn main() {
    let volumes =
        std::env::args().filter(|a| a != "--bench").nth(1).and_then(|n| n.parse().ok()).unwrap_or(VOLUMES);
    let longest = Arc::new(Longest::default());
    let (handle, begin_reading) = start(longest.clone());
    let mut array = Array::new(vec![handle], TARGET);
    let begin = Instant::now();
    block_on(array.apply(config(volumes))).expect("an array");
    println!("{volumes} volumes made in {:?}", begin.elapsed());
    begin_reading.send(()).expect("the host is there");
    let quiet = || {
        sleep(Duration::from_millis(300));
        longest.told("quiet", Duration::from_millis(300));
    };
    sleep(Duration::from_millis(500));
    let _ = (longest.cpu_ns.swap(0, Ordering::Relaxed), longest.wall_ns.swap(0, Ordering::Relaxed));
    quiet();
    for _ in 0..3 {
        let begin = Instant::now();
        block_on(array.status()).expect("status");
        longest.told("status", begin.elapsed());
        let begin = Instant::now();
        block_on(array.overview()).expect("overview");
        longest.told("overview", begin.elapsed());
    }
    let mut next = config(volumes);
    next.volumes.push(volume(volumes));
    quiet();
    let begin = Instant::now();
    block_on(array.apply(next.clone())).expect("one more");
    longest.told("a volume more", begin.elapsed());
    next.hosts[0].luns.insert(255, format!("volume-{volumes:05}"));
    quiet();
    let begin = Instant::now();
    block_on(array.apply(next)).expect("mapped");
    longest.told("a mapping more", begin.elapsed());
    sleep(Duration::from_secs(10));
    longest.told("10 s of upkeep", Duration::from_secs(10));
}
