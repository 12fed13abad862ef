//! The rows of a group: geometry, journal, and missing drives.

use std::ops::Range;

use parity::Geometry;
use smallvec::SmallVec;
use world::{DriveError, Io};

use super::journal::Journal;
use crate::label::{LABEL_REGION_LEN, Label};

/// Operations in flight, with the position of each drive.
pub(crate) type Operations = SmallVec<[(u32, Io<Result<(), DriveError>>); 8]>;

/// The additional state of levels 5 and 6.
pub(crate) struct Rows {
    pub(crate) geometry: Geometry,
    pub(crate) journal: Journal,
}

impl Rows {
    /// The rows of a group with this valid label.
    pub(crate) fn of(label: &Label) -> Rows {
        let geometry = Geometry::new(label.stripe_unit_bytes, label.width, label.level.parities());
        Rows {
            geometry: geometry.expect("a label that makes sense has a geometry"),
            journal: Journal::new(
                label.group_id,
                LABEL_REGION_LEN,
                label.journal_len,
                label.journal_epoch,
                label.width,
            ),
        }
    }

    pub(crate) fn unit(&self) -> u64 {
        self.geometry.unit_bytes().into()
    }

    /// The range of group addresses of rows `first..end`.
    pub(crate) fn range(&self, first: u64, end: u64) -> Range<u64> {
        first * self.geometry.row_bytes()..end * self.geometry.row_bytes()
    }

    /// The rows that a range touches: the first, and the one after the last.
    pub(crate) fn touched(&self, at: u64, len: u64) -> (u64, u64) {
        let row = self.geometry.row_bytes();
        (at / row, (at + len).div_ceil(row))
    }
}
