//! The one buffer of a file: aligned for direct I/O, with every 4 KiB stamped with its offset.

use crate::pattern::BLOCK_BYTES;

const BLOCK: usize = BLOCK_BYTES as usize;

/// A buffer whose first byte lies at a multiple of 4 KiB.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

/// The stamp at the beginning of a block: its file, its offset, the seed.
fn stamp(seed: u64, file: u32, at: u64) -> [u8; 16] {
    let mut stamp = [0; 16];
    stamp[..8].copy_from_slice(&(at ^ seed.rotate_left(32)).to_le_bytes());
    stamp[8..12].copy_from_slice(&file.to_le_bytes());
    stamp[12..].copy_from_slice(b"STRS");
    stamp
}

impl Buffer {
    /// Fills the buffer with incompressible content that is unique to the file.
    pub(crate) fn new(len: usize, seed: u64, file: u32) -> Buffer {
        let mut bytes = vec![0; len + BLOCK];
        let from = bytes.as_ptr().addr().next_multiple_of(BLOCK) - bytes.as_ptr().addr();
        // xorshift64*: sufficient against drives and file systems that compress or deduplicate.
        let mut state = (seed ^ u64::from(file) << 32) | 1;
        for word in bytes.chunks_exact_mut(8) {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            word.copy_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
        }
        Buffer { bytes, from, len }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }

    /// Stamps the buffer for a write at `at`.
    pub(crate) fn stamped(&mut self, seed: u64, file: u32, at: u64, len: usize) -> &[u8] {
        let bytes = &mut self.bytes()[..len];
        for (number, block) in bytes.chunks_mut(BLOCK).enumerate() {
            block[..16].copy_from_slice(&stamp(seed, file, at + (number * BLOCK) as u64));
        }
        bytes
    }

    /// Number of blocks of the first `len` bytes, read at `at`, that differ from what was written there.
    pub(crate) fn wrong(&mut self, seed: u64, file: u32, at: u64, len: usize) -> u64 {
        let blocks = self.bytes()[..len].chunks(BLOCK).enumerate();
        blocks.filter(|(n, block)| block[..16] != stamp(seed, file, at + (n * BLOCK) as u64)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_tell_their_place() {
        let mut buffer = Buffer::new(4 * BLOCK, 7, 3);
        assert!(buffer.bytes().as_ptr().addr().is_multiple_of(BLOCK));
        buffer.stamped(7, 3, 8192, 4 * BLOCK);
        assert_eq!(buffer.wrong(7, 3, 8192, 4 * BLOCK), 0);
        for (seed, file, at) in [(8, 3, 8192), (7, 4, 8192), (7, 3, 4096)] {
            assert_eq!(buffer.wrong(seed, file, at, 4 * BLOCK), 4);
        }
        let halves = [0, BLOCK].map(|from| buffer.bytes()[from + 16..from + BLOCK].to_vec());
        assert_ne!(halves[0], halves[1]);
    }
}
