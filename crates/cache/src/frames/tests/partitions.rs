//! Partitions: who has how many frames.

use fastrand::Rng;

use super::books::{P0, audit, filled, first_dirty, key, read};
use crate::frames::{ALL_SECTORS, Frames, PartitionId};

const A: PartitionId = PartitionId(1);
const B: PartitionId = PartitionId(2);

fn frames_of(frames: &Frames, id: PartitionId) -> u32 {
    frames.partition_counts(id).unwrap().frames
}

/// A thousand frames, a partition A with at least 500 and B with 300; nobody claims 200.
fn two() -> Frames {
    let mut frames = Frames::new(1000);
    frames.partition(A, 500);
    frames.partition(B, 300);
    frames
}

/// New blocks `from..to` of a partition; its number is that of its unit.
fn fill(frames: &mut Frames, id: PartitionId, from: u64, to: u64) {
    let content = filled(1);
    for block in from..to {
        read(frames, id, key(u32::from(id.0), block), &content);
    }
}

#[test]
fn what_others_do_not_use_is_borrowed_and_given_back() {
    let mut frames = two();
    fill(&mut frames, A, 0, 3000);
    assert_eq!((frames_of(&frames, A), frames_of(&frames, B)), (1000, 0));
    fill(&mut frames, B, 0, 300);
    assert_eq!((frames_of(&frames, A), frames_of(&frames, B)), (700, 300), "its minimum at once");
    fill(&mut frames, B, 300, 5000);
    // Its minimum and its third of what nobody claims: partition 0 exists, too.
    assert_eq!(frames_of(&frames, B), 366);
    fill(&mut frames, A, 3000, 9000);
    assert_eq!((frames_of(&frames, A), frames_of(&frames, B)), (634, 366));
    fill(&mut frames, P0, 0, 2000);
    assert_eq!(frames_of(&frames, P0), 66, "nobody is left without a frame");
    assert!(frames_of(&frames, A) >= 500 && frames_of(&frames, B) >= 300);
    audit(&frames);
}

#[test]
fn who_claims_nothing_where_all_is_claimed_still_works() {
    let mut frames = two();
    frames.partition(B, 500);
    fill(&mut frames, A, 0, 1000);
    fill(&mut frames, B, 0, 1000);
    assert_eq!((frames_of(&frames, A), frames_of(&frames, B)), (500, 500));
    for block in 0..10 {
        frames.write(P0, key(0, block), filled(1), ALL_SECTORS, 0).unwrap_or_else(|_| settle(&mut frames));
    }
    assert_eq!(frames_of(&frames, P0), 3);
    assert_eq!(frames.unit_frames(key(0, 0).unit).frames, 3);
    audit(&frames);
}

#[test]
fn shares_are_changed_as_frames_are_asked_for() {
    let mut frames = two();
    fill(&mut frames, A, 0, 1000);
    fill(&mut frames, B, 0, 300);
    frames.partition(A, 200);
    frames.partition(B, 700);
    assert_eq!((frames_of(&frames, A), frames_of(&frames, B)), (700, 300), "not by itself");
    fill(&mut frames, B, 300, 1000);
    assert!(frames_of(&frames, B) >= 700, "{}", frames_of(&frames, B));
    assert_eq!(frames.partition_counts(B).unwrap().frames_min, 700);
    audit(&frames);
}

#[test]
fn a_minimum_holds_against_everybody() {
    let mut frames = two();
    let mut rng = Rng::with_seed(4);
    let content = filled(1);
    fill(&mut frames, A, 0, 500);
    fill(&mut frames, B, 0, 300);
    for _ in 0..30_000 {
        let id = *rng.choice(&[P0, A, B]).unwrap();
        let key = key(u32::from(id.0), rng.u64(0..5000));
        if rng.bool() {
            read(&mut frames, id, key, &content);
        } else {
            let _ = frames.write(id, key, content.clone(), ALL_SECTORS, 0);
            if rng.u32(0..50) == 0 {
                settle(&mut frames);
            }
        }
        assert!(frames_of(&frames, A) >= 500 && frames_of(&frames, B) >= 300);
    }
    audit(&frames);
}

fn settle(frames: &mut Frames) {
    for id in [P0, A, B] {
        let unit = key(u32::from(id.0), 0).unit;
        while let Some(block) = first_dirty(frames, unit) {
            frames.begin_destage(key(u32::from(id.0), block));
            frames.end_destage(key(u32::from(id.0), block), true);
        }
    }
}

#[test]
fn dirty_frames_are_not_taken_from_anybody() {
    let mut frames = two();
    for block in 0..1000 {
        frames.write(A, key(1, block), filled(1), ALL_SECTORS, 0).unwrap();
    }
    assert!(frames.write(B, key(2, 0), filled(1), ALL_SECTORS, 0).is_err());
    frames.begin_destage(key(1, 77));
    frames.end_destage(key(1, 77), true);
    assert!(frames.write(B, key(2, 0), filled(1), ALL_SECTORS, 0).is_ok());
    assert!(frames.peek(key(1, 77)).is_none());
    audit(&frames);
}

#[test]
fn a_partition_that_is_removed_leaves_its_frames_to_partition_0() {
    let mut frames = two();
    fill(&mut frames, A, 0, 1500);
    fill(&mut frames, B, 0, 300);
    for block in 0..50 {
        frames.write(A, key(1, 9000 + block), filled(1), ALL_SECTORS, 0).unwrap();
    }
    let of_a = frames_of(&frames, A);
    frames.remove_partition(A);
    assert_eq!(frames.partition_counts(A), None);
    assert_eq!(frames_of(&frames, P0), of_a);
    audit(&frames);
    // Who still asks in its name gets frames of partition 0.
    fill(&mut frames, A, 20_000, 22_000);
    settle(&mut frames);
    assert_eq!(frames_of(&frames, B), 300);
    audit(&frames);
}

/// A unit that is in another partition from now on takes what it uses with it; what it uses no more stays,
/// and goes.
#[test]
fn frames_that_are_used_go_with_their_unit() {
    let mut frames = two();
    for block in 0..100 {
        assert!(!read(&mut frames, P0, key(1, block), &filled(1)));
    }
    for block in 0..20 {
        frames.write(P0, key(1, block), filled(2), ALL_SECTORS, 0).unwrap();
    }
    for block in 10..50 {
        assert!(read(&mut frames, A, key(1, block), &filled(1)), "block {block} is there");
    }
    for block in 50..60 {
        frames.write(A, key(1, block), filled(2), ALL_SECTORS, 0).unwrap();
    }
    let counts = |id| frames.partition_counts(id).unwrap();
    assert_eq!((counts(P0).frames, counts(P0).dirty), (50, 10));
    assert_eq!((counts(A).frames, counts(A).dirty), (50, 20));
    audit(&frames);
}
