//! Buffers: page-aligned, recycled per thread, owned by one operation at a time.
//!
//! ```text
//!   Buf::new ──> filled by a drive or a socket ──freeze──> Data ──clone/slice──> Data …
//!      ^                                                                            │
//!      └───────────────── the memory goes back to this thread's shelf <──last drop──┘
//! ```
//!
//! A [`Buf`] is unique and mutable, a [`Data`] shared and immutable. Both are one reference-counted block of
//! memory, so that freezing, slicing and passing the same bytes to two mirrored drives and a socket copies
//! nothing. When the last holder drops it, block and count return to the shelf together, and the next
//! `Buf::new` allocates nothing.

use std::fmt;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::sync::Arc;

use crate::shelf::{self, CLASS_LEN_MIN, CLASSES, Memory};

/// The largest buffer, in bytes: the largest transfer of one command, with some headroom.
pub const BUF_LEN_MAX: usize = CLASS_LEN_MIN << (CLASSES - 1);

fn class_of(len: usize) -> usize {
    assert!(len <= BUF_LEN_MAX, "a buffer of {len} bytes is over the limit of {BUF_LEN_MAX}");
    len.next_power_of_two().max(CLASS_LEN_MIN).trailing_zeros() as usize
        - CLASS_LEN_MIN.trailing_zeros() as usize
}

/// A unique, mutable, page-aligned buffer. Its content is unspecified until it is written.
pub struct Buf {
    memory: Option<Arc<Memory>>,
    len: usize,
}

impl Buf {
    /// A buffer of `len` bytes (at most [`BUF_LEN_MAX`]) with unspecified content.
    pub fn new(len: usize) -> Buf {
        Buf { memory: Some(shelf::take(class_of(len))), len }
    }

    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Buf {
        let mut buf = Buf::new(len);
        buf.fill(0);
        buf
    }

    /// A buffer of `len` zero bytes (at most [`BUF_LEN_MAX`]). Until it is written, its memory is shared by
    /// all such buffers of this thread: it costs neither memory nor time.
    pub fn shared_zeros(len: usize) -> Buf {
        assert!(len <= BUF_LEN_MAX, "a buffer of {len} bytes is over the limit of {BUF_LEN_MAX}");
        Buf { memory: Some(shelf::zeros()), len }
    }

    /// A buffer with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buf {
        let mut buf = Buf::new(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Shortens the buffer to its first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Changes the length within the buffer's memory (its size class); content beyond the old length is
    /// unspecified.
    ///
    /// # Panics
    /// If the length exceeds that memory: a bug of the caller.
    pub fn set_len(&mut self, len: usize) {
        let memory = self.memory.as_ref().expect("memory is only taken by freeze and drop");
        assert!(len <= memory.bytes().len(), "a length of {len} bytes is over the buffer's memory");
        self.len = len;
    }

    /// Whether these are unwritten shared zeros ([`Buf::shared_zeros`]), without reading them.
    pub fn is_shared_zeros(&self) -> bool {
        self.memory.as_ref().is_some_and(|m| m.is_zeros())
    }

    /// Makes the buffer immutable and shareable, without a copy.
    pub fn freeze(mut self) -> Data {
        Data { memory: self.memory.take(), from: 0, len: self.len }
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let m = self.memory.as_ref().expect("memory is only taken by freeze and drop");
        &m.bytes()[..self.len]
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let m = self.memory.as_mut().expect("memory is only taken by freeze and drop");
        if m.is_zeros() {
            *m = shelf::take(class_of(self.len));
            let own = Arc::get_mut(m).expect("what is taken has no other holder");
            own.bytes_mut()[..self.len].fill(0);
        }
        let m = Arc::get_mut(m).expect("a Buf is the only holder of its memory");
        &mut m.bytes_mut()[..self.len]
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            shelf::give_back(memory);
        }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

/// Immutable, reference-counted bytes: a clone and a slice copy nothing.
#[derive(Clone)]
pub struct Data {
    memory: Option<Arc<Memory>>,
    from: usize,
    len: usize,
}

impl Data {
    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Data {
        Buf::copy_of(bytes).freeze()
    }

    /// The bytes of a list, at most [`BUF_LEN_MAX`], in one buffer: shared if there is one piece or only
    /// shared zeros, copied otherwise.
    pub fn joined(list: &[Data]) -> Data {
        if let [one] = list {
            return one.clone();
        }
        let len = list.iter().map(|data| data.len()).sum();
        if list.iter().all(Data::is_shared_zeros) {
            return Buf::shared_zeros(len).freeze();
        }
        let mut buf = Buf::new(len);
        let mut rest = &mut buf[..];
        for data in list {
            let part = rest.split_off_mut(..data.len()).expect("the buffer is as long as all of the list");
            part.copy_from_slice(data);
        }
        buf.freeze()
    }

    /// The part of the data in `range` (relative to this data), sharing the memory.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Data {
        let from = match range.start_bound() {
            Bound::Included(&n) => n,
            Bound::Excluded(&n) => n + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&n) => n + 1,
            Bound::Excluded(&n) => n,
            Bound::Unbounded => self.len,
        };
        assert!(from <= to && to <= self.len, "slice {from}..{to} of {} bytes", self.len);
        Data { memory: self.memory.clone(), from: self.from + from, len: to - from }
    }

