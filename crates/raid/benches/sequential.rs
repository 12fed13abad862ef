//! What a group keeps of its drives: sequential writes beside the drives written alone, and small random
//! writes.
//!
//! ```text
//! cargo bench -p raid --bench sequential -- --dir DIR     file drives in DIR
//! cargo bench -p raid --bench sequential -- --memory      memory drives
//! ```
//!
//! One thread does everything, as a controller does. The drives alone and the groups take turns; medians of
//! the ratios within a turn are printed, and what the journal of the stripes wrote per byte of the user.

#![expect(clippy::disallowed_methods, reason = "the drives' files are made and removed, and a clock is read")]

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use block::{Buf, Device, Pieces};
use raid::{ArrayId, Group, GroupSpec, Level};
use world::{Data, Drive, DriveSpec, World};
use world_real::{Options, run};

const DRIVES: usize = 9;
const DRIVE_MIB: u64 = 512;
const TURNS: usize = 5;
/// One request: eight full rows of 8D+1P with units of 64 KiB.
const REQUEST_BYTES: usize = 4 << 20;
/// Requests in flight.
const DEPTH: usize = 64;
const SMALL_BYTES: usize = 4096;
const SMALL_DEPTH: usize = 32;
const SMALL_WRITES: u64 = 4_000;

#[derive(Clone, Copy)]
struct Turn {
    level: Level,
    bytes_per_s: f64,
    share: f64,
    small_per_s: f64,
    journal_per_byte: f64,
    journal_per_small_byte: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let dir = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--dir", dir] => Some(PathBuf::from(dir)),
        ["--memory"] => None,
        _ => {
            eprintln!("sequential: give --dir DIR or --memory");
            std::process::exit(2);
        }
    };
    let medium = if dir.is_some() { "file" } else { "memory" };
    println!("{DRIVES} {medium} drives, one core, {TURNS} turns, medians");
    let turns = run(Options { cpu: Some(0), ..Options::default() }, async |world| measure(world, dir).await)
        .expect("the world runs");
    println!("level     sequential   of the drives   journal/byte   4 KiB random   journal/byte");
    for level in [Level::Raid0, Level::Raid5, Level::Raid6] {
        let of: Vec<&Turn> = turns.iter().filter(|t| t.level == level).collect();
        let median = |f: fn(&Turn) -> f64| {
            let mut all: Vec<f64> = of.iter().map(|t| f(t)).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!(
            "{:8} {:7.0} MB/s   {:11.1} %   {:12.4}   {:8.0} IO/s   {:12.2}",
            level.to_string(),
            median(|t| t.bytes_per_s) / 1e6,
            median(|t| t.share) * 100.0,
            median(|t| t.journal_per_byte),
            median(|t| t.small_per_s),
            median(|t| t.journal_per_small_byte),
        );
    }
}

async fn measure(world: World, dir: Option<PathBuf>) -> Vec<Turn> {
    let mut drives = Vec::new();
    for i in 0..DRIVES {
        drives.push(open(&world, dir.as_ref(), i).await);
    }
    let data = pattern();
    // Files get their blocks before anything is measured.
    drives_alone(&world, &drives, &data).await;
    let mut turns = Vec::new();
    for _ in 0..TURNS {
        for level in [Level::Raid0, Level::Raid5, Level::Raid6] {
            let alone = drives_alone(&world, &drives, &data).await;
            let spec = GroupSpec::new("g", level, ArrayId([7; 16]));
            let group = Group::create_forced(world.clone(), spec, drives.clone()).await.expect("create");
            // Creation gave the drives' space back: the first pass takes it again, and is not counted.
            sequential(&world, &group, &data).await;
            let passed = group.status().journal.bytes as f64;
            let bytes_per_s = sequential(&world, &group, &data).await;
            let journal = |group: &Group| group.status().journal.bytes as f64;
            let after_sequential = journal(&group);
            let journal_per_byte = (after_sequential - passed) / written_bytes(&group) as f64;
            let small_per_s = small(&world, &group, &data).await;
            let small_bytes = (SMALL_WRITES * SMALL_BYTES as u64) as f64;
            let journal_per_small_byte = (journal(&group) - after_sequential) / small_bytes;
            group.close().await.expect("close");
            let share = bytes_per_s / alone;
            turns.push(Turn {
                level,
                bytes_per_s,
                share,
                small_per_s,
                journal_per_byte,
                journal_per_small_byte,
            });
        }
    }
    if let Some(dir) = dir {
        (0..DRIVES).for_each(|i| drop(std::fs::remove_file(path(&dir, i))));
    }
    turns
}

