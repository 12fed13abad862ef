//! What is pending of each lane: units that are destaged together.

use std::collections::BTreeMap;

use super::state::{FrameState, LaneId, UnitId};
use super::table::Frames;

/// The books of the lanes.
#[derive(Default)]
pub(super) struct Lanes {
    /// The units that were put in a lane; all others are in the first.
    by_unit: BTreeMap<UnitId, LaneId>,
    /// Frames in any other state than Clean, by lane.
    pending: Vec<u32>,
}

impl Lanes {
    pub(super) fn of(&self, unit: UnitId) -> LaneId {
        self.by_unit.get(&unit).copied().unwrap_or_default()
    }

    /// A frame of the lane changes its state.
    pub(super) fn count(&mut self, lane: LaneId, from: FrameState, to: FrameState) {
        let lane = usize::from(lane.0);
        if self.pending.len() <= lane {
            self.pending.resize(lane + 1, 0);
        }
        self.pending[lane] += u32::from(from == FrameState::Clean);
        self.pending[lane] -= u32::from(to == FrameState::Clean);
    }
}

impl Frames {
    /// Puts a unit that has no frames in a lane.
    pub fn set_lane(&mut self, unit: UnitId, lane: LaneId) {
        assert!(!self.books.contains_key(&unit), "a unit with frames stays in its lane");
        self.lanes.by_unit.insert(unit, lane);
    }

    /// A unit that has no frames is gone for ever.
    pub fn forget_unit(&mut self, unit: UnitId) {
        self.lanes.by_unit.remove(&unit);
    }

    /// Frames of a lane in any other state than Clean.
    pub fn lane_pending(&self, lane: LaneId) -> u32 {
        self.lanes.pending.get(usize::from(lane.0)).copied().unwrap_or(0)
    }

    /// The most that any lane has pending.
    pub fn fullest_lane(&self) -> u32 {
        self.lanes.pending.iter().copied().max().unwrap_or(0)
    }

    /// How many lanes have something pending.
    pub fn lanes_pending(&self) -> usize {
        self.lanes.pending.iter().filter(|pending| **pending > 0).count()
    }
}
