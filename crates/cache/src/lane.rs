//! Lanes: what lies on the same drives is destaged together, and lanes have nothing in common but the memory. Each has a sweep of its own, as
//! many runs under way as its own share of the memory says, and waits for its own drives: a slow pool fills its part of the memory, not that of the others.
//!
//! While writes hold all that they may, the lane that holds most of it waits for its drives, and those that hold less go on:
//!
//! ```text
//!   before │████████████ a │██ b │     a holds the memory; b is new, and goes on although it is full,
//!   later  │████████ a │██████ b │     while a gets half of what its drives put in place until both hold as much
//! ```

use std::cell::Cell;

use crate::frames::{Frames, LaneId};

/// A lane that holds this share of the fullest one's memory and more counts as the fullest: lanes that are alike wait alike.
const ALIKE_PARTS: u32 = 64;
/// Of what its drives put in place, the fullest lane may write one frame in so many again.
const EARNED_PARTS: u64 = 2;
/// What a lane can have earned, in frames that were put in place: a few runs, so that what it earned long ago fills no memory.
const EARNED_MAX: u64 = 128;

/// What the units on the same drives have in common.
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    /// Whose drives, as the stores say.
    pub(crate) drives: [u8; 16],
    /// Whether its sweep is at work.
    pub(crate) destaging: Cell<bool>,
    /// Frames that were put in place, and not written again for it.
    earned: Cell<u64>,
}

impl Lane {
    pub(crate) fn new(id: LaneId, drives: [u8; 16]) -> Lane {
        Lane { id, drives, destaging: Cell::new(false), earned: Cell::new(0) }
    }

    /// So many frames are in place.
    pub(crate) fn earn(&self, frames: u64) {
        self.earned.set((self.earned.get() + frames).min(EARNED_MAX));
    }

    /// So many frames were written.
    pub(crate) fn spend(&self, frames: u64) {
        self.earned.set(self.earned.get().saturating_sub(EARNED_PARTS * frames));
    }

    /// Whether its writes may go on with so many frames that writes may hold.
    pub(crate) fn may_write(&self, frames: &Frames, may_hold: u32) -> bool {
        let pending = frames.dirty_frames();
        if pending < may_hold {
            return true;
        }
        // Half of what is left for those who hold less; the rest stays for readers.
        let most = may_hold + (frames.counts().capacity - may_hold) / 2;
        let (own, fullest) = (frames.lane_pending(self.id), frames.fullest_lane());
        let is_fullest = own >= fullest - fullest / ALIKE_PARTS;
        let has_earned = self.earned.get() >= EARNED_PARTS && own < pending;
        pending < most && (!is_fullest || has_earned)
    }
}

/// How many runs a lane has under way of `most`, with so much of the memory pending: as many as it holds of an equal part of what writes may hold,
/// and a few at least. It follows the memory without steps: what a lane destages changes with what it holds, and with nothing else.
pub(crate) fn width(frames: &Frames, lane: LaneId, may_hold: u32, most: usize) -> usize {
    let (own, lanes) = (frames.lane_pending(lane) as usize, frames.lanes_pending());
    (most * own * lanes.max(1) / (may_hold as usize).max(1)).clamp(WIDTH_MIN.min(most), most)
}

/// Enough for the drives of a small group to sort.
const WIDTH_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{ALL_SECTORS, FRAME_BYTES, Key, PartitionId, UnitId};
    use world::Data;

    const A: UnitId = UnitId(0);
    const B: UnitId = UnitId(1);

    /// 1000 frames, of which two units on lanes of their own have so many dirty.
    fn frames(a: u64, b: u64) -> Frames {
        let mut frames = Frames::new(1000);
        frames.set_lane(A, LaneId(0));
        frames.set_lane(B, LaneId(1));
        for (unit, count) in [(A, a), (B, b)] {
            for block in 0..count {
                let data = Data::copy_of(&[7; FRAME_BYTES]);
                frames.write(PartitionId(0), Key { unit, block }, data, ALL_SECTORS, 0).expect("a frame");
            }
        }
        frames
    }

    #[test]
    fn the_fullest_lane_waits_and_the_others_go_on() {
        let [a, b] = [0, 1].map(|n| Lane::new(LaneId(n), [n as u8; 16]));
        let may = |frames: &Frames| [a.may_write(frames, 700), b.may_write(frames, 700)];
        assert_eq!(may(&frames(600, 99)), [true, true], "not full");
        assert_eq!(may(&frames(600, 100)), [false, true]);
        assert_eq!(may(&frames(400, 400)), [false, false], "alike");
        assert_eq!(may(&frames(400, 396)), [false, false], "nearly alike");
        assert_eq!(may(&frames(600, 250)), [false, false], "half of the rest stays clean");
        a.earn(2);
        assert_eq!(may(&frames(600, 100)), [true, true], "it has put two frames in place");
        a.spend(1);
        assert_eq!(may(&frames(600, 100)), [false, true]);
        a.earn(2);
        assert_eq!(may(&frames(700, 0)), [false, true], "alone, it keeps to what writes may hold");
    }

    #[test]
    fn what_a_lane_has_under_way_follows_what_it_holds() {
        let width = |a, b| width(&frames(a, b), LaneId(0), 700, 32);
        assert_eq!((width(700, 0), width(350, 0), width(10, 0)), (32, 16, 4));
        assert_eq!((width(350, 350), width(175, 350), width(600, 100)), (32, 16, 32));
        for own in 1..700 {
            assert!(width(own, 0) - width(own - 1, 0) <= 1, "a step at {own}");
        }
    }
}