fn path(dir: &std::path::Path, i: usize) -> PathBuf {
    dir.join(format!("sequential-{i}.drive"))
}

async fn open(world: &World, dir: Option<&PathBuf>, i: usize) -> Drive {
    let len = DRIVE_MIB << 20;
    let spec = match dir {
        Some(dir) => DriveSpec::File { path: path(dir, i), create_len_bytes: Some(len) },
        None => DriveSpec::Memory { name: format!("m{i}"), len_bytes: len },
    };
    world.open_drive(&spec).await.expect("open a drive")
}

fn pattern() -> Data {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut buf = Buf::new(REQUEST_BYTES);
    rng.fill(&mut buf);
    buf.freeze()
}

/// User bytes of one sequential pass: most of the smallest group.
fn written_bytes(group: &Group) -> u64 {
    group.geometry().len_bytes / REQUEST_BYTES as u64 * REQUEST_BYTES as u64
}

/// All drives at once, each with as many bytes in flight as its share of the group's requests; durable at the
/// end.
async fn drives_alone(world: &World, drives: &[Drive], data: &Data) -> f64 {
    let each = (DRIVE_MIB << 20) - (64 << 20);
    let step = (REQUEST_BYTES / (DRIVES - 1)) as u64;
    let begin = Instant::now();
    let lanes = drives.iter().flat_map(|drive| (0..DEPTH as u64).map(move |lane| (drive.clone(), lane)));
    let tasks = lanes.map(|(drive, lane)| {
        let data = data.slice(..step as usize);
        async move {
            let mut at = (64 << 20) + lane * step;
            while at + step <= (64 << 20) + each {
                drive.write(at, data.clone()).await.expect("write");
                at += DEPTH as u64 * step;
            }
        }
    });
    all(world, tasks).await;
    for flush in drives.iter().map(Drive::flush).collect::<Vec<_>>() {
        flush.await.expect("flush");
    }
    (each * DRIVES as u64) as f64 / begin.elapsed().as_secs_f64()
}

async fn sequential(world: &World, group: &Group, data: &Data) -> f64 {
    let total = written_bytes(group);
    let next = Rc::new(Cell::new(0));
    let begin = Instant::now();
    let tasks = (0..DEPTH).map(|_| {
        let (group, next, data) = (group.clone(), next.clone(), Pieces::from(data.clone()));
        async move {
            while next.get() < total {
                let at = next.replace(next.get() + REQUEST_BYTES as u64);
                group.write(at, &data).await.expect("write");
            }
        }
    });
    all(world, tasks).await;
    group.flush().await.expect("flush");
    total as f64 / begin.elapsed().as_secs_f64()
}

async fn small(world: &World, group: &Group, data: &Data) -> f64 {
    let blocks = group.geometry().len_bytes / SMALL_BYTES as u64;
    let left = Rc::new(Cell::new(SMALL_WRITES));
    let begin = Instant::now();
    let tasks = (0..SMALL_DEPTH as u64).map(|lane| {
        let (group, left, data) = (group.clone(), left.clone(), Pieces::from(data.slice(..SMALL_BYTES)));
        async move {
            let mut rng = fastrand::Rng::with_seed(lane);
            while left.get() > 0 {
                left.set(left.get() - 1);
                group.write(rng.u64(..blocks) * SMALL_BYTES as u64, &data).await.expect("write");
            }
        }
    });
    all(world, tasks).await;
    group.flush().await.expect("flush");
    SMALL_WRITES as f64 / begin.elapsed().as_secs_f64()
}

/// Runs all tasks to their end, each on its own.
async fn all(world: &World, tasks: impl Iterator<Item = impl Future<Output = ()> + 'static>) {
    let (running, done) = (Rc::new(Cell::new(0)), Rc::new(world::sync::Signal::default()));
    for task in tasks {
        running.set(running.get() + 1);
        let (running, done) = (running.clone(), done.clone());
        world.spawn(async move {
            task.await;
            running.set(running.get() - 1);
            done.wake_all();
        });
    }
    done.wait_for(|| (running.get() == 0).then_some(())).await;
}
