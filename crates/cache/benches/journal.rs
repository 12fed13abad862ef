//! What a journal gives: random writes of 4 KiB, each durable when it is acknowledged, beside one flush for
//! each.
//!
//! ```text
//! cargo bench -p cache --bench journal -- DIR      file drives in DIR
//! ```
//!
//! *flush each*: one write of 4 KiB and one flush of the drive, again and again. *journal*: writes at depth
//! 32 through a unit with a journal, each followed by a flush of the unit, as a LU with WCE = 0 does it; both
//! on files of the same directory. They take turns; medians. Then the time from the start of a process to
//! service, with 1 GiB of writes in the journal that are not in place.

#![expect(clippy::disallowed_methods, reason = "the drives' files are made and removed, and a clock is read")]

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use block::{BackingStore, BlockError, Buf, Device, Geometry, Pieces};
use cache::{Cache, CacheConfig, Journal, PartitionId, Unit, UnitSpec, WritePolicy};
use futures::future::join_all;
use world::{Data, Drive, DriveSpec, World};
use world_real::{Options, run};

const TURNS: usize = 5;
const DEPTH: u64 = 32;
const WRITES: u64 = 40_000;
const WRITES_ALONE: u64 = 1_000;
const DRIVE_BYTES: u64 = 1 << 30;
const JOURNAL_BYTES: u64 = 256 << 20;
const BLOCK: u64 = 4096;

#[derive(Clone)]
struct OnDrive(Drive);

impl Device for OnDrive {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.0.info().len_bytes, block_bytes: self.0.info().block_bytes }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        let filled = self.0.read(at, Buf::new(len)).await;
        filled.result?;
        out.push(filled.buf.freeze());
        Ok(())
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        Ok(self.0.write(at, data.joined()).await?)
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        Ok(self.0.zero(at, len).await?)
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Ok(self.0.flush().await?)
    }
}

impl BackingStore for OnDrive {
    fn takes_in_place(&self, _at: u64, _len: u64) -> bool {
        true
    }

    fn row_bytes(&self) -> u64 {
        BLOCK
    }

    fn row_drives(&self) -> u32 {
        1
    }
}

fn main() {
    let Some(dir) = std::env::args().filter(|a| a != "--bench").nth(1).map(PathBuf::from) else {
        eprintln!("journal: give a directory");
        std::process::exit(2);
    };
    std::fs::create_dir_all(&dir).expect("the directory");
    let turns = run(Options { cpu: Some(0), ..Options::default() }, {
        let dir = dir.clone();
        async move |world| measure(world, &dir).await
    });
    let (records, seconds) = resume(&dir);
    for name in ["data", "journal", "long"] {
        drop(std::fs::remove_file(path(&dir, name)));
    }
    let turns = turns.expect("the world runs");
    let median = |f: fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = turns.iter().map(f).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    println!("4 KiB writes on one file drive, one core, {TURNS} turns, medians");
    println!("one flush for each, depth 1:       {:8.0} /s", median(|t| t.0));
    println!("journal, WCE = 0, depth {DEPTH}:       {:8.0} /s", median(|t| t.1));
    println!("ratio within a turn:               {:8.1}", median(|t| t.1 / t.0));
    println!("service after a crash with {records} writes of 4 KiB not in place: {seconds:.2} s");
}

