//! Partitions: ownership of frames, and which partition evicts one when another needs it.

use super::queue::Queue;
use super::state::FrameState;

/// Limit of partitions: more than classes of service in use. It bounds the search for the partition that
/// evicts.
pub const PARTITIONS_MAX: u16 = 64;

/// The share of all frames that every partition gets, even if minimums reserve everything: enough for the
/// writes in flight of some initiators, and negligible for the others.
const FLOOR_PART: u32 = 256;

/// Counters of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionCounts {
    /// Frames it has.
    pub frames: u32,
    /// Its minimum of frames.
    pub frames_min: u32,
    /// Of its frames, those that are dirty.
    pub dirty: u32,
    /// Blocks found (hits).
    pub hits: u64,
    /// Blocks not found (misses).
    pub misses: u64,
    /// Evicted frames.
    pub evictions: u64,
    /// Blocks that returned soon after their eviction, and entered the main queue.
    pub ghost_hits: u64,
}

/// One partition: its queues hold its clean frames.
#[derive(Default)]
pub(super) struct Partition {
    pub(super) exists: bool,
    pub(super) frames_min: u32,
    pub(super) small: Queue,
    pub(super) main: Queue,
    pub(super) ghosts: Queue,
    pub(super) counts: PartitionCounts,
}

impl Partition {
    pub(super) fn clean(&self) -> u32 {
        self.small.len() + self.main.len()
    }

    /// Frames of another state than `Clean` are counted, not queued.
    pub(super) fn count_state(&mut self, from: FrameState, to: FrameState) {
        self.counts.dirty -= u32::from(from != FrameState::Clean);
        self.counts.dirty += u32::from(to != FrameState::Clean);
    }
}

/// The partition that evicts a frame so that partition `asking` gets one, when none is free. `None`: no
/// partition has a clean frame.
///
/// Each partition is entitled to its minimum and an equal share of the unreserved frames. A partition below
/// that takes a frame from the one that exceeds its share the most; one at its share evicts a frame of its
/// own. No partition falls below its minimum for others, except for the few frames without which a partition
/// without a minimum could not work at all.
pub(super) fn giver(partitions: &[Partition], asking: usize, capacity: u32) -> Option<usize> {
    let existing = partitions.iter().filter(|p| p.exists).count() as u64;
    let claimed: u64 = partitions.iter().map(|p| u64::from(p.frames_min)).sum();
    let unclaimed = u64::from(capacity).saturating_sub(claimed);
    let min = |p: &Partition| u64::from(p.frames_min);
    let fair = |p: &Partition| match p.exists {
        true => min(p) + unclaimed / existing.max(1),
        false => 0,
    };
    let most_above = |entitled: &dyn Fn(&Partition) -> u64| {
        let above = |p: &Partition| u64::from(p.counts.frames).saturating_sub(entitled(p));
        (0..partitions.len())
            .filter(|&i| i != asking && partitions[i].clean() > 0 && above(&partitions[i]) > 0)
            .max_by_key(|&i| above(&partitions[i]))
    };
    let me = &partitions[asking];
    let own = || (me.clean() > 0).then_some(asking);
    let has = u64::from(me.counts.frames);
    if has < u64::from((capacity / FLOOR_PART).max(1)) {
        most_above(&fair).or_else(|| most_above(&min)).or_else(|| most_above(&|_| 0)).or_else(own)
    } else if has < min(me) {
        most_above(&fair).or_else(|| most_above(&min)).or_else(own)
    } else if has < fair(me) {
        most_above(&fair).or_else(own).or_else(|| most_above(&min))
    } else {
        own().or_else(|| most_above(&fair)).or_else(|| most_above(&min))
    }
}
