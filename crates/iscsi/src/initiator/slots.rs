//! Requests in flight: a table by task tag with reusable entries.

use std::task::Waker;

use block::Pieces;

use super::connect::Error;
use super::done::Done;
use crate::chunks::Chunks;

/// Task tags have the slot's number in their low bits and a counter above, so that a late response does not
/// match a new request.
pub(crate) const SLOT_BITS: u32 = 10;

/// A request in flight.
#[derive(Default)]
pub(crate) struct Slot {
    pub is_live: bool,
    /// The caller is gone: the response only frees the slot.
    pub is_abandoned: bool,
    /// The result was returned.
    pub is_answered: bool,
    pub itt: u32,
    pub waker: Option<Waker>,
    pub outcome: Option<Result<Done, Error>>,
    pub lun: [u8; 8],
    pub data_out: Pieces,
    pub data_in: Chunks,
    pub expect_in: u32,
    pub came_in: u32,
    pub data_sn: u32,
}

/// All slots.
pub(crate) struct Slots {
    list: Vec<Slot>,
    free: Vec<u16>,
    count: u32,
}

impl Slots {
    pub(crate) fn new(slots: u16) -> Slots {
        assert!(slots > 0 && u32::from(slots) < 1 << SLOT_BITS, "a depth of 1 to {}", (1 << SLOT_BITS) - 1);
        Slots {
            list: (0..slots).map(|_| Slot::default()).collect(),
            free: (0..slots).rev().collect(),
            count: 0,
        }
    }

    /// Allocates a slot; returns its number.
    pub(crate) fn take(&mut self) -> Option<u16> {
        let index = self.free.pop()?;
        self.count = self.count.wrapping_add(1);
        // The counter skips its highest values, so that no tag is all ones.
        let count = self.count % ((1 << (32 - SLOT_BITS)) - 1);
        let slot = &mut self.list[usize::from(index)];
        slot.itt = count << SLOT_BITS | u32::from(index);
        (slot.is_live, slot.is_abandoned, slot.is_answered) = (true, false, false);
        (slot.came_in, slot.data_sn) = (0, 0);
        Some(index)
    }

    pub(crate) fn get(&mut self, index: u16) -> &mut Slot {
        &mut self.list[usize::from(index)]
    }

    /// The live request with a tag.
    pub(crate) fn find(&mut self, itt: u32) -> Option<(u16, &mut Slot)> {
        let index = itt & ((1 << SLOT_BITS) - 1);
        let slot = self.list.get_mut(index as usize)?;
        (slot.is_live && slot.itt == itt && slot.outcome.is_none()).then_some((index as u16, slot))
    }

    /// Frees a slot.
    pub(crate) fn release(&mut self, index: u16) {
        let slot = &mut self.list[usize::from(index)];
        slot.is_live = false;
        slot.waker = None;
        slot.outcome = None;
        if !slot.data_out.is_empty() {
            slot.data_out = Pieces::new();
        }
        slot.data_in = Chunks::default();
        self.free.push(index);
    }

    /// The numbers of all live requests.
    pub(crate) fn live(&self) -> Vec<u16> {
        self.list.iter().enumerate().filter(|(_, s)| s.is_live).map(|(i, _)| i as u16).collect()
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }
}
