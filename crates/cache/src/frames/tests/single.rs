//! One frame at a time: masks, merges, states, and what is forgotten.

use super::books::{P0, audit, filled, key, read};
use crate::frames::{ALL_SECTORS, FRAME_BYTES, FrameState, Frames, NoFrame, UnitFrames, UnitId};

/// The first byte of each sector.
fn sectors(data: &[u8]) -> Vec<u8> {
    data.chunks(512).map(|sector| sector[0]).collect()
}

#[test]
fn a_partial_write_joins_what_is_there_and_changes_nothing_that_was_handed_out() {
    let mut frames = Frames::new(4);
    let k = key(1, 5);
    frames.write(P0, k, filled(1), 0b0000_1111, 0).unwrap();
    assert_eq!(frames.peek(k).unwrap().valid, 0b0000_1111);
    let held = frames.peek(k).unwrap().data.clone();
    frames.write(P0, k, filled(2), 0b0011_1100, 0).unwrap();
    let frame = frames.peek(k).unwrap();
    assert_eq!((frame.valid, frame.dirty), (0b0011_1111, 0b0011_1111));
    assert_eq!(sectors(frame.data)[..6], [1, 1, 2, 2, 2, 2]);
    assert_eq!(sectors(&held)[..4], [1, 1, 1, 1], "what a reader holds stays");
    // The device's content fills only what is missing.
    assert!(frames.insert_clean(P0, k, filled(9), ALL_SECTORS));
    let frame = frames.peek(k).unwrap();
    assert_eq!((frame.valid, frame.dirty, frame.state), (ALL_SECTORS, 0b0011_1111, FrameState::Dirty));
    assert_eq!(sectors(frame.data), [1, 1, 2, 2, 2, 2, 9, 9]);
    assert!(frames.insert_clean(P0, k, filled(8), ALL_SECTORS));
    assert_eq!(sectors(frames.peek(k).unwrap().data)[7], 9, "present sectors are never replaced");
    audit(&frames);
}

#[test]
fn a_frame_goes_through_its_states() {
    let mut frames = Frames::new(4);
    let k = key(1, 5);
    let state = |frames: &Frames| frames.peek(k).unwrap().state;
    frames.write(P0, k, filled(1), 0x03, 7).unwrap();
    assert_eq!(frames.oldest_sequence(UnitId(1)), Some(7));
    let picked = frames.begin_destage(k);
    assert_eq!((picked.sectors, picked.sequence, sectors(&picked.data)[0]), (0x03, 7, 1));
    assert_eq!(state(&frames), FrameState::Destaging);
    assert!(frames.any_destaging(UnitId(1), 5..6) && !frames.any_dirty(UnitId(1), 0..100));
    frames.write(P0, k, filled(2), 0x02, 9).unwrap();
    assert_eq!(state(&frames), FrameState::Rewritten);
    assert_eq!(frames.oldest_sequence(UnitId(1)), Some(7), "7 is on its way only");
    frames.end_destage(k, true);
    assert_eq!(frames.peek(k).unwrap().dirty, 0x02, "only what was written since");
    assert_eq!(frames.oldest_sequence(UnitId(1)), Some(9));
    assert_eq!(sectors(&frames.begin_destage(k).data)[..2], [1, 2]);
    frames.write(P0, k, filled(3), 0x04, 11).unwrap();
    frames.end_destage(k, false);
    assert_eq!(frames.peek(k).unwrap().dirty, 0x06, "a failed destage gives its sectors back");
    assert_eq!(frames.oldest_sequence(UnitId(1)), Some(9));
    assert!(frames.dirty_up_to(UnitId(1), 9).eq([5]) && frames.dirty_up_to(UnitId(1), 8).eq([]));
    audit(&frames);
    frames.begin_destage(k);
    frames.end_destage(k, true);
    assert_eq!((state(&frames), frames.dirty_frames()), (FrameState::Clean, 0));
    assert_eq!(frames.oldest_sequence(UnitId(1)), None);
    audit(&frames);
}

#[test]
fn a_clean_frame_that_closes_a_gap_is_written_again_if_that_fails() {
    let mut frames = Frames::new(4);
    let k = key(1, 5);
    frames.insert_clean(P0, k, filled(1), ALL_SECTORS);
    frames.begin_destage(k);
    frames.write(P0, k, filled(2), 0x01, 3).unwrap();
    assert_eq!(frames.oldest_sequence(UnitId(1)), Some(3));
    frames.end_destage(k, true);
    assert_eq!(frames.peek(k).unwrap().dirty, 0x01);
    frames.begin_destage(k);
    frames.end_destage(k, true);
    frames.begin_destage(k);
    frames.end_destage(k, false);
    assert_eq!((frames.peek(k).unwrap().dirty, frames.dirty_frames()), (ALL_SECTORS, 1));
    audit(&frames);
}

#[test]
#[should_panic(expected = "is destaging and is destaged again")]
fn a_frame_is_not_destaged_twice_at_once() {
    let mut frames = Frames::new(4);
    frames.write(P0, key(1, 5), filled(1), ALL_SECTORS, 0).unwrap();
    frames.begin_destage(key(1, 5));
    frames.begin_destage(key(1, 5));
}

