//! Which drives take part in a row.

use super::Rows;
use crate::inner::Inner;

impl Inner {
    /// The drives that can be neither read nor written in a row, as bits: those that do not take part, and the one that is being
    /// filled and has not come to this row.
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

    /// The drive at a position, if it takes part in a row.
    pub(crate) fn in_row(&self, rows: &Rows, row: u64, position: u32) -> Option<world::Drive> {
        match self.missing_in(rows, row) & 1 << position {
            0 => self.members[position as usize].taking_part(),
            _ => None,
        }
    }

    /// Where byte `within` of a row's units lies on its drives.
    pub(crate) fn on_drive(&self, rows: &Rows, row: u64, within: u32) -> u64 {
        self.data_offset + rows.geometry.row_on_drive(row) + u64::from(within)
    }
}
