//! The seam between the formats and the driver.

use crate::{Extents, Step, VdiskError};

/// Why a map cannot resolve a range yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Wait {
    /// It needs these bytes of the file first ([`Map::load`]).
    Load {
        /// First byte.
        at: u64,
        /// Bytes; whole sectors.
        len: u64,
    },
    /// The range touches a block that is not allocated: [`Map::reserve`] it, zero its place, [`Map::place`]
    /// it, then call again.
    Block(u64),
    Error(VdiskError),
}

impl From<VdiskError> for Wait {
    fn from(error: VdiskError) -> Wait {
        Wait::Error(error)
    }
}

/// The place of a new block in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The block's number.
    pub block: u64,
    /// First byte in the file, of the block with its bitmap.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Minimum length of the file with the block in it.
    pub file_len: u64,
}

/// The move of a block, with its bitmap, to another place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The block's number.
    pub block: u64,
    /// First byte before the move.
    pub from: u64,
    /// First byte after the move.
    pub to: u64,
    /// Bytes.
    pub len: u64,
}

/// The moves that bring blocks from the end of a file into gaps. `placed` are places and numbers, `gaps`
/// places; both in order. A place that a block leaves is not used again: its content is valid until the table
/// is durable.
pub(crate) fn plan_moves(placed: &[(u64, u64)], gaps: &[u64], len: u64) -> Vec<Move> {
    let pairs = placed.iter().rev().zip(gaps).take_while(|((from, _), to)| *to < from);
    pairs.map(|((from, block), to)| Move { block: *block, from: *from, to: *to, len }).collect()
}

/// The metadata of one image, in memory: pure decisions. Addresses and lengths are bytes in whole sectors,
/// within the disk; the caller has checked them.
///
/// A write consists of [`Map::write`], writing the payload to the extents, and [`Map::written`]. It is
/// durable when the steps of a later [`Map::commit`] have been performed, and [`Map::committed`] was called.
/// One commit at a time.
pub trait Map {
    /// Size of the virtual disk.
    fn len_bytes(&self) -> u64;
    /// The unit of addresses: 512 or 4096.
    fn sector_bytes(&self) -> u32;
    /// The unit of allocation; `None`: fully allocated.
    fn block_bytes(&self) -> Option<u64>;
    /// Minimum length of the file before [`Map::begin`] is written.
    fn begin_len(&self) -> u64 {
        0
    }
    /// Steps before anything else of the image is written: once after it was opened for writing.
    fn begin(&mut self) -> Result<Vec<Step>, VdiskError> {
        Ok(Vec::new())
    }
    /// What is written from here on leaves the data of the disk as they are: children stay valid.
    fn keep_data(&mut self) {}
    /// The last steps, after everything was committed.
    fn close(&mut self) -> Result<Vec<Step>, VdiskError> {
        Ok(Vec::new())
    }
    /// Resolves a range for reading.
    fn read(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait>;
    /// Resolves a range for writing: extents of the file only.
    fn write(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait>;
    /// Records that the payload of a write is in the file.
    fn written(&mut self, at: u64, len: u64);
    /// Zeroes a range as far as the map can: the caller zeroes the returned extents in the file, and calls
    /// [`Map::written`] for the whole range. Released blocks are reused after the next commit and
    /// [`Map::reuse`].
    fn zero(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait>;
    /// Supplies the requested bytes of the file.
    fn load(&mut self, at: u64, bytes: &[u8]) -> Result<(), VdiskError>;
    /// Reserves a place for a block.
    fn reserve(&mut self, block: u64) -> Result<Grant, VdiskError>;
    /// Cancels the last reservation: there was no space for the block.
    fn give_back(&mut self, grant: Grant);
    /// Assigns the zeroed place to its block.
    fn place(&mut self, grant: Grant);
    /// Number of metadata writes since the last commit; 0: none.
    fn uncommitted(&self) -> usize;
    /// The steps that make durable what was done so far. Payload written before is not assumed to be durable
    /// yet.
    fn commit(&mut self) -> Result<Vec<Step>, VdiskError>;
    /// Records that the steps of the last commit were performed. Returns whether it released blocks, whose
    /// space waits for [`Map::reuse`].
    fn committed(&mut self) -> bool;
    /// Allows the reuse of blocks released in earlier commits: no operation uses them any more.
    fn reuse(&mut self);
    /// The moves that would shorten the file. No operation may be in progress, and everything must be
    /// committed.
    fn moves(&self) -> Vec<Move> {
        Vec::new()
    }
    /// Records that the block was copied to its new place.
    fn moved(&mut self, _block: Move) {}
    /// Records that the moves are committed: free space is computed again.
    fn recount(&mut self) {}
    /// Length of the used part of the file.
    fn used_len(&self) -> u64;
    /// The number of bytes from this address on, at most `len` within the disk, that are alike in whether
    /// their blocks are allocated, and whether they are.
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
