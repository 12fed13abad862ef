//! Which drives participate in a row.

use super::Rows;
use crate::inner::Inner;

impl Inner {
    /// The drives that cannot be read or written in a row, as bits: missing ones, and the one whose rebuild
    /// has not reached this row.
    pub(crate) fn missing_in(&self, rows: &Rows, row: u64) -> u32 {
        let all = u32::MAX >> (32 - self.members.len());
        let mut there = self.active_set();
        if let Some((position, filled_to)) = self.rebuilding.get()
            && (row + 1) * rows.unit() <= filled_to
        {
            there |= 1 << position;
        }
        all & !there
    }

    /// The drive at a position, if it participates in a row.
    pub(crate) fn in_row(&self, rows: &Rows, row: u64, position: u32) -> Option<world::Drive> {
        match self.missing_in(rows, row) & 1 << position {
            0 => self.members[position as usize].taking_part(),
            _ => None,
        }
    }

    /// The offset on the drives of byte `within` of a row's units.
    pub(crate) fn on_drive(&self, rows: &Rows, row: u64, within: u32) -> u64 {
        self.data_offset + rows.geometry.row_on_drive(row) + u64::from(within)
    }
}
