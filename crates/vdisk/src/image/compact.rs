//! Compaction: releases blocks of zeros, moves the last blocks into the gaps, and truncates the file.

use block::Pieces;

use super::{Access, Format, Image, file};
use crate::{Move, VdiskError};

/// Result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Compacted {
    /// Released blocks of zeros.
    pub zero_blocks: u64,
    pub moved_blocks: u64,
    /// Length of the file before.
    pub before_bytes: u64,
    /// Length of the file after.
    pub after_bytes: u64,
}

/// Moves between two commits: the work that a power failure repeats.
const BATCH: usize = 64;
/// Length of one read and comparison, or copy.
const PIECE_BYTES: u64 = 1 << 20;

impl Image {
    /// Compacts the image, which must not be in use. A power failure at any moment leaves it consistent.
    ///
    /// # Errors
    ///
    /// The image has a parent or is fixed, or its file failed. It is consistent then.
    pub async fn compact(&self, mut tell: impl FnMut(u64, u64)) -> Result<Compacted, VdiskError> {
        let before_bytes = self.file_len_bytes();
        if self.0.access == Access::Read {
            return Err(VdiskError::ReadOnly);
        }
        let Some(block_bytes) = self.block_bytes() else {
            return Err(VdiskError::refused("cannot compact a fixed image: convert it to a dynamic one"));
        };
        self.0.map.borrow_mut().keep_data();
        // In a differencing image, released sectors would show the parent's content.
        let may_let_go = !matches!(self.0.format, Format::VhdDifferencing | Format::VhdxDifferencing);
        let mut done = Compacted { before_bytes, ..Compacted::default() };
        let mut at = 0;
        while at < self.len_bytes() && may_let_go {
            tell(at, self.len_bytes());
            let len = block_bytes.min(self.len_bytes() - at);
            if self.extent(at, len).1 && self.is_zeros(at, len).await? {
                self.zero(at, len).await?;
                done.zero_blocks += 1;
            }
            at += len;
        }
        self.begin().await?;
        self.flush().await?;
        let moves = self.0.map.borrow().moves();
        for batch in moves.chunks(BATCH) {
            tell(done.moved_blocks * block_bytes, moves.len() as u64 * block_bytes);
            for block in batch {
                self.copy_block(*block).await?;
                self.0.map.borrow_mut().moved(*block);
            }
            self.flush().await?;
            done.moved_blocks += batch.len() as u64;
        }
        self.0.map.borrow_mut().recount();
        self.flush().await?;
        self.0.drive.set_len(self.used_len_bytes()).await?;
        self.close().await?;
        done.after_bytes = self.file_len_bytes();
        Ok(done)
    }

    async fn is_zeros(&self, at: u64, len: u64) -> Result<bool, VdiskError> {
        let mut done = 0;
        while done < len {
            let n = PIECE_BYTES.min(len - done);
            let mut out = Pieces::new();
            self.read(at + done, n, &mut out).await?;
            if !out.iter().all(|data| data.is_shared_zeros() || data.iter().all(|byte| *byte == 0)) {
                return Ok(false);
            }
            done += n;
        }
        Ok(true)
    }

    /// Copies a block within the file.
    async fn copy_block(&self, block: Move) -> Result<(), VdiskError> {
        let mut done = 0;
        while done < block.len {
            let n = PIECE_BYTES.min(block.len - done);
            let mut bytes = Pieces::new();
            file::read_file(&self.0.drive, block.from + done, n, &mut bytes).await?;
            file::write(&self.0.drive, block.to + done, bytes.joined())?.await?;
            done += n;
        }
        Ok(())
    }
}
