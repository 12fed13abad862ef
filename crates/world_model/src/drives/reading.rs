//! What the head reads into a segment: a request, and then ahead of the next one.

use std::ops::Range;

use super::geometry::Place;
use super::mechanics::{Cursor, Mechanics, Pass};

/// Blocks that pass into one segment, from the cursor to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// `None`: the drive has no cache.
    pub(super) segment: Option<usize>,
    pub(super) cursor: Cursor,
    target: u64,
    /// Blocks of the track that had passed before its beginning came round: they need not pass again.
    kept: Option<Range<u64>>,
}

impl Reading {
    /// The arm, free at `cursor.at_ns`, goes to the cursor's block.
    pub(super) fn new(segment: Option<usize>, cursor: Cursor) -> Reading {
        Reading { segment, target: cursor.block, cursor, kept: None }
    }

    /// The same, and everything that passes on the track of `place` from where the head lands is kept.
    pub(super) fn of_track(segment: usize, cursor: Cursor, place: &Place, mechanics: &Mechanics) -> Reading {
        let landed_ns = cursor.at_ns + u64::from(mechanics.move_ns(cursor.place(), place, Pass::Read));
        let revolution_ns = u64::from(mechanics.parameters().revolution_ns);
        let angle_ns = u64::from(mechanics.angle_ns(landed_ns));
        // The first slot that begins at or after this angle, and its sector on the track.
        let slot = (angle_ns * u64::from(place.sectors)).div_ceil(revolution_ns) as u32;
        let landed = (slot + place.sectors + place.sector - place.slot) % place.sectors;
        let track = mechanics.geometry().track(cursor.block);
        let landed_block = mechanics.geometry().at_sector(cursor.block, landed);
        let mut reading = Reading::new(Some(segment), cursor);
        if landed_block <= cursor.block {
            reading.cursor.block = landed_block.max(track.start);
        } else {
            reading.cursor.block = track.start;
            reading.kept = (landed_block < track.end).then_some(landed_block..track.end);
        }
        reading
    }

    /// Whether it still reads.
    pub(super) fn is_under_way(&self) -> bool {
        self.cursor.block < self.target
    }

    /// From `from_ns` on, it goes on to here.
    pub(super) fn go_on_to(&mut self, target: u64, from_ns: u64) {
        if !self.is_under_way() {
            // It had stopped: the head has not read what passed since.
            self.cursor.at_ns = self.cursor.at_ns.max(from_ns);
        }
        self.target = self.target.max(target);
    }

    /// When all blocks before `end` have passed.
    pub(super) fn pass_to(&mut self, end: u64, mechanics: &Mechanics) -> u64 {
        if let Some(kept) = self.kept.clone() {
            mechanics.pass_to(&mut self.cursor, end.min(kept.start), Pass::Read);
            self.skip(&kept);
        }
        mechanics.pass_to(&mut self.cursor, end, Pass::Read);
        self.cursor.at_ns
    }

    /// Reads on until this time.
    pub(super) fn pass_until(&mut self, until_ns: u64, mechanics: &Mechanics) {
        if let Some(kept) = self.kept.clone() {
            mechanics.pass_until(&mut self.cursor, self.target.min(kept.start), until_ns, Pass::Read);
            self.skip(&kept);
        }
        if self.kept.is_none() {
            mechanics.pass_until(&mut self.cursor, self.target, until_ns, Pass::Read);
        }
    }

    fn skip(&mut self, kept: &Range<u64>) {
        if self.cursor.block == kept.start {
            self.cursor.block = kept.end;
            self.kept = None;
        }
    }
}
