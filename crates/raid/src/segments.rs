//! Splits the pieces of a transfer into drive writes.

use block::{Data, Pieces};
use smallvec::SmallVec;
use world::{Drive, DriveError, Io};

/// Largest size of one drive operation.
pub(crate) const SEGMENT_BYTES_MAX: usize = 1 << 20;

/// One drive operation: adjacent pieces.
pub(crate) type Segment = SmallVec<[Data; 1]>;

/// Splits the data of one contiguous range of a drive into operations. Whole blocks are not copied; a block
/// that spans two pieces is.
pub(crate) fn segments(data: &Pieces, block_bytes: usize) -> SmallVec<[Segment; 4]> {
    let mut pieces = data.iter();
    let first = pieces.next();
    if let (Some(one), None) = (first, pieces.next()) {
        return SmallVec::from_iter([Segment::from_iter([one.clone()])]);
    }
    let cuts = (0..data.len()).step_by(SEGMENT_BYTES_MAX);
    let parts = cuts.map(|at| data.slice(at, SEGMENT_BYTES_MAX.min(data.len() - at)));
    let segment = |part: Pieces| {
        let whole = part.iter().all(|d| d.len().is_multiple_of(block_bytes));
        if whole { part.into_iter().collect() } else { Segment::from_iter([part.joined()]) }
    };
    parts.map(segment).collect()
}

/// Writes a segment from `at` on.
pub(crate) fn write(drive: &Drive, at: u64, segment: &[Data]) -> Io<Result<(), DriveError>> {
    match segment {
        [one] => drive.write(at, one.clone()),
        many => drive.write_vectored(at, many.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_stay_where_they_are_and_odd_pieces_are_joined() {
        let mut odd = Pieces::new();
        (0..10).for_each(|i| odd.push(Data::copy_of(&[i; 300])));
        let joined = segments(&odd.slice(0, 2560), 512);
        assert_eq!((joined.len(), joined[0].len()), (1, 1));
        assert_eq!(joined[0][0][..], odd.slice(0, 2560).joined()[..]);
        let mut whole = Pieces::new();
        (0..3).for_each(|i| whole.push(Data::copy_of(&vec![i; 512 << 10])));
        let cut = segments(&whole, 4096);
        assert_eq!(cut.iter().map(|s| s.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(cut[0][1][..], vec![1; 512 << 10][..]);
    }
}
