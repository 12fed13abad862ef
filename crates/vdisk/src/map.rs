//! The seam between the formats and the driver: what a map of an image answers.

use crate::{Extents, Step, VdiskError};

/// Why a map cannot answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It needs these bytes of the file first ([`Map::load`]).
    Load {
        /// First byte.
        at: u64,
        /// Bytes; whole sectors.
        len: u64,
    },
    /// The range touches a block that is not in the file: [`Map::reserve`] it, make its place zeros, [`Map::place`] it, then ask again.
    Block(u64),
    /// It never will.
    Error(VdiskError),
}

impl From<VdiskError> for Wait {
    fn from(error: VdiskError) -> Wait {
        Wait::Error(error)
    }
}

/// A place in the file for a block that is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The block's number.
    pub block: u64,
    /// First byte in the file, of the block with what belongs to it.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// How long the file must be at least when the block is in it.
    pub file_len: u64,
}

/// A block that moves to another place in the file, with what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The block's number.
    pub block: u64,
    /// First byte where it is.
    pub from: u64,
    /// First byte where it will be.
    pub to: u64,
    /// Bytes.
    pub len: u64,
}

/// The moves that bring blocks from the end of a file into places between others. `placed` are places and numbers, `gaps` places; both in order. A
/// place that a block leaves is not used again: what is there counts until the table is durable.
pub(crate) fn plan_moves(placed: &[(u64, u64)], gaps: &[u64], len: u64) -> Vec<Move> {
    let pairs = placed.iter().rev().zip(gaps).take_while(|((from, _), to)| *to < from);
    pairs.map(|((from, block), to)| Move { block: *block, from: *from, to: *to, len }).collect()
}

/// The metadata of one image, in memory: pure decisions. Addresses and lengths are bytes in whole sectors, within the disk: who calls has
/// checked them.
///
/// A write is: [`Map::write`], payload to the extents, [`Map::written`]. What has become visible so is durable when the steps of a later
/// [`Map::commit`] have been taken, and [`Map::committed`] was said. One commit at a time.
pub trait Map {
    /// Size of the virtual disk.
    fn len_bytes(&self) -> u64;
    /// The unit of addresses: 512 or 4096.
    fn sector_bytes(&self) -> u32;
    /// The unit in which space is taken from the file; `None` where all of it is.
    fn block_bytes(&self) -> Option<u64>;
    /// How long the file must be before [`Map::begin`] is written.
    fn begin_len(&self) -> u64 {
        0
    }
    /// What is written before anything else of the image is: once after it was opened for writing.
    fn begin(&mut self) -> Result<Vec<Step>, VdiskError> {
        Ok(Vec::new())
    }
    /// What is written last, after everything was committed.
    fn close(&mut self) -> Result<Vec<Step>, VdiskError> {
        Ok(Vec::new())
    }
    /// Where a range lies.
    fn read(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait>;
    /// Where a range is written: extents of the file only.
    fn write(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait>;
    /// The payload of a write is in the file.
    fn written(&mut self, at: u64, len: u64);
    /// Makes a range zeros as far as the map can: what it gives is to be made zeros in the file, and [`Map::written`] said of the whole range. Blocks that
    /// are let go are used again after the next commit and [`Map::reuse`].
    fn zero(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait>;
    /// Here are the bytes that were asked for.
    fn load(&mut self, at: u64, bytes: &[u8]) -> Result<(), VdiskError>;
    /// A place for a block.
    fn reserve(&mut self, block: u64) -> Result<Grant, VdiskError>;
    /// There was no room for the block: the place is as it was before it was reserved. It is the one that was reserved last.
    fn give_back(&mut self, grant: Grant);
    /// The place is zeros now, and the block's.
    fn place(&mut self, grant: Grant);
    /// How much has gathered since the last commit, in writes; 0: nothing.
    fn uncommitted(&self) -> usize;
    /// What makes durable what was done up to now. Payload that was written before counts as not durable yet.
    fn commit(&mut self) -> Result<Vec<Step>, VdiskError>;
    /// The steps of the last commit have been taken. Whether blocks were let go by it, whose space waits for [`Map::reuse`].
    fn committed(&mut self) -> bool;
    /// Nobody reads or writes any more where blocks lay that were let go in commits before.
    fn reuse(&mut self);
    /// The moves that would make the file shorter. Nothing else is under way, and everything is committed.
    fn moves(&self) -> Vec<Move> {
        Vec::new()
    }
    /// The block was copied, and lies there from now on.
    fn moved(&mut self, _block: Move) {}
    /// Blocks have moved, and that is committed: free space is counted anew.
    fn recount(&mut self) {}
    /// How much of the file is in use: it need not be longer.
    fn used_len(&self) -> u64;
    /// How many bytes from this address on, of so many that are in the disk, are alike in whether their blocks occupy space; and whether they do.
    fn extent(&self, at: u64, len: u64) -> (u64, bool);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_blocks_move_into_the_first_gaps() {
        let moves = plan_moves(&[(0, 7), (20, 8), (40, 9), (50, 6)], &[10, 30, 60], 10);
        let short: Vec<_> = moves.iter().map(|m| (m.block, m.from, m.to)).collect();
        assert_eq!(short, [(6, 50, 10), (9, 40, 30)]);
    }
}
