//! Replacement: what a scan, a loop and a hot set do to each other.

use fastrand::Rng;

use super::books::{P0, audit, filled, key, read};
use crate::frames::{ALL_SECTORS, Frames};

const FRAMES: u32 = 1000;
const HOT: u64 = 700;

/// The hit ratio of `n` reads of the hot set, with `scanned` new blocks between two of them.
fn hot_ratio(frames: &mut Frames, rng: &mut Rng, n: u32, scan: &mut u64, scanned: u64) -> f64 {
    let content = filled(1);
    let mut hits = 0;
    for _ in 0..n {
        hits += u32::from(read(frames, P0, key(1, rng.u64(0..HOT)), &content));
        for _ in 0..scanned {
            read(frames, P0, key(2, *scan), &content);
            *scan += 1;
        }
    }
    f64::from(hits) / f64::from(n)
}

/// A hot set, a scan over four times the frames that goes on beside it or passes at once, and the hot set
/// again.
fn check_scan(beside: bool) {
    let mut frames = Frames::new(FRAMES);
    let mut rng = Rng::with_seed(5);
    let mut scan = 0;
    hot_ratio(&mut frames, &mut rng, 20_000, &mut scan, 0);
    let before = hot_ratio(&mut frames, &mut rng, 5_000, &mut scan, 0);
    assert!(before > 0.99, "{before}");
    if beside {
        let during = hot_ratio(&mut frames, &mut rng, 4 * FRAMES, &mut scan, 1);
        assert!(during > before * 0.9, "{during} beside the scan");
    } else {
        let content = filled(1);
        (0..4 * u64::from(FRAMES)).for_each(|block| assert!(!read(&mut frames, P0, key(2, block), &content)));
    }
    let after = hot_ratio(&mut frames, &mut rng, 5_000, &mut scan, 0);
    assert!(after > before * 0.9, "{after} after the scan");
    audit(&frames);
}

#[test]
fn a_scan_passes_by_the_hot_set() {
    check_scan(true);
    check_scan(false);
}

#[test]
fn what_comes_back_soon_is_kept() {
    let mut frames = Frames::new(100);
    let content = filled(1);
    for block in 0..100 {
        read(&mut frames, P0, key(1, block), &content);
    }
    // Twenty more push the first twenty out of the small queue; they are remembered.
    for block in 100..120 {
        read(&mut frames, P0, key(1, block), &content);
    }
    assert!(!read(&mut frames, P0, key(1, 3), &content));
    assert_eq!(frames.counts().ghost_hits, 1);
    // Now it is in the main queue: a scan does not touch it.
    for block in 1000..1095 {
        read(&mut frames, P0, key(1, block), &content);
    }
    assert!(read(&mut frames, P0, key(1, 3), &content));
    assert!(!read(&mut frames, P0, key(1, 110), &content));
    audit(&frames);
}

#[test]
fn an_eviction_ends_although_everything_was_used() {
    let mut frames = Frames::new(FRAMES);
    let content = filled(1);
    for _ in 0..4 {
        for block in 0..u64::from(FRAMES) {
            read(&mut frames, P0, key(1, block), &content);
        }
    }
    for block in 0..100 {
        assert!(frames.insert_clean(P0, key(2, block), content.clone(), ALL_SECTORS));
    }
    assert_eq!(frames.counts().evictions, 100);
    audit(&frames);
}

#[test]
fn frames_that_were_written_are_replaced_like_others_once_they_are_clean() {
    let mut frames = Frames::new(FRAMES);
    let mut rng = Rng::with_seed(6);
    let content = filled(1);
    for block in 0..100_000 {
        // Two thirds are dirty all the time, and still everything that is asked for finds a frame at once.
        frames.write(P0, key(1, block), content.clone(), ALL_SECTORS, 0).unwrap();
        read(&mut frames, P0, key(2, rng.u64(0..100)), &content);
        if let Some(old) = block.checked_sub(660) {
            frames.begin_destage(key(1, old));
            frames.end_destage(key(1, old), true);
        }
    }
    assert_eq!(frames.dirty_frames(), 660);
    let counts = frames.partition_counts(P0).unwrap();
    let ratio = counts.hits as f64 / (counts.hits + counts.misses) as f64;
    assert!(ratio > 0.95, "{ratio}: a stream of writes passes by a hot set of reads");
    audit(&frames);
}

#[test]
fn the_same_calls_give_the_same_frames() {
    let run = || {
        let mut frames = Frames::new(200);
        let mut rng = Rng::with_seed(9);
        let content = filled(1);
        for _ in 0..20_000 {
            let end = rng.u64(1..600);
            read(&mut frames, P0, key(1, rng.u64(0..end)), &content);
        }
        (frames.present(key(1, 0).unit, 0..600), frames.counts())
    };
    assert_eq!(run(), run());
}
