//! Rows of parity with several dirty pieces. Written one by one, each piece costs reads of old data and old
//! parity. One write from the first to the last, including the store's data in between, costs them once.
//!
//! ```text
//!   row     |. . D D . . . D . . D .|      . on the store, D dirty
//!                <── one write ──>
//! ```

use block::Pieces;
use smallvec::SmallVec;

use crate::destage::{PickedBlock, runs_of};
use crate::frames::{FRAME_BYTES, Frames, SECTOR_BYTES, UnitId};
use crate::plan::Run;

/// Drive operations of a small write in place: old data and old parity are read, new ones written.
const SMALL_WRITE_IOS: u32 = 4;

/// From the first dirty block at or after `block` in its row to the last, if one write of that range takes
/// fewer drive operations than one per piece.
///
/// Never a full row: the data in between were acknowledged long ago, and for full rows the group journals
/// checksums only, which cannot restore them if a drive is lost together with the power.
pub(crate) fn gathered(
    frames: &Frames,
    (unit, block): (UnitId, u64),
    row_blocks: u64,
    row_drives: u32,
) -> Option<Run> {
    if row_drives < 2 {
        return None;
    }
    let row_end = (block / row_blocks.max(1) + 1) * row_blocks.max(1);
    let mut dirty = frames.dirty_after(unit, block).take_while(|b| *b < row_end);
    let first = dirty.next()?;
    let (mut last, mut pieces) = (first, 1);
    for block in dirty {
        pieces += u32::from(block > last + 1);
        last = block;
    }
    // The row's parts on the drives are read once, and written once with the parity; the group reads the
    // rest.
    let at_once = 2 * (row_drives + 1);
    let is_whole_row = last + 1 - first == row_blocks;
    let pays = pieces > 1 && pieces * SMALL_WRITE_IOS > at_once && !is_whole_row;
    pays.then(|| Run { unit, first, blocks: (last + 1 - first) as u32 })
}

/// The store's content from block `first` on, overlaid with the picked blocks.
pub(crate) fn laid_over(below: &Pieces, first: u64, picked: &[PickedBlock]) -> Pieces {
    let mut out = Pieces::new();
    let mut next = 0;
    for (block, one) in picked {
        let start = (block - first) as usize * FRAME_BYTES;
        for sectors in runs_of(one.sectors).collect::<SmallVec<[_; 4]>>() {
            let bytes = sectors.start * SECTOR_BYTES..sectors.end * SECTOR_BYTES;
            out.append(below.slice(next, start + bytes.start - next));
            next = start + bytes.end;
            out.push(one.data.slice(bytes));
        }
    }
    out.append(below.slice(next, below.len() - next));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{ALL_SECTORS, Key, PartitionId, Picked};
    use world::Data;

    const U: UnitId = UnitId(3);

    fn dirty(blocks: &[u64]) -> Frames {
        let mut frames = Frames::new(1000);
        for &block in blocks {
            let data = Data::copy_of(&[7; FRAME_BYTES]);
            frames.write(PartitionId(0), Key { unit: U, block }, data, ALL_SECTORS, 0).expect("a frame");
        }
        frames
    }

    #[test]
    fn several_pieces_of_a_row_go_together_and_a_whole_row_does_not() {
        let of = |blocks: &[u64], block, drives| {
            gathered(&dirty(blocks), (U, block), 16, drives).map(|run| (run.first, run.blocks))
        };
        assert_eq!(of(&[33, 36, 47, 48], 32, 2), Some((33, 15)), "up to the end of the row");
        assert_eq!(of(&[33, 36, 40], 34, 2), Some((36, 5)), "from the block on");
        assert_eq!(of(&[33, 34, 35], 32, 2), None, "one piece");
        assert_eq!(of(&[33, 48], 33, 2), None, "another row");
        assert_eq!(of(&[32, 40, 47], 32, 2), None, "the whole row");
        assert_eq!(of(&[33, 36], 32, 1), None, "no parity");
        assert_eq!(of(&[33, 36], 32, 4), None, "two small writes cost less than the parts of four drives");
        assert_eq!(of(&[33, 36, 40], 32, 4), Some((33, 8)));
    }

    #[test]
    fn dirty_sectors_lie_over_what_the_store_has() {
        let below = Pieces::copy_of(&[0; 3 * FRAME_BYTES]);
        let picked = |sectors| Picked { data: Data::copy_of(&[9; FRAME_BYTES]), sectors, sequence: 0 };
        let over = laid_over(&below, 10, &[(10, picked(ALL_SECTORS)), (12, picked(0b0000_0110))]);
        let bytes = over.joined();
        assert_eq!(bytes.len(), 3 * FRAME_BYTES);
        let nines: Vec<usize> =
            bytes.chunks(SECTOR_BYTES).enumerate().filter(|(_, s)| s[0] == 9).map(|(i, _)| i).collect();
        assert_eq!(nines, [0, 1, 2, 3, 4, 5, 6, 7, 17, 18]);
    }
}
