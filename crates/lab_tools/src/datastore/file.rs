//! File descriptors: name, promised size and the ranges that are taken, in one metadata block each.

use super::layout::META_BYTES;

const MAGIC: [u8; 8] = *b"file-ds1";
const NAME_LEN_MAX: usize = 32;
/// Magic, name, promised bytes, number of ranges.
const HEADER_LEN: usize = 8 + NAME_LEN_MAX + 8 + 8;
const RANGE_LEN: usize = 16;
/// Ranges of one file.
pub(super) const RANGES_MAX: usize = (META_BYTES as usize - HEADER_LEN) / RANGE_LEN;

/// A file: a virtual disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Unique in the datastore.
    pub name: String,
    /// Bytes promised to the VM.
    pub len_bytes: u64,
    /// Where its bytes lie: place and length, in order.
    pub ranges: Vec<(u64, u64)>,
}

/// The block is not a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a file descriptor is damaged")]
pub struct Damaged;

impl File {
    /// Bytes of its extents.
    pub fn taken_bytes(&self) -> u64 {
        self.ranges.iter().map(|(_, len)| len).sum()
    }

    /// The location of byte `offset` of the file, and the length of the contiguous rest.
    pub fn place(&self, offset: u64) -> Option<(u64, u64)> {
        let mut skip = offset;
        for (at, len) in &self.ranges {
            if skip < *len {
                return Some((at + skip, len - skip));
            }
            skip -= len;
        }
        None
    }

    /// The ranges of `len` bytes from `offset` on; fewer where the file ends before.
    pub fn part(&self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let (mut out, mut done) = (Vec::new(), 0);
        while let Some((at, left)) = self.place(offset + done).filter(|_| done < len) {
            let take = left.min(len - done);
            out.push((at, take));
            done += take;
        }
        out
    }

    /// Another range at its end.
    pub fn grow(&mut self, (at, len): (u64, u64)) {
        match self.ranges.last_mut() {
            Some((from, own)) if *from + *own == at => *own += len,
            _ => self.ranges.push((at, len)),
        }
    }

    /// Encodes a block. Panics if a name or list exceeds its limit, which the creator of a file observes.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.name.len() <= NAME_LEN_MAX && self.ranges.len() <= RANGES_MAX);
        let mut out = MAGIC.to_vec();
        out.extend(self.name.as_bytes());
        out.resize(8 + NAME_LEN_MAX, 0);
        out.extend(self.len_bytes.to_le_bytes());
        out.extend((self.ranges.len() as u64).to_le_bytes());
        for (at, len) in &self.ranges {
            out.extend(at.to_le_bytes());
            out.extend(len.to_le_bytes());
        }
        out.resize(META_BYTES as usize, 0);
        out
    }

    /// From its block; `None` when there is no file.
    pub fn decode(block: &[u8]) -> Result<Option<File>, Damaged> {
        if block.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        if block.len() != META_BYTES as usize || block[..8] != MAGIC {
            return Err(Damaged);
        }
        let number = |at: usize| block[at..at + 8].try_into().map(u64::from_le_bytes).map_err(|_| Damaged);
        let name = block[8..8 + NAME_LEN_MAX].split(|b| *b == 0).next().unwrap_or_default();
        let count = number(HEADER_LEN - 8)? as usize;
        if count > RANGES_MAX {
            return Err(Damaged);
        }
        let range =
            |i: usize| Ok((number(HEADER_LEN + i * RANGE_LEN)?, number(HEADER_LEN + i * RANGE_LEN + 8)?));
        Ok(Some(File {
            name: std::str::from_utf8(name).map_err(|_| Damaged)?.into(),
            len_bytes: number(8 + NAME_LEN_MAX)?,
            ranges: (0..count).map(range).collect::<Result<_, Damaged>>()?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_survives_the_disk() {
        let file = File {
            name: "vm-7.vmdk".into(),
            len_bytes: 20 << 30,
            ranges: vec![(112 << 20, 3 << 20), (190 << 20, 1 << 20)],
        };
        let mut block = file.encode();
        assert_eq!(File::decode(&block), Ok(Some(file.clone())));
        assert_eq!(File::decode(&[0; 4096]), Ok(None));
        block[HEADER_LEN - 7] = 0xff;
        assert_eq!(File::decode(&block), Err(Damaged));
        assert_eq!(file.place((3 << 20) + 5), Some(((190 << 20) + 5, (1 << 20) - 5)));
        assert_eq!(file.place(4 << 20), None);
        assert_eq!(file.taken_bytes(), 4 << 20);
        assert_eq!(file.part(2 << 20, 2 << 20), [(114 << 20, 1 << 20), (190 << 20, 1 << 20)]);
        assert_eq!(file.part(3 << 20, 9 << 20), [(190 << 20, 1 << 20)]);
        let mut grown = file;
        grown.grow((191 << 20, 1 << 20));
        grown.grow((200 << 20, 1 << 20));
        assert_eq!(grown.ranges[1..], [(190 << 20, 2 << 20), (200 << 20, 1 << 20)]);
    }
}
