//! The journal's own header: two copies, written in turn.

use block::Buf;

use super::batch::{BATCH_LEN_MAX, Place, crc};
use super::{BLOCK, COUNTER_END, RING_START};

const MAGIC: [u8; 8] = *b"MASUJRNL";
pub(super) const VERSION: u32 = 1;
const SUM_AT: usize = BLOCK as usize - 4;
/// Minimum length of a ring, in largest batches: in a shorter one a writer could wait for ever.
const RING_BATCHES_MIN: u64 = 8;
pub(super) const RING_BYTES_MIN: u64 = RING_BATCHES_MIN * BATCH_LEN_MAX as u64;
/// A longer ring would take longer to replay than hosts wait for a LU (this one takes about ten seconds,
/// measured), and exceed the dirty data of the memory anyway.
pub(super) const RING_BYTES_MAX: u64 = 4 << 30;

/// Identity of a journal, and the place where a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: [u8; 16],
    /// Number of header writes: the higher copy is valid, and determines where the next one is written.
    pub(crate) turn: u64,
    /// The current epoch of the journal: no batch has a later one.
    pub(crate) epoch: u64,
    /// The oldest batch that may be needed; where nothing is, the next one.
    pub(crate) tail: Place,
    /// The number of the first record of that batch, at least.
    pub(crate) sequence: u64,
    /// Bytes of the ring.
    pub(crate) ring_len: u64,
}

impl Header {
    /// The offset of this copy.
    pub(crate) fn at(&self) -> u64 {
        self.turn % 2 * BLOCK
    }

    pub(crate) fn encode(&self) -> Buf {
        let mut buf = Buf::zeroed(BLOCK as usize);
        buf[..8].copy_from_slice(&MAGIC);
        buf[8..12].copy_from_slice(&VERSION.to_le_bytes());
        buf[16..32].copy_from_slice(&self.id);
        let numbers =
            [self.turn, self.epoch, self.tail.number, self.tail.position, self.sequence, self.ring_len];
        for (i, number) in numbers.iter().enumerate() {
            buf[32 + 8 * i..40 + 8 * i].copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc(&buf[..SUM_AT]);
        buf[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        buf
    }

    /// Parses a header block of a device of `len` bytes. `Err`: a journal of another version.
    pub(crate) fn decode(block: &[u8], len: u64) -> Result<Option<Header>, u32> {
        let number =
            |i: usize| u64::from_le_bytes(block[32 + 8 * i..40 + 8 * i].try_into().expect("8 bytes"));
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("4 bytes"));
        if block.len() != BLOCK as usize || block[..8] != MAGIC || crc(&block[..SUM_AT]) != word(SUM_AT) {
            return Ok(None);
        }
        if word(8) != VERSION {
            return Err(word(8));
        }
        let header = Header {
            id: block[16..32].try_into().expect("16 bytes"),
            turn: number(0),
            epoch: number(1),
            tail: Place { number: number(2), position: number(3) },
            sequence: number(4),
            ring_len: number(5),
        };
        let counters = [header.turn, header.epoch, header.tail.number, header.tail.position, header.sequence];
        let fits = counters.iter().all(|c| *c < COUNTER_END)
            && header.sequence > 0
            && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&header.ring_len)
            && header.ring_len.is_multiple_of(BLOCK)
            && RING_START.checked_add(header.ring_len).is_some_and(|end| end <= len)
            && header.tail.position.is_multiple_of(BLOCK);
        Ok(fits.then_some(header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_every_changed_byte_is_noticed() {
        let tail = Place { number: 3, position: 8192 };
        let header = Header { id: [1; 16], turn: 5, epoch: 2, tail, sequence: 77, ring_len: 8 << 20 };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes, 9 << 20), Ok(Some(header)));
        assert_eq!(Header::decode(&bytes, 8 << 20), Ok(None), "a ring that is longer than its device");
        assert_eq!(header.at(), BLOCK);
        let short = Header { ring_len: RING_BYTES_MIN - BLOCK, ..header }.encode();
        assert_eq!(Header::decode(&short, 9 << 20), Ok(None), "no room for what is written at once");
        for at in 0..bytes.len() {
            let mut changed = Buf::copy_of(&bytes);
            changed[at] ^= 1;
            assert_eq!(Header::decode(&changed, 9 << 20), Ok(None), "byte {at}");
        }
    }
}
