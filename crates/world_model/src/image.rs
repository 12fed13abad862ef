//! The content of a disk, stored sparsely: zeros and unwritten ranges take no memory. A copy shares
//! everything with its original until either is written: an image of all disks at every persistence point of
//! a run costs a few pointers each.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit in which content is shared and copied.
const CHUNK: usize = 4096;
/// Chunks of one leaf: a copy of an image copies one pointer for each 256 KiB, a write after it 64 more.
const LEAF_CHUNKS: usize = 64;
const LEAF_BYTES: u64 = (CHUNK * LEAF_CHUNKS) as u64;

type Chunk = [u8; CHUNK];

#[derive(Clone)]
struct Leaf([Option<Arc<Chunk>>; LEAF_CHUNKS]);

impl Default for Leaf {
    fn default() -> Leaf {
        Leaf(std::array::from_fn(|_| None))
    }
}

#[derive(Clone, Default)]
pub(crate) struct Image {
    leaves: BTreeMap<u64, Arc<Leaf>>,
}

/// The leaf of a chunk, and the chunk's place in it.
fn place(chunk: u64) -> (u64, usize) {
    (chunk / LEAF_CHUNKS as u64, (chunk % LEAF_CHUNKS as u64) as usize)
}

impl Image {
    /// Whether all of the range lies in leaves that were never written: it reads as zeros.
    pub(crate) fn has_nothing(&self, at: u64, len: u64) -> bool {
        self.leaves.range(at / LEAF_BYTES..(at + len).div_ceil(LEAF_BYTES)).next().is_none()
    }

    /// Whether a part of the range was never written, or zeroed as a whole.
    pub(crate) fn has_hole(&self, at: u64, len: u64) -> bool {
        (at / CHUNK as u64..(at + len).div_ceil(CHUNK as u64)).any(|chunk| {
            let (leaf, i) = place(chunk);
            self.leaves.get(&leaf).is_none_or(|leaf| leaf.0[i].is_none())
        })
    }

    pub(crate) fn read(&self, at: u64, to: &mut [u8]) {
        for_each_chunk(at, to.len(), |chunk, from, range| {
            let (leaf, i) = place(chunk);
            match self.leaves.get(&leaf).and_then(|leaf| leaf.0[i].as_ref()) {
                Some(bytes) => {
                    let part = &bytes[from..from + range.len()];
                    to[range].copy_from_slice(part);
                }
                None => to[range].fill(0),
            }
        });
    }

    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        for_each_chunk(at, bytes.len(), |chunk, from, range| {
            if is_zero(&bytes[range.clone()]) {
                self.zero(at + range.start as u64, range.len() as u64);
                return;
            }
            let (leaf, i) = place(chunk);
            let leaf = Arc::make_mut(self.leaves.entry(leaf).or_default());
            let to = Arc::make_mut(leaf.0[i].get_or_insert_with(|| Arc::new([0; CHUNK])));
            to[from..from + range.len()].copy_from_slice(&bytes[range]);
        });
    }

    pub(crate) fn zero(&mut self, at: u64, len: u64) {
        let end = at + len;
        let first_whole = at.next_multiple_of(CHUNK as u64);
        let past_whole = end / CHUNK as u64 * CHUNK as u64;
        if first_whole >= past_whole {
            self.zero_parts(at, end);
            return;
        }
        self.zero_parts(at, first_whole);
        self.zero_parts(past_whole, end);
        self.forget(first_whole, past_whole);
    }

    /// Drops whole chunks.
    fn forget(&mut self, from: u64, to: u64) {
        let leaves: Vec<u64> =
            self.leaves.range(from / LEAF_BYTES..to.div_ceil(LEAF_BYTES)).map(|(n, _)| *n).collect();
        for n in leaves {
            let start = n * LEAF_BYTES;
            if from <= start && start + LEAF_BYTES <= to {
                self.leaves.remove(&n);
                continue;
            }
            let chunk = |at: u64| (at.clamp(start, start + LEAF_BYTES) - start) as usize / CHUNK;
            if let Some(leaf) = self.leaves.get_mut(&n) {
                Arc::make_mut(leaf).0[chunk(from)..chunk(to)].fill(None);
            }
        }
    }

    fn zero_parts(&mut self, at: u64, end: u64) {
        for_each_chunk(at, (end - at) as usize, |chunk, from, range| {
            let (leaf, i) = place(chunk);
            if let Some(leaf) = self.leaves.get_mut(&leaf)
                && leaf.0[i].is_some()
                && let Some(bytes) = &mut Arc::make_mut(leaf).0[i]
            {
                Arc::make_mut(bytes)[from..from + range.len()].fill(0);
            }
        });
    }
}

