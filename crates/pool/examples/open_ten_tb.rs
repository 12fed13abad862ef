//! Opens a pool with 10 TiB of mapped pages (10,485,760 pages of 1 MiB) and prints how long it takes and how
//! much memory.
//!
//! ```text
//! cargo run --release -p pool --example open_ten_tb            # in order: every volume's pages follow each other
//! cargo run --release -p pool --example open_ten_tb scattered  # every page anywhere
//! cargo run --release -p pool --example open_ten_tb keep       # only makes the drive and leaves it: for `kill --drive`, which has a daemon open it
//! ```
//!
//! The drive is a sparse file under `target/`; what volumes write to their pages is thrown away, so that the
//! file holds the pool's metadata and nothing else. Everything is done through the pool's public functions,
//! and each step is a process of its own: its memory is its own, too.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement by hand")]

use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, exit};
use std::rc::Rc;
use std::time::{Duration, Instant};

use block::{Buf, Data, Device, Pieces};
use pool::{Pool, PoolSpec, Provisioning, Volume};
use raid::{ArrayId, Group, GroupSpec, Level};
use world::{Drive, DriveBackend, DriveError, DriveInfo, DriveSpec, Filled, Io, Rng, World};

const PAGE: u64 = 1 << 20;
const PAGES: u64 = 10 << 20;
const VOLUMES: u64 = 10;
/// Room for the metadata of a pool of this size: two checkpoints of 16 entries of 24 bytes per page, and the
/// journal.
const METADATA: u64 = 9 << 30;
const GROUP_LEN: u64 = PAGES * PAGE + METADATA;
/// Before the group's data.
const LABELS: u64 = 1 << 20;

/// A file of which everything from some byte on is only pretended.
struct Hollow {
    file: Drive,
    from: Rc<Cell<u64>>,
}

impl DriveBackend for Hollow {
    fn read(&self, at: u64, buf: Buf) -> Io<Filled> {
        self.file.read(at, buf)
    }
    fn write(&self, at: u64, data: Data) -> Io<Result<(), DriveError>> {
        if at >= self.from.get() { Io::ready(Ok(())) } else { self.file.write(at, data) }
    }
    fn zero(&self, at: u64, len: u64) -> Io<Result<(), DriveError>> {
        // A sparse file has zeros where nothing was written.
        if len > METADATA || at >= self.from.get() { Io::ready(Ok(())) } else { self.file.zero(at, len) }
    }
    fn flush(&self) -> Io<Result<(), DriveError>> {
        self.file.flush()
    }
    fn probe(&self) -> Io<Result<(), DriveError>> {
        self.file.probe()
    }
}

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/open_ten_tb.drive"))
}

async fn drive(world: &World, from: &Rc<Cell<u64>>) -> Drive {
    let spec = DriveSpec::File { path: path(), create_len_bytes: Some(LABELS + GROUP_LEN) };
    let file = world.open_drive(&spec).await.expect("the file");
    let info = DriveInfo { cheap_zero: true, ..file.info().clone() };
    Drive::new(info, Box::new(Hollow { file, from: from.clone() }))
}

fn spec() -> GroupSpec {
    GroupSpec::new("g", Level::Raid0, ArrayId([1; 16]))
}

async fn open(world: &World) -> Pool {
    // Before the pool is open nothing is written past its metadata.
    let from = Rc::new(Cell::new(u64::MAX));
    let drives = vec![drive(world, &from).await];
    let group = Group::open(world.clone(), spec(), drives).await.expect("group");
    let begun = Instant::now();
    let pool = Pool::open(world.clone(), vec![group]).await.expect("pool");
    println!("  opened in {:.2} s, peak memory {} MB", begun.elapsed().as_secs_f64(), peak_mb());
    from.set(pages_at(&pool));
    pool
}

fn pages_at(pool: &Pool) -> u64 {
    LABELS + GROUP_LEN - pool.space().total_bytes
}

/// The most memory that this process had, in MB.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib: u64 = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0);
    kib * 1024 / 1_000_000
}

fn block_of_data() -> Pieces {
    let mut buf = Buf::zeroed(4096);
    buf[0] = 1;
    buf.freeze().into()
}

async fn create(world: World, scattered: bool) {
    let from = Rc::new(Cell::new(u64::MAX));
    let group =
        Group::create_forced(world.clone(), spec(), vec![drive(&world, &from).await]).await.expect("group");
    let begun = Instant::now();
    let pool = Pool::create(world, PoolSpec::new("p"), vec![group]).await.expect("pool");
    from.set(pages_at(&pool));
    let each = PAGES / VOLUMES;
    let mut volumes = Vec::new();
    for i in 0..VOLUMES {
        let volume = pool.create_volume(&format!("v{i}"), each * PAGE, Provisioning::Thin).await;
        volumes.push(volume.expect("volume"));
    }
    let mut order: Vec<u32> = (0..PAGES as u32).collect();
    if scattered {
        Rng::with_seed(1).shuffle(&mut order);
    }
    let data = block_of_data();
    for i in order {
        let (volume, index) = (u64::from(i) / each, u64::from(i) % each);
        volumes[volume as usize].write(index * PAGE, &data).await.expect("write");
    }
    pool.close().await.expect("close");
    let seconds = begun.elapsed().as_secs_f64();
    println!("  mapped {} MiB in {seconds:.0} s, {:?}", pool.space().used_bytes >> 20, pool.counts());
}

