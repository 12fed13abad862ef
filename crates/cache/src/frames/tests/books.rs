//! The audit: every book of the frames, counted again from the frames themselves.

use std::collections::{BTreeMap, BTreeSet};

use world::Data;

use crate::frames::index::NONE;
use crate::frames::policy::Home;
use crate::frames::queue::{Links, Queue};
use crate::frames::table::Frame;
use crate::frames::{ALL_SECTORS, FRAME_BYTES, FrameState, Frames, Key, PartitionId, UnitId};

pub(super) const P0: PartitionId = PartitionId(0);

pub(super) fn key(unit: u32, block: u64) -> Key {
    Key { unit: UnitId(unit), block }
}

pub(super) fn filled(byte: u8) -> Data {
    Data::copy_of(&[byte; FRAME_BYTES])
}

/// The first block of a unit in state Dirty.
pub(super) fn first_dirty(frames: &Frames, unit: UnitId) -> Option<u64> {
    frames.dirty_after(unit, 0).next()
}

/// A read that misses fills the frame, as the unit does it. Whether it hit.
pub(super) fn read(frames: &mut Frames, partition: PartitionId, key: Key, content: &Data) -> bool {
    let hit = frames.get(partition, key).is_some();
    if !hit {
        frames.insert_clean(partition, key, content.clone(), ALL_SECTORS);
    }
    hit
}

fn walk(queue: &Queue, links: &Links) -> Vec<u32> {
    let mut slots = Vec::new();
    let mut slot = queue.oldest();
    while slot != NONE {
        slots.push(slot);
        slot = links.newer(slot);
    }
    assert_eq!(slots.len(), queue.len() as usize);
    assert_eq!(slots.last().copied().unwrap_or(NONE), queue.newest());
    slots
}

/// Panics when a book says something else than the frames.
pub(super) fn audit(frames: &Frames) {
    let live: Vec<(u32, &Frame)> =
        (0..).zip(&frames.list).filter(|(_, frame)| !frame.data.is_empty()).collect();
    assert_eq!(live.len() + frames.free.len(), frames.list.len());
    assert!(frames.list.len() <= frames.capacity as usize);
    for (slot, frame) in &live {
        assert_eq!(frames.find(frame.key), Some(*slot));
        assert_eq!((frame.dirty | frame.in_flight) & !frame.valid, 0, "what is dirty is valid");
        let dirty = matches!(frame.state, FrameState::Dirty | FrameState::Rewritten);
        assert_eq!(frame.dirty != 0, dirty, "{:?}", frame.key);
        assert_eq!(frame.in_flight != 0, frame.state.is_in_flight());
    }
    let state = |state: FrameState| live.iter().filter(|(_, f)| f.state == state).count() as u32;
    let counts = frames.counts();
    assert_eq!(counts.clean, state(FrameState::Clean));
    assert_eq!(counts.dirty, state(FrameState::Dirty));
    assert_eq!(counts.destaging, state(FrameState::Destaging));
    assert_eq!(counts.rewritten, state(FrameState::Rewritten));
    audit_partitions(frames, &live);
    audit_units(frames, &live);
}

fn audit_partitions(frames: &Frames, live: &[(u32, &Frame)]) {
    let mut ghosts = 0;
    for (number, partition) in frames.partitions.iter().enumerate() {
        let own: Vec<_> = live.iter().filter(|(_, f)| usize::from(f.partition) == number).collect();
        assert!(own.is_empty() || partition.exists);
        assert_eq!(partition.counts.frames as usize, own.len());
        let dirty = own.iter().filter(|(_, f)| f.state != FrameState::Clean).count();
        assert_eq!(partition.counts.dirty as usize, dirty);
        for (queue, home) in [(&partition.small, Home::Small), (&partition.main, Home::Main)] {
            let queued: BTreeSet<u32> = walk(queue, &frames.links).into_iter().collect();
            let clean = own.iter().filter(|(_, f)| f.state == FrameState::Clean && f.home == home);
            assert_eq!(queued, clean.map(|&&(slot, _)| slot).collect());
        }
        ghosts += partition.ghosts.len();
    }
    assert!(ghosts <= frames.capacity);
}

fn audit_units(frames: &Frames, live: &[(u32, &Frame)]) {
    let mut units: BTreeMap<UnitId, Vec<(u32, &Frame)>> = BTreeMap::new();
    for &(slot, frame) in live {
        units.entry(frame.key.unit).or_default().push((slot, frame));
    }
    for (unit, book) in &frames.books {
        let own = units.remove(unit).unwrap_or_default();
        let blocks = |is: &dyn Fn(&Frame) -> bool| -> BTreeSet<u64> {
            own.iter().filter(|(_, f)| is(f)).map(|(_, f)| f.key.block).collect()
        };
        assert!(book.present.from(0).eq(blocks(&|_| true)));
        assert!(book.dirty.from(0).eq(blocks(&|f| f.state == FrameState::Dirty)));
        assert!(book.in_flight.from(0).eq(blocks(&|f| f.state.is_in_flight())));
        let aged = own.iter().filter(|(_, f)| f.oldest != 0).map(|(_, f)| (f.oldest, f.key.block));
        assert_eq!(book.ages, aged.collect());
        let rewritten = blocks(&|f| f.state == FrameState::Rewritten);
        assert!(book.since.keys().all(|block| rewritten.contains(block)));
    }
    assert!(units.is_empty(), "a unit with frames has books");
}
