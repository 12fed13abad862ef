//! The bitmaps of blocks: which sectors are present, the first one in the highest bit of the first byte.

use std::ops::Range;

/// The bitmap of one block, in whole sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bitmap(Vec<u8>);

impl Bitmap {
    pub(super) fn from_bytes(bytes: &[u8]) -> Bitmap {
        Bitmap(bytes.to_vec())
    }

    /// A bitmap of this many bytes, with equal bits.
    pub(super) fn uniform(bytes: usize, set: bool) -> Bitmap {
        Bitmap(vec![if set { 0xff } else { 0 }; bytes])
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn has(&self, sector: u64) -> bool {
        self.0[(sector / 8) as usize] & (0x80 >> (sector % 8)) != 0
    }

    /// Sets the bits of some sectors; returns whether one of them was not set.
    pub(super) fn set(&mut self, sectors: Range<u64>) -> bool {
        let mut changed = false;
        for sector in sectors {
            let (byte, bit) = (&mut self.0[(sector / 8) as usize], 0x80 >> (sector % 8));
            changed |= *byte & bit == 0;
            *byte |= bit;
        }
        changed
    }

    /// Number of sectors from `from` on, before `end`, whose bits equal that of the first.
    pub(super) fn run(&self, from: u64, end: u64) -> u64 {
        let first = self.has(from);
        (from + 1..end).find(|sector| self.has(*sector) != first).unwrap_or(end) - from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_equal_bits_and_the_highest_is_the_first() {
        let mut bitmap = Bitmap::uniform(512, false);
        assert!(bitmap.set(3..10));
        assert!(!bitmap.set(4..9));
        assert_eq!(bitmap.bytes()[..2], [0x1f, 0xc0]);
        assert_eq!(
            (bitmap.run(0, 4096), bitmap.run(3, 4096), bitmap.run(3, 5), bitmap.run(10, 4096)),
            (3, 7, 2, 4086)
        );
    }
}