    /// Whether these are shared zeros ([`Buf::shared_zeros`]), without reading them.
    pub fn is_shared_zeros(&self) -> bool {
        self.memory.as_ref().is_some_and(|m| m.is_zeros())
    }

    /// Whether holding this holds no more memory than its bytes: it is the whole buffer, or shared zeros.
    pub fn keeps_only_itself(&self) -> bool {
        self.memory.as_ref().is_some_and(|m| m.is_zeros() || m.bytes().len() == self.len)
    }

    /// Whether the first byte is aligned to `align` in memory.
    pub fn is_aligned_to(&self, align: usize) -> bool {
        self.from.is_multiple_of(align)
    }
}

impl Deref for Data {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let m = self.memory.as_ref().expect("memory is only taken by drop");
        &m.bytes()[self.from..self.from + self.len]
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            shelf::give_back(memory);
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_comes_back_to_the_shelf() {
        for len in [1, 4096, 4097, 1 << 20, BUF_LEN_MAX] {
            let mut buf = Buf::new(len);
            assert_eq!(buf.as_ptr() as usize % CLASS_LEN_MIN, 0);
            assert_eq!(buf.len(), len);
            buf[len - 1] = 7;
            let address = buf.as_ptr();
            let data = buf.freeze();
            let part = data.slice(len - 1..);
            drop(data);
            assert_eq!(part[0], 7);
            drop(part);
            assert_eq!(Buf::new(len).as_ptr(), address, "the same memory is used again");
        }
    }

    #[test]
    fn shared_zeros_are_one_block_until_one_is_written() {
        let (kept, mut written) = (Buf::shared_zeros(4096).freeze(), Buf::shared_zeros(1 << 20));
        assert_eq!((written.as_ptr(), written.len()), (kept.as_ptr(), 1 << 20));
        written[5] = 7;
        assert_eq!((kept[5], written[4], written[5]), (0, 0, 7));
        let written = written.freeze();
        assert!(kept.slice(7..9).is_shared_zeros() && kept.slice(7..9).keeps_only_itself());
        assert!(!written.is_shared_zeros() && written.keeps_only_itself());
        assert!(Data::joined(&[kept.clone(), kept.slice(..7)]).is_shared_zeros());
        let mixed = Data::joined(&[kept.slice(..2), written.slice(4..7), kept.slice(..1)]);
        assert_eq!(mixed[..], [0, 0, 0, 7, 0, 0]);
        assert!(!written.slice(..4096).keeps_only_itself());
        drop((kept, written));
        assert_ne!(Buf::new(BUF_LEN_MAX).as_ptr(), Buf::shared_zeros(1).as_ptr());
    }

    #[test]
    fn a_shared_block_is_not_given_back_twice() {
        let data = Data::copy_of(b"twelve bytes");
        let other = data.clone();
        drop(data);
        assert_eq!(&other[..], b"twelve bytes");
        let fresh = Buf::new(12);
        assert_ne!(fresh.as_ptr(), other.as_ptr());
    }
}
