//! Verifiable content: a pattern that differs in every block, or zeros; written, read back and compared.

use block::Pieces;
use world::{Buf, Rng};

use super::file::File;
use super::store::{Datastore, StoreError};

/// The unit of comparison.
pub(super) const BLOCK: u64 = 4096;

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Zeros everywhere.
    Zeros,
    /// A pattern up to an offset, then zeros.
    Pattern {
        /// Makes this file's pattern differ from another's.
        key: u64,
        /// The first byte that is zero.
        used_bytes: u64,
    },
}

impl Content {
    /// Fills `block` as the block at `offset` of the file must be.
    fn fill(self, offset: u64, block: &mut [u8]) {
        match self {
            Content::Pattern { key, used_bytes } if offset < used_bytes => {
                Rng::with_seed(key ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15)).fill(block);
            }
            Content::Zeros | Content::Pattern { .. } => block.fill(0),
        }
    }

    /// The number of blocks of `data`, read at `offset` of the file, that differ from the expected content.
    pub fn differences(self, offset: u64, data: &[u8]) -> u64 {
        let mut expected = [0; BLOCK as usize];
        let blocks = data.chunks_exact(BLOCK as usize).enumerate();
        let wrong = blocks.filter(|(i, block)| {
            self.fill(offset + *i as u64 * BLOCK, &mut expected);
            *block != expected
        });
        wrong.count() as u64
    }

    /// The bytes at `offset` of the file.
    pub fn bytes(self, offset: u64, len: u64) -> Pieces {
        if self == Content::Zeros {
            // Those that cost no memory.
            return Buf::shared_zeros(len as usize).freeze().into();
        }
        let mut buf = Buf::new(len as usize);
        for (i, block) in buf.chunks_exact_mut(BLOCK as usize).enumerate() {
            self.fill(offset + i as u64 * BLOCK, block);
        }
        buf.freeze().into()
    }
}

impl Datastore {
    /// Writes the pattern of a file up to where it ends.
    pub async fn fill(&self, file: &File, content: Content) -> Result<(), StoreError> {
        let used = match content {
            Content::Zeros => file.taken_bytes(),
            Content::Pattern { used_bytes, .. } => used_bytes.min(file.taken_bytes()),
        };
        let step = self.ways().transfer_bytes;
        let steps: Vec<(u64, u64)> = crate::hosts::steps(&[(0, used)], step);
        self.at_once(steps, |(offset, len)| async move {
            let (at, _) = file.place(offset).expect("within the file");
            self.locks().write(at, content.bytes(offset, len)).await
        })
        .await
    }

    /// Writes the pattern into the blocks at some offsets only.
    pub async fn fill_at(&self, file: &File, content: Content, offsets: &[u64]) -> Result<(), StoreError> {
        self.at_once(offsets.to_vec(), |offset| async move {
            let (at, _) = file.place(offset).expect("within the file");
            self.locks().write(at, content.bytes(offset, BLOCK)).await
        })
        .await
    }

    /// Reads blocks of a file back and counts those that differ.
    pub async fn differences_at(
        &self,
        file: &File,
        content: Content,
        offsets: &[u64],
    ) -> Result<u64, StoreError> {
        let wrong = std::cell::Cell::new(0);
        self.at_once(offsets.to_vec(), |offset| {
            let wrong = &wrong;
            async move {
                let (at, _) = file.place(offset).expect("within the file");
                let data = self.locks().read(at, BLOCK).await?;
                wrong.set(wrong.get() + content.differences(offset, &data.joined()));
                Ok(())
            }
        })
        .await?;
        Ok(wrong.get())
    }

    /// Reads a whole file back and counts the blocks that differ.
    pub async fn differences(&self, file: &File, content: Content) -> Result<u64, StoreError> {
        let wrong = std::cell::Cell::new(0);
        let steps = crate::hosts::steps(&[(0, file.taken_bytes())], self.ways().transfer_bytes);
        self.at_once(steps, |(offset, len)| {
            let wrong = &wrong;
            async move {
                let (at, _) = file.place(offset).expect("within the file");
                let data = self.locks().read(at, len).await?;
                wrong.set(wrong.get() + content.differences(offset, &data.joined()));
                Ok(())
            }
        })
        .await?;
        Ok(wrong.get())
    }
}

/// Offsets of blocks of a file, spread at random.
pub fn sample_offsets(rng: &mut Rng, len_bytes: u64, count: usize) -> Vec<u64> {
    let blocks = (len_bytes / BLOCK).max(1);
    (0..count).map(|_| rng.u64(0..blocks) * BLOCK).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_differ_by_block_and_key_and_end_in_zeros() {
        let content = Content::Pattern { key: 7, used_bytes: 2 * BLOCK };
        let data = content.bytes(0, 3 * BLOCK).joined().to_vec();
        assert_eq!(content.differences(0, &data), 0);
        assert_eq!(content.differences(BLOCK, &data), 3 - 1, "the last is zeros in both places");
        assert_eq!(Content::Pattern { key: 8, used_bytes: 2 * BLOCK }.differences(0, &data), 2);
        assert_eq!(Content::Zeros.differences(0, &data), 2);
        let mut bad = data;
        bad[2 * BLOCK as usize + 17] = 1;
        assert_eq!(content.differences(0, &bad), 1);
    }
}