#[test]
#[should_panic(expected = "is dirty and its destage ends")]
fn a_destage_that_did_not_begin_does_not_end() {
    let mut frames = Frames::new(4);
    frames.write(P0, key(1, 5), filled(1), ALL_SECTORS, 0).unwrap();
    frames.end_destage(key(1, 5), true);
}

#[test]
#[should_panic(expected = "is rewritten and is dropped")]
fn a_frame_on_its_way_is_not_dropped() {
    let mut frames = Frames::new(4);
    frames.write(P0, key(1, 5), filled(1), ALL_SECTORS, 0).unwrap();
    frames.begin_destage(key(1, 5));
    frames.write(P0, key(1, 5), filled(1), ALL_SECTORS, 0).unwrap();
    frames.drop_range(UnitId(1), 0..10);
}

#[test]
fn only_clean_frames_are_given_up() {
    let mut frames = Frames::new(4);
    for block in 0..4 {
        frames.write(P0, key(1, block), filled(1), ALL_SECTORS, 0).unwrap();
    }
    assert_eq!(frames.write(P0, key(1, 9), filled(1), 1, 0), Err(NoFrame));
    assert!(!frames.insert_clean(P0, key(1, 9), filled(1), 1));
    assert_eq!(frames.write(P0, key(1, 2), filled(1), 1, 0), Ok(()), "a present frame needs no other");
    frames.begin_destage(key(1, 2));
    assert_eq!(frames.write(P0, key(1, 9), filled(1), 1, 0), Err(NoFrame));
    frames.end_destage(key(1, 2), true);
    assert_eq!(frames.write(P0, key(1, 9), filled(1), 1, 0), Ok(()));
    assert!(frames.peek(key(1, 2)).is_none());
    audit(&frames);
}

#[test]
fn a_range_is_dropped_whatever_its_length() {
    for length in [3, 1 << 28] {
        let mut frames = Frames::new(100);
        for block in 0..20 {
            frames.write(P0, key(1, block * 1000), filled(1), ALL_SECTORS, block).unwrap();
            frames.insert_clean(P0, key(2, block * 1000), filled(1), ALL_SECTORS);
        }
        let range = 5000..5000 + length;
        let left: Vec<u64> = (0..20).map(|n| n * 1000).filter(|block| !range.contains(block)).collect();
        assert_eq!(frames.present(UnitId(1), range.clone()).len() + left.len(), 20);
        frames.drop_range(UnitId(1), range);
        assert_eq!(frames.present(UnitId(1), 0..u64::MAX), left);
        let expected = UnitFrames { frames: left.len() as u32, dirty: left.len() as u32, in_flight: 0 };
        assert_eq!(frames.unit_frames(UnitId(1)), expected);
        assert_eq!(frames.unit_frames(UnitId(2)).frames, 20);
        audit(&frames);
        frames.drop_range(UnitId(1), 0..u64::MAX);
        assert_eq!(frames.unit_frames(UnitId(1)), UnitFrames::default());
        audit(&frames);
    }
}

#[test]
fn a_direct_write_updates_what_is_present() {
    let mut frames = Frames::new(4);
    frames.insert_clean(P0, key(1, 5), filled(1), 0x0f);
    assert!(frames.overwrite_clean(key(1, 5), filled(2), 0x18));
    assert!(!frames.overwrite_clean(key(1, 6), filled(2), 0x18));
    let frame = frames.peek(key(1, 5)).unwrap();
    assert_eq!((frame.valid, frame.state), (0x1f, FrameState::Clean));
    assert_eq!(sectors(frame.data)[..5], [1, 1, 1, 2, 2]);
    assert_eq!(frames.counts().clean, 1);
}

#[test]
fn what_the_main_queue_gives_up_is_offered_until_it_is_written() {
    let mut frames = Frames::new(50);
    frames.keep_evicted(8);
    let content = filled(1);
    // Passes over almost twice the frames: the ghosts bring blocks into the main queue, and others push them
    // out of it.
    for block in (0..6 * 90).map(|n| n % 90) {
        read(&mut frames, P0, key(1, block), &content);
    }
    assert!(frames.counts().ghost_hits > 0);
    assert_eq!(frames.evicted.len(), 8, "no more than asked for");
    let offered: Vec<u64> = frames.evicted.iter().map(|(key, _)| key.block).collect();
    let absent = |frames: &Frames, block| frames.peek(key(1, block)).is_none();
    assert!(offered.iter().all(|&block| absent(&frames, block)));
    frames.write(P0, key(1, offered[3]), filled(2), ALL_SECTORS, 0).unwrap();
    frames.drop_range(UnitId(1), offered[5]..offered[5] + 1);
    frames.overwrite_clean(key(1, offered[6]), filled(2), 1);
    let mut left = Vec::new();
    while let Some((key, data)) = frames.evicted() {
        assert_eq!(data.len(), FRAME_BYTES);
        left.push(key.block);
    }
    for gone in [3, 5, 6] {
        assert!(!left.contains(&offered[gone]), "{gone}: its content is not the device's any more");
    }
    assert!(left.len() >= 4);
}
