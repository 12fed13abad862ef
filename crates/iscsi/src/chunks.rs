//! The data of one command during its transfer: page-aligned buffers of at most 1 MiB, allocated as needed.

use block::Pieces;
use smallvec::SmallVec;
use world::Buf;

/// Length of all chunks except the last. Bursts never cross a chunk; commands up to this length have
/// contiguous data.
pub(crate) const CHUNK_LEN: usize = 1 << 20;

/// A transfer of a known length that is filled from the front.
///
/// Until the memory for all of it is granted ([`Chunks::grow`]) it holds only the beginning, that is its
/// unsolicited data: a command that waits for memory must not have it already.
#[derive(Default)]
pub(crate) struct Chunks {
    /// Of the whole transfer.
    len: usize,
    /// Bytes for which there may be memory now.
    granted: usize,
    list: SmallVec<[Option<Buf>; 1]>,
}

impl Chunks {
    /// A transfer of `len` bytes, of which the first `unsolicited` come without a grant; allocates nothing
    /// yet.
    pub(crate) fn new(len: usize, unsolicited: usize) -> Chunks {
        Chunks { len, granted: len.min(unsolicited), list: SmallVec::new() }
    }

    /// There is memory for the whole transfer from now on. No chunk is lent.
    pub(crate) fn grow(&mut self) {
        self.granted = self.len;
        // All other chunks have their length already.
        let Some(last) = self.list.len().checked_sub(1) else { return };
        let len = self.chunk_len(last);
        if let Some(old) = self.list[last].take_if(|buf| buf.len() < len) {
            // One buffer, so that the data stays contiguous: a copy of FirstBurstLength at most.
            let mut buf = Buf::new(len);
            buf[..old.len()].copy_from_slice(&old);
            self.list[last] = Some(buf);
        }
    }

    fn chunk_len(&self, index: usize) -> usize {
        (self.granted - index * CHUNK_LEN).min(CHUNK_LEN)
    }

    fn chunk(&mut self, index: usize) -> &mut Option<Buf> {
        while self.list.len() <= index {
            let len = self.chunk_len(self.list.len());
            self.list.push(Some(Buf::new(len)));
        }
        &mut self.list[index]
    }

    /// Copies bytes to `at`. Bytes past the end of the transfer, or
    /// of the granted memory, are ignored.
    pub(crate) fn write(&mut self, mut at: usize, mut bytes: &[u8]) {
        bytes = &bytes[..bytes.len().min(self.granted.saturating_sub(at))];
        while !bytes.is_empty() {
            let (index, from) = (at / CHUNK_LEN, at % CHUNK_LEN);
            let n = bytes.len().min(CHUNK_LEN - from);
            if let Some(buf) = self.chunk(index) {
                buf[from..from + n].copy_from_slice(&bytes[..n]);
            }
            at += n;
            bytes = &bytes[n..];
        }
    }

    /// Lends the buffer that contains `at..at + len`, truncated at its end, with the offset of `at` in it;
    /// `None` if the range crosses a chunk or passes the granted memory, or the chunk is already lent. Return
    /// it with [`Chunks::give_back`].
    pub(crate) fn lend(&mut self, at: usize, len: usize) -> Option<(Buf, usize)> {
        let (index, from) = (at / CHUNK_LEN, at % CHUNK_LEN);
        if len == 0 || at + len > self.granted || from + len > CHUNK_LEN {
            return None;
        }
        let mut buf = self.chunk(index).take()?;
        buf.truncate(from + len);
        Some((buf, from))
    }

    /// Returns a lent buffer.
    pub(crate) fn give_back(&mut self, at: usize, mut buf: Buf) {
        let index = at / CHUNK_LEN;
        buf.set_len(self.chunk_len(index));
        *self.chunk(index) = Some(buf);
    }

    /// The first `len` bytes.
    pub(crate) fn into_pieces(mut self, len: usize) -> Pieces {
        let mut pieces = Pieces::new();
        let mut left = len.min(self.granted);
        let mut index = 0;
        while left > 0 {
            let n = left.min(CHUNK_LEN);
            if let Some(mut buf) = self.chunk(index).take() {
                buf.truncate(n);
                pieces.push(buf.freeze());
            }
            left -= n;
            index += 1;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_land_where_they_belong() {
        let len = 2 * CHUNK_LEN + 100;
        let want: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let mut chunks = Chunks::new(len, len);
        chunks.write(0, &want[..CHUNK_LEN - 7]);
        assert!(chunks.lend(CHUNK_LEN - 7, 14).is_none(), "a range over two chunks cannot be lent");
        chunks.write(CHUNK_LEN - 7, &want[CHUNK_LEN - 7..CHUNK_LEN + 7]);
        let (mut buf, from) = chunks.lend(CHUNK_LEN + 7, 1000).unwrap();
        assert_eq!((buf.len(), from), (1007, 7));
        buf[from..].copy_from_slice(&want[CHUNK_LEN + 7..CHUNK_LEN + 1007]);
        assert!(chunks.lend(CHUNK_LEN + 7, 1).is_none(), "the chunk is lent");
        chunks.give_back(CHUNK_LEN + 7, buf);
        chunks.write(CHUNK_LEN + 1007, &want[CHUNK_LEN + 1007..]);
        chunks.write(len - 1, &[want[len - 1], 1, 2, 3]);
        let pieces = chunks.into_pieces(len);
        assert_eq!(pieces.len(), len);
        assert_eq!(&pieces.joined()[..], &want[..]);
    }

    #[test]
    fn a_transfer_holds_its_beginning_until_it_may_hold_all() {
        let len = 2 * CHUNK_LEN + 100;
        let want: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let held = |chunks: &Chunks| chunks.list.iter().flatten().map(|buf| buf.len()).sum::<usize>();
        let mut chunks = Chunks::new(len, 5000);
        assert_eq!(held(&chunks), 0);
        chunks.write(0, &want[..4000]);
        assert_eq!(held(&chunks), 5000);
        assert!(chunks.lend(4000, 1001).is_none(), "past the granted memory");
        let (mut buf, from) = chunks.lend(4000, 1000).unwrap();
        buf[from..].copy_from_slice(&want[4000..5000]);
        chunks.give_back(4000, buf);
        chunks.write(5000, &want[5000..]);
        assert_eq!(held(&chunks), 5000);
        chunks.grow();
        assert_eq!(held(&chunks), CHUNK_LEN);
        chunks.write(5000, &want[5000..]);
        assert_eq!(&chunks.into_pieces(len).joined()[..], &want[..]);
        // Nothing came before the grant, or all did.
        let mut chunks = Chunks::new(len, 0);
        chunks.grow();
        chunks.write(0, &want);
        assert_eq!(&chunks.into_pieces(len).joined()[..], &want[..]);
        let mut chunks = Chunks::new(10, 20);
        chunks.write(0, &want[..20]);
        chunks.grow();
        assert_eq!(&chunks.into_pieces(20).joined()[..], &want[..10]);
    }

    #[test]
    fn a_short_transfer_gives_its_front() {
        let mut chunks = Chunks::new(10, 10);
        chunks.write(0, b"0123456789");
        assert_eq!(&chunks.into_pieces(4).joined()[..], b"0123");
        assert!(Chunks::new(0, 0).into_pieces(0).is_empty());
    }
}
