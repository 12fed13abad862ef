//! What the frames cost: nanoseconds of a hit, of a miss with its insertion, of a write and its destage, of
//! noting a read; on one core, medians of turns.
//!
//! ```text
//! cargo bench -p cache --bench frames
//! ```

#![expect(clippy::disallowed_methods, reason = "a clock is read")]

use std::hint::black_box;
use std::time::Instant;

use cache::{ALL_SECTORS, AheadLimits, FRAME_BYTES, Frames, Key, PartitionId, Streams, UnitId, next_run};
use fastrand::Rng;
use world::Data;

/// 1 GiB of frames: the table is far larger than the processor's caches.
const FRAMES: u32 = 1 << 18;
const OPERATIONS: u64 = 1 << 20;
const TURNS: usize = 5;
const P: PartitionId = PartitionId(0);
const U: UnitId = UnitId(1);

fn key(block: u64) -> Key {
    Key { unit: U, block }
}

/// Frames full of clean blocks. All share one buffer: what is measured is the table, not the memory behind
/// it.
fn full(data: &Data) -> Frames {
    let mut frames = Frames::new(FRAMES);
    for block in 0..u64::from(FRAMES) {
        frames.insert_clean(P, key(block), data.clone(), ALL_SECTORS);
    }
    frames
}

/// Nanoseconds of one of `OPERATIONS` operations.
fn ns_each(mut operation: impl FnMut(u64)) -> f64 {
    let begin = Instant::now();
    (0..OPERATIONS).for_each(&mut operation);
    begin.elapsed().as_nanos() as f64 / OPERATIONS as f64
}

fn hit(data: &Data, blocks: u64) -> f64 {
    let mut frames = full(data);
    let mut rng = Rng::with_seed(1);
    ns_each(|_| {
        let frame = frames.get(P, key(rng.u64(0..blocks)));
        black_box(frame.expect("all are present").valid);
    })
}

fn miss(data: &Data) -> f64 {
    let mut frames = full(data);
    ns_each(|n| {
        let key = key((1 << 30) + n);
        if frames.get(P, key).is_none() {
            black_box(frames.insert_clean(P, key, data.clone(), ALL_SECTORS));
        }
    })
}

/// Random blocks are written, and destaged in the order of the elevator when a tenth of the frames is dirty.
fn write(data: &Data, sequence: u64) -> f64 {
    let mut frames = full(data);
    let mut rng = Rng::with_seed(2);
    let mut position = (U, 0);
    ns_each(|n| {
        let block = rng.u64(0..4 * u64::from(FRAMES));
        let sequence = if sequence == 0 { 0 } else { sequence + n };
        frames.write(P, key(block), data.clone(), ALL_SECTORS, sequence).expect("a tenth is dirty");
        while frames.dirty_frames() > FRAMES / 10 {
            let run = next_run(&frames, position, |_| 16).expect("some are dirty");
            for block in run.first..run.end().1 {
                black_box(frames.begin_destage(key(block)));
                frames.end_destage(key(block), true);
            }
            position = run.end();
        }
    })
}

fn note(sequential: bool) -> f64 {
    let mut streams = Streams::new(256);
    let mut rng = Rng::with_seed(3);
    let limits = AheadLimits { unit_bytes: 1 << 40, stream_bytes_max: 4 << 20, budget_bytes: 64 << 20 };
    let mut next: Vec<u64> = (0..64).map(|n| n << 32).collect();
    ns_each(|_| {
        let at = if sequential {
            let next = &mut next[rng.usize(0..64)];
            *next += FRAME_BYTES as u64;
            *next
        } else {
            rng.u64(0..1 << 28) * FRAME_BYTES as u64
        };
        black_box(streams.note(at, FRAME_BYTES as u64, &limits));
    })
}

fn main() {
    let data = Data::copy_of(&[7; FRAME_BYTES]);
    println!("{FRAMES} frames, {OPERATIONS} operations, medians of {TURNS} turns, one core");
    let median = |name: &str, measure: &dyn Fn() -> f64| {
        let mut turns: Vec<f64> = (0..TURNS).map(|_| measure()).collect();
        turns.sort_by(f64::total_cmp);
        println!("{name:<44} {:>7.1} ns", turns[TURNS / 2]);
    };
    median("hit, among all frames", &|| hit(&data, u64::from(FRAMES)));
    median("hit, among a thousand", &|| hit(&data, 1000));
    median("miss and insertion, evicting", &|| miss(&data));
    median("random write and its destage", &|| write(&data, 0));
    median("random write and its destage, journaled", &|| write(&data, 1));
    median("note a read of 64 streams", &|| note(true));
    median("note a random read", &|| note(false));
}
