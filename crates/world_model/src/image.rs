//! The content of a disk, kept sparsely: what was never written, or was zeroed, takes no memory.

use std::collections::BTreeMap;

/// The unit of the map.
const CHUNK: usize = 4096;

#[derive(Clone, Default)]
pub(crate) struct Image {
    chunks: BTreeMap<u64, Box<[u8; CHUNK]>>,
}

impl Image {
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) {
        for_each_chunk(at, to.len(), |chunk, from, range| match self.chunks.get(&chunk) {
            Some(bytes) => {
                let part = &bytes[from..from + range.len()];
                to[range].copy_from_slice(part);
            }
            None => to[range].fill(0),
        });
    }

    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        for_each_chunk(at, bytes.len(), |chunk, from, range| {
            let to = self.chunks.entry(chunk).or_insert_with(|| Box::new([0; CHUNK]));
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
        let (from, to) = (first_whole / CHUNK as u64, past_whole / CHUNK as u64);
        while let Some((&chunk, _)) = self.chunks.range(from..to).next() {
            self.chunks.remove(&chunk);
        }
    }

    fn zero_parts(&mut self, at: u64, end: u64) {
        for_each_chunk(at, (end - at) as usize, |chunk, from, range| {
            if let Some(bytes) = self.chunks.get_mut(&chunk) {
                bytes[from..from + range.len()].fill(0);
            }
        });
    }
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

    #[test]
    fn unaligned_parts_are_read_back_and_whole_zeroed_chunks_take_no_memory() {
        let mut image = Image::default();
        image.write(512, &[7; 3 * CHUNK]);
        image.zero(1024, 2 * CHUNK as u64);
        let mut out = vec![1; 3 * CHUNK + 1024];
        image.read(0, &mut out);
        for (i, byte) in out.iter().enumerate() {
            let written = (512..512 + 3 * CHUNK).contains(&i) && !(1024..1024 + 2 * CHUNK).contains(&i);
            assert_eq!(*byte, if written { 7 } else { 0 }, "byte {i}");
        }
        assert_eq!(image.chunks.len(), 3);
    }
}