/// Fills the journal without a checkpoint and dies.
async fn kill(world: World) {
    let pool = open(&world).await;
    let v = pool.volume("v3").expect("there");
    let data = block_of_data();
    let mut rng = Rng::with_seed(2);
    // Each is 13 and 17 bytes; half a half of the journal, 8 MiB, would be a checkpoint.
    for _ in 0..200_000 {
        let index = rng.u64(..PAGES / VOLUMES);
        v.unmap(index * PAGE, PAGE).await.expect("unmap");
        v.write(index * PAGE, &data).await.expect("write");
    }
    v.flush().await.expect("flush");
    println!("  killed with {} bytes of journal", pool.counts().journal_bytes);
    exit(0);
}

/// How long the longest of many reads takes while `work` is done, and the work.
async fn longest_read<T>(
    world: &World,
    volume: &Volume,
    work: impl Future<Output = T>,
) -> (Duration, Duration) {
    let (longest, stop) = (Rc::new(Cell::new(Duration::ZERO)), Rc::new(Cell::new(false)));
    let (volume, seen, stopped) = (volume.clone(), longest.clone(), stop.clone());
    let pause = world.clone();
    world.spawn(async move {
        while !stopped.get() {
            let begun = Instant::now();
            let mut out = Pieces::new();
            volume.read(PAGE, 4096, &mut out).await.expect("read");
            seen.set(seen.get().max(begun.elapsed()));
            pause.sleep(Duration::from_micros(50)).await;
        }
    });
    let begun = Instant::now();
    work.await;
    let took = begun.elapsed();
    stop.set(true);
    (longest.get(), took)
}

async fn pauses(world: World) {
    let pool = open(&world).await;
    let v = pool.volume("v7").expect("there");
    let (longest, _) = longest_read(&world, &v, world.sleep(Duration::from_secs(3))).await;
    println!("  longest read, idle: {longest:?}");
    let checkpoint = async {
        // The pool's own opening wrote one, too.
        let before = pool.counts().checkpoints;
        while pool.counts().checkpoints == before {
            pool.save_record("filler", &[7; 60_000]).await.expect("save");
        }
    };
    let (longest, took) = longest_read(&world, &v, checkpoint).await;
    println!("  longest read during a checkpoint: {longest:?} (of {:.2} s)", took.as_secs_f64());
    let (longest, took) = longest_read(&world, &v, pool.clone_volume("v5", "clone")).await;
    println!("  clone of {} pages: {took:?}; longest read {longest:?}", PAGES / VOLUMES);
    let (longest, took) = longest_read(&world, &v, pool.delete_volume("clone")).await;
    println!("  its deletion: {took:?}; longest read {longest:?}");
    let begun = Instant::now();
    let exclusive: u64 = pool.volumes().iter().map(|v| v.space().exclusive_bytes).sum();
    println!("  the space of all volumes: {:?}, {} MiB exclusive", begun.elapsed(), exclusive >> 20);
    println!("  peak memory {} MB", peak_mb());
}

/// A step in a process of its own.
fn step(what: &str, argument: &str) {
    println!("{what} {argument}");
    let me = std::env::current_exe().expect("this program");
    let status = Command::new(me).args(["--step", what, argument]).status().expect("a process");
    assert!(status.success(), "{what} failed");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let scattered = words.last() == Some(&"scattered");
    let run = |step: &dyn Fn(World) -> std::pin::Pin<Box<dyn Future<Output = ()>>>| {
        world_real::run(world_real::Options::default(), step).expect("a world");
    };
    match words.as_slice() {
        ["--step", "create", _] => run(&|world| Box::pin(create(world, scattered))),
        ["--step", "open", _] => run(&|world| Box::pin(async move { drop(open(&world).await) })),
        ["--step", "kill", _] => run(&|world| Box::pin(kill(world))),
        ["--step", "pauses", _] => run(&|world| Box::pin(pauses(world))),
        ["keep"] => {
            _ = std::fs::remove_file(path());
            step("create", "scattered");
            step("kill", "scattered");
            println!("{}", path().display());
        }
        _ => {
            let mode = if scattered { "scattered" } else { "ordered" };
            _ = std::fs::remove_file(path());
            for what in ["create", "open", "open", "kill", "open", "pauses"] {
                step(what, mode);
            }
            _ = std::fs::remove_file(path());
        }
    }
}
