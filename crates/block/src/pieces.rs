//! The data of one transfer: a list of shared buffers, sent and written without being joined.

use smallvec::SmallVec;
use world::{Buf, Data};

/// The bytes of one transfer in order, as shared pieces. Up to four pieces need no allocation.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    list: SmallVec<[Data; 4]>,
    len: usize,
}

/// What is left of [`Pieces`] that are cut into parts.
pub struct Parts<'a> {
    list: &'a [Data],
    /// Bytes of the first piece that were taken.
    at: usize,
}

impl Parts<'_> {
    /// The next `len` bytes, shared; fewer if fewer are left.
    pub fn next(&mut self, len: usize) -> Pieces {
        let mut out = Pieces::new();
        while out.len() < len
            && let Some(first) = self.list.first()
        {
            let n = (len - out.len()).min(first.len() - self.at);
            out.push(first.slice(self.at..self.at + n));
            self.skip(n);
        }
        out
    }

    fn skip(&mut self, mut len: usize) {
        while let Some((first, others)) = self.list.split_first() {
            if self.at + len < first.len() {
                self.at += len;
                return;
            }
            len -= first.len() - self.at;
            (self.list, self.at) = (others, 0);
        }
    }
}

impl Pieces {
    /// No bytes.
    pub fn new() -> Pieces {
        Pieces::default()
    }

    /// A copy of `bytes` (at most [`world::BUF_LEN_MAX`]); no piece for no bytes.
    pub fn copy_of(bytes: &[u8]) -> Pieces {
        let mut pieces = Pieces::new();
        if !bytes.is_empty() {
            pieces.push(Data::copy_of(bytes));
        }
        pieces
    }

    /// Appends a piece.
    pub fn push(&mut self, data: Data) {
        if !data.is_empty() {
            self.len += data.len();
            self.list.push(data);
        }
    }

    /// Appends zeros.
    pub fn push_zeros(&mut self, len: usize) {
        let mut left = len;
        let zeros = Buf::shared_zeros(len.min(1 << 20)).freeze();
        while left > 0 {
            let n = left.min(zeros.len());
            self.push(zeros.slice(..n));
            left -= n;
        }
    }

    /// Appends all pieces of `other`.
    pub fn append(&mut self, other: Pieces) {
        self.len += other.len;
        self.list.extend(other.list);
    }

    /// Bytes in all pieces.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces.
    pub fn iter(&self) -> impl Iterator<Item = &Data> {
        self.list.iter()
    }

    /// The pieces with the bytes `from..from + len`, shared.
    pub fn slice(&self, from: usize, len: usize) -> Pieces {
        assert!(from + len <= self.len, "slice {from}+{len} of {} bytes", self.len);
        let mut rest = self.parts();
        rest.skip(from);
        rest.next(len)
    }

    /// For cutting all of it into parts, one after another: a list of many pieces is walked once.
    pub fn parts(&self) -> Parts<'_> {
        Parts { list: &self.list, at: 0 }
    }

    /// Truncates to the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            *self = self.slice(0, len);
        }
    }

    /// The bytes in one buffer: shared if there is one piece or only shared zeros, copied otherwise. At most
    /// [`world::BUF_LEN_MAX`] bytes.
    pub fn joined(&self) -> Data {
        Data::joined(&self.list)
    }

    /// Copies all bytes to the beginning of `to`, which is at least as long.
    pub fn copy_to(&self, to: &mut [u8]) {
        let mut at = 0;
        for data in &self.list {
            to[at..at + data.len()].copy_from_slice(data);
            at += data.len();
        }
    }

    /// The offset of the first byte in which the two differ, if any; the shorter one ends the comparison.
    pub fn first_difference(&self, other: &Pieces) -> Option<usize> {
        let mut at = 0;
        let end = self.len.min(other.len);
        while at < end {
            let (a, b) = (self.run_at(at), other.run_at(at));
            let n = a.len().min(b.len()).min(end - at);
            if a[..n] != b[..n] {
                return (0..n).find(|&i| a[i] != b[i]).map(|i| at + i);
            }
            at += n;
        }
        None
    }

    /// The contiguous bytes that begin at `at`.
    fn run_at(&self, at: usize) -> &[u8] {
        let mut skip = at;
        for data in &self.list {
            if skip < data.len() {
                return &data[skip..];
            }
            skip -= data.len();
        }
        &[]
    }
}

impl IntoIterator for Pieces {
    type Item = Data;
    type IntoIter = smallvec::IntoIter<[Data; 4]>;

    /// Returns the pieces without cloning them.
    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl From<Data> for Pieces {
    fn from(data: Data) -> Pieces {
        let mut pieces = Pieces::new();
        pieces.push(data);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_share_and_differences_are_found_across_pieces() {
        let mut a = Pieces::copy_of(b"abc");
        a.push(Data::copy_of(b"defgh"));
        assert_eq!(&a.slice(2, 3).joined()[..], b"cde");
        assert_eq!(a.first_difference(&Pieces::copy_of(b"abcdefgh")), None);
        assert_eq!(a.first_difference(&Pieces::copy_of(b"abcdXfgh")), Some(4));
        a.truncate(4);
        assert_eq!(&a.joined()[..], b"abcd");
    }

    #[test]
    fn parts_are_slices_one_after_another() {
        let mut all = Pieces::new();
        for len in [3, 0, 1, 7, 2] {
            all.push(Data::copy_of(&b"abcdefg"[..len]));
        }
        for part in 1..=all.len() + 1 {
            let mut parts = all.parts();
            for from in (0..all.len()).step_by(part) {
                let len = part.min(all.len() - from);
                assert_eq!(parts.next(part).joined()[..], all.slice(from, len).joined()[..]);
            }
            assert!(parts.next(part).is_empty());
        }
        assert_eq!(all.slice(11, 2).joined()[..], all.joined()[11..13]);
    }
}