/// A process that ends with much that is not in place, and the next one.
fn resume(dir: &Path) -> (u64, f64) {
    let config = CacheConfig {
        memory_bytes: 4 << 30,
        destage_delay: Duration::from_secs(3600),
        pending_low_percent: 100,
        ..CacheConfig::default()
    };
    let spec = UnitSpec { stable_id: 1, policy: WritePolicy::Back, partition: PartitionId(0) };
    let first = |world: World| async move {
        let cache = Cache::new(world.clone(), config);
        let log = open(&world, dir, "long", 2 << 30).await;
        let journal = Journal::create(world.clone(), log, [2; 16]).await.expect("create");
        let unit = cache.attach(open(&world, dir, "data", DRIVE_BYTES).await, spec, Some(journal));
        let data = Pieces::copy_of(&[9; BLOCK as usize]);
        for i in 0..DRIVE_BYTES / BLOCK {
            // Every block once, none beside the last one.
            unit.write(i * 7919 % (DRIVE_BYTES / BLOCK) * BLOCK, &data).await.expect("write");
        }
        unit.flush().await.expect("flush");
    };
    run(Options::default(), first).expect("the world runs");
    let second = |world: World| async move {
        let begin = Instant::now();
        let cache = Cache::new(world.clone(), config);
        let log = open(&world, dir, "long", 2 << 30).await;
        let (journal, replay) = Journal::open(world.clone(), log).await.expect("open");
        let unit = cache.attach(open(&world, dir, "data", DRIVE_BYTES).await, spec, Some(journal));
        let done = cache.replay(replay, std::slice::from_ref(&unit)).await.expect("replay");
        let mut out = Pieces::new();
        unit.read(0, BLOCK as usize, &mut out).await.expect("read");
        (done.records, begin.elapsed().as_secs_f64())
    };
    run(Options::default(), second).expect("the world runs")
}

fn path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.drive"))
}

async fn open(world: &World, dir: &Path, name: &str, len: u64) -> OnDrive {
    let spec = DriveSpec::File { path: path(dir, name), create_len_bytes: Some(len) };
    OnDrive(world.open_drive(&spec).await.expect("open a drive"))
}

async fn measure(world: World, dir: &Path) -> Vec<(f64, f64)> {
    let (data, log) =
        (open(&world, dir, "data", DRIVE_BYTES).await, open(&world, dir, "journal", JOURNAL_BYTES).await);
    let block = Data::copy_of(&[7; BLOCK as usize]);
    // Files get their blocks before anything is measured.
    let large = Pieces::from(Buf::zeroed(1 << 20).freeze());
    for (device, len) in [(&data, DRIVE_BYTES), (&log, JOURNAL_BYTES)] {
        for at in (0..len).step_by(1 << 20) {
            device.write(at, &large).await.expect("write");
        }
        device.flush().await.expect("flush");
    }
    let cache = Cache::new(world.clone(), CacheConfig { memory_bytes: 512 << 20, ..CacheConfig::default() });
    let journal = Journal::create(world.clone(), log, [1; 16]).await.expect("create");
    let spec = UnitSpec { stable_id: 1, policy: WritePolicy::Back, partition: PartitionId(0) };
    let unit = cache.attach(data.clone(), spec, Some(journal.clone()));
    let mut turns = Vec::new();
    for turn in 0..TURNS as u64 {
        let alone = flush_each(&data, &block, turn).await;
        let through = through_journal(&unit, &block, turn).await;
        // The next turn begins with nothing pending.
        drop(unit.settle(0..DRIVE_BYTES).await.expect("settle"));
        turns.push((alone, through));
    }
    turns
}

/// Flushed writes per second.
async fn flush_each(data: &OnDrive, block: &Data, seed: u64) -> f64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let begin = Instant::now();
    for _ in 0..WRITES_ALONE {
        let at = rng.u64(..DRIVE_BYTES / BLOCK) * BLOCK;
        data.write(at, &Pieces::from(block.clone())).await.expect("write");
        data.flush().await.expect("flush");
    }
    WRITES_ALONE as f64 / begin.elapsed().as_secs_f64()
}

/// Writes per second that were durable when they were acknowledged.
async fn through_journal(unit: &Unit<OnDrive, OnDrive>, block: &Data, seed: u64) -> f64 {
    let left = Rc::new(Cell::new(WRITES));
    let begin = Instant::now();
    let lanes = (0..DEPTH).map(|lane| {
        let (unit, left, data) = (unit.clone(), left.clone(), Pieces::from(block.clone()));
        async move {
            let mut rng = fastrand::Rng::with_seed(seed << 8 | lane);
            while left.get() > 0 {
                left.set(left.get() - 1);
                unit.write(rng.u64(..DRIVE_BYTES / BLOCK) * BLOCK, &data).await.expect("write");
                unit.flush().await.expect("flush");
            }
        }
    });
    join_all(lanes).await;
    WRITES as f64 / begin.elapsed().as_secs_f64()
}