/// Whether nothing need be kept of it. Ends at the first line that is not zero.
fn is_zero(bytes: &[u8]) -> bool {
    let (lines, rest) = bytes.as_chunks::<64>();
    let is_zero = |line: &[u8; 64]| line.iter().fold(0, |all, byte| all | byte) == 0;
    lines.iter().all(is_zero) && rest.iter().all(|byte| *byte == 0)
}

/// Calls `f` with the chunk's number, the offset in it, and the range of the transfer.
fn for_each_chunk(at: u64, len: usize, mut f: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let here = at + done as u64;
        let from = (here % CHUNK as u64) as usize;
        let n = (CHUNK - from).min(len - done);
        f(here / CHUNK as u64, from, done..done + n);
        done += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(image: &Image) -> usize {
        image.leaves.values().map(|leaf| leaf.0.iter().flatten().count()).sum()
    }

    fn read(image: &Image, at: u64, len: usize) -> Vec<u8> {
        let mut out = vec![1; len];
        image.read(at, &mut out);
        out
    }

    #[test]
    fn unaligned_parts_are_read_back_and_whole_zeroed_chunks_take_no_memory() {
        let mut image = Image::default();
        image.write(512, &[7; 3 * CHUNK]);
        image.zero(1024, 2 * CHUNK as u64);
        for (i, byte) in read(&image, 0, 3 * CHUNK + 1024).iter().enumerate() {
            let written = (512..512 + 3 * CHUNK).contains(&i) && !(1024..1024 + 2 * CHUNK).contains(&i);
            assert_eq!(*byte, if written { 7 } else { 0 }, "byte {i}");
        }
        assert_eq!(chunks(&image), 3);
    }

    #[test]
    fn zeros_that_are_written_take_no_memory() {
        let mut image = Image::default();
        image.write(CHUNK as u64, &[7; CHUNK]);
        image.write(0, &vec![0; 3 * CHUNK]);
        assert_eq!((chunks(&image), read(&image, CHUNK as u64, CHUNK)), (0, vec![0; CHUNK]));
        image.write(0, &[7; CHUNK]);
        image.write(512, &[0; 512]);
        assert_eq!(read(&image, 0, 1536), [[7; 512], [0; 512], [7; 512]].concat());
    }

    #[test]
    fn zeroing_over_leaves_takes_what_lies_within_and_nothing_else() {
        let mut image = Image::default();
        let len = 3 * LEAF_BYTES as usize;
        image.write(0, &vec![7; len]);
        let (from, to) = (5 * CHUNK, len - 3 * CHUNK);
        image.zero(from as u64, (to - from) as u64);
        assert_eq!(chunks(&image), 5 + 3);
        for (i, byte) in read(&image, 0, len).iter().enumerate() {
            assert_eq!(*byte, if (from..to).contains(&i) { 0 } else { 7 }, "byte {i}");
        }
    }

    #[test]
    fn a_copy_and_its_original_go_their_own_ways() {
        let mut image = Image::default();
        image.write(0, &[7; 2 * CHUNK]);
        let mut copy = image.clone();
        copy.write(CHUNK as u64, &[9; 512]);
        image.zero(0, CHUNK as u64);
        assert_eq!(read(&image, 0, 1024), [0; 1024]);
        assert_eq!(read(&copy, 0, 1024), [7; 1024]);
        assert_eq!(read(&image, CHUNK as u64, 512), [7; 512]);
        assert_eq!(read(&copy, CHUNK as u64, 512), [9; 512]);
    }
}
