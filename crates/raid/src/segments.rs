//! How the pieces of a transfer become drive writes.

use block::{Buf, Data, Pieces};
use smallvec::SmallVec;

/// Pieces of at least this size are written as they are; smaller neighbours are joined (a copy costs less than a
/// drive operation).
const PIECE_BYTES_MIN: usize = 128 << 10;
/// Joined pieces are at most this long.
const JOIN_BYTES_MAX: usize = 1 << 20;

/// The data of one contiguous range of a drive, as the operations that write it.
pub(crate) type Segments = SmallVec<[Data; 4]>;

/// Cuts `data` into what single drive writes take: whole blocks, neither needlessly small nor longer than a buffer.
pub(crate) fn segments(data: &Pieces, block_bytes: usize) -> Segments {
    let mut pieces = data.iter();
    let first = pieces.next();
    if let (Some(one), None) = (first, pieces.next()) {
        return Segments::from_iter([one.clone()]);
    }
    let whole = |d: &Data| d.len() >= PIECE_BYTES_MIN && d.len().is_multiple_of(block_bytes);
    if data.iter().all(whole) {
        return data.iter().cloned().collect();
    }
    (0..data.len())
        .step_by(JOIN_BYTES_MAX)
        .map(|at| join(data, at, JOIN_BYTES_MAX.min(data.len() - at)))
        .collect()
}

fn join(data: &Pieces, from: usize, len: usize) -> Data {
    let mut buf = Buf::new(len);
    data.slice(from, len).copy_to(&mut buf);
    buf.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_or_odd_pieces_are_joined_and_large_ones_are_not_copied() {
        let mut data = Pieces::new();
        (0..10).for_each(|i| data.push(Data::copy_of(&[i; 300])));
        let joined = segments(&data.slice(0, 2560), 512);
        assert_eq!(joined.len(), 1);
        assert_eq!(joined[0][..], data.slice(0, 2560).joined()[..]);
        let mut large = Pieces::new();
        (0..2).for_each(|i| large.push(Data::copy_of(&vec![i; 256 << 10])));
        assert_eq!(segments(&large, 4096).len(), 2);
    }
}
