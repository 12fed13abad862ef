//! Replacement, after S3-FIFO (Yang et al., SOSP 2023): a frame enters a small queue on first access, and is
//! mostly evicted from there, with its key stored as a ghost; a frame that was used twice in it, or returned
//! as a ghost, is in the main queue, where each use (up to three) is worth another round.
//!
//! ```text
//!   new ──> small (10 %) ──used twice──> main ──not used──> second level, or nothing
//!             │                          ^  └─used─┘ once around
//!             └─else──> ghosts ──asked again┘
//! ```
//!
//! Only clean frames are in the queues: a frame leaves its queue when it is written and enters it again, as
//! the newest, when the device has its content. So whatever the share of dirty frames, nothing is searched or
//! skipped here.

use super::ghost::Ghosts;
use super::index::NONE;
use super::partition::Partition;
use super::queue::Links;
use super::table::Frame;

/// Counted uses: two bits, as published.
pub(super) const USES_MAX: u8 = 3;
/// Uses in the small queue that lead to the main queue. One is not enough: the second sector of a block that
/// is read sector by sector is no sign that it will be read again.
const USES_TO_STAY: u8 = 2;
/// The small queue's part of the clean frames: one in ten, as published.
const SMALL_PART: u32 = 10;
/// Limit of frames examined for one eviction. A use gives a frame at most three rounds, so the mean is small;
/// after many hits the oldest frame is evicted at this limit.
const LOOKS_MAX: u32 = 32;

/// The queue that a frame is in while it is clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Small,
    Main,
}

impl Partition {
    /// Adds a clean frame as the newest of its queue.
    pub(super) fn enter(&mut self, links: &mut Links, slot: u32, home: Home) {
        match home {
            Home::Small => self.small.push(links, slot),
            Home::Main => self.main.push(links, slot),
        }
    }

    /// Removes a clean frame from its queue.
    pub(super) fn leave(&mut self, links: &mut Links, slot: u32, home: Home) {
        match home {
            Home::Small => self.small.remove(links, slot),
            Home::Main => self.main.remove(links, slot),
        }
    }

    /// The clean frame to evict next; it stays in its queue. `None`: none is clean.
    pub(super) fn victim(&mut self, links: &mut Links, frames: &mut [Frame]) -> Option<u32> {
        for look in 1..=LOOKS_MAX {
            let small_is_long = self.small.len() > self.clean() / SMALL_PART;
            let home = if small_is_long || self.main.oldest() == NONE { Home::Small } else { Home::Main };
            let slot = match home {
                Home::Small => self.small.oldest(),
                Home::Main => self.main.oldest(),
            };
            if slot == NONE {
                return None;
            }
            let frame = &mut frames[slot as usize];
            let uses_left = match home {
                Home::Small if frame.uses >= USES_TO_STAY => Some(0),
                Home::Main => frame.uses.checked_sub(1),
                Home::Small => None,
            };
            let Some(uses) = uses_left.filter(|_| look < LOOKS_MAX) else {
                return Some(slot);
            };
            frame.uses = uses;
            frame.home = Home::Main;
            self.leave(links, slot, home);
            self.enter(links, slot, Home::Main);
        }
        None
    }

    /// Stores a key evicted from the small queue; as many as the main queue of a full cache has frames.
    pub(super) fn remember(&mut self, ghosts: &mut Ghosts, partition: u16, hash: u64) {
        let limit = self.counts.frames - self.counts.frames / SMALL_PART;
        ghosts.remember(&mut self.ghosts, partition, hash, limit);
    }
}
