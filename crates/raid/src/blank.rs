//! Whether a drive without a label is blank: what is read of it before masu erases it.
//!
//! A medium that knows where its data are (a file: `SEEK_DATA`) is read there, and completely up to
//! [`WHOLE_MAX`]. A file that is sparse or only preallocated costs nothing, and one to which zeros were
//! written is blank, too. All others, and larger ones, are sampled: the beginning, the end, blocks that are
//! evenly spread, and the places where file systems and volume managers keep copies of their superblocks,
//! which remain when somebody has erased the beginning only.

use std::ops::Range;

use smallvec::SmallVec;
use world::{Buf, Drive, DriveError};

use crate::contents::is_zero;

/// Read from the start of a drive: the label region, and the start of what a first partition would hold.
const HEAD_LEN: u64 = 2 << 20;
/// Read from the end of a drive, where partition tables have their second copy, and md, DDF, ZFS and NTFS
/// theirs.
const TAIL_LEN: u64 = 1 << 20;
/// Data up to this size are read completely, if the medium knows where they are.
const WHOLE_MAX: u64 = 1 << 30;
/// Blocks read in between. Hard disks read this many within two seconds.
const PROBES: u64 = 256;
/// Blocks of data that the medium knows of, but that are more than [`WHOLE_MAX`].
const PROBES_OF_DATA: u64 = 1024;
const PROBE_LEN: u64 = 4096;
/// Read at each known place: the block before a superblock that is rounded up to a block, and the block.
const PLACE_LEN: u64 = 8192;
/// Sizes and addresses are multiples of this, the largest block.
const ALIGN: u64 = 4096;
/// Reads in flight, and the length of each.
const READS: usize = 16;
const READ_LEN: u64 = 1 << 20;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The groups of ext4 that have a copy of the superblock: 0, 1 and the powers of 3, 5 and 7 (sparse_super).
const EXT_GROUPS: [u64; 8] = [1, 3, 5, 7, 9, 25, 27, 49];
/// The size of such a group, with blocks of 1, 2 and 4 KiB: 8 blocks for each byte of a block.
const EXT_GROUP_LEN: [u64; 3] = [8 * MIB, 32 * MIB, 128 * MIB];
/// Where others have copies: Btrfs (64 MiB, 256 GiB; also in a first partition at 1 MiB), Ceph BlueStore
/// (1, 10, 100 and 1000 GiB), LUKS (data at 16 MiB), VMFS (17 and 18 MiB), NTFS (its MFT at 3 GiB), ext4 in
/// a first partition.
const PLACES: [u64; 13] = [
    16 * MIB,
    17 * MIB,
    18 * MIB,
    64 * MIB,
    65 * MIB,
    129 * MIB,
    GIB,
    3 * GIB,
    10 * GIB,
    100 * GIB,
    256 * GIB,
    1000 * GIB,
    1024 * GIB,
];

/// The first byte from `from` on that is not zero, of those that are read.
pub(crate) async fn first_data(drive: &Drive, from: u64) -> Result<Option<u64>, DriveError> {
    let (len, told) = (drive.len_bytes(), drive.data_ranges().await?);
    let is_told = told.is_some();
    let within = told.unwrap_or_else(|| std::iter::once(0..len).collect());
    first_data_in(drive, wanted(&clipped(&within, &(from..len)), len, is_told)).await
}

/// What is read of a drive that may have data in these ranges, in order. `is_told`: nothing is elsewhere.
fn wanted(within: &[Range<u64>], len: u64, is_told: bool) -> Vec<Range<u64>> {
    let total: u64 = within.iter().map(|range| range.end - range.start).sum();
    let all = match is_told && total <= WHOLE_MAX {
        true => within.to_vec(),
        false => {
            let places = places(len);
            let known = places.iter().flat_map(|place| clipped(within, place));
            known.chain(spread(within, total, if is_told { PROBES_OF_DATA } else { PROBES })).collect()
        }
    };
    merged(all.into_iter().map(|r| r.start / ALIGN * ALIGN..r.end.next_multiple_of(ALIGN).min(len)).collect())
}

/// The places of a drive that tell most.
fn places(len: u64) -> Vec<Range<u64>> {
    let ext = EXT_GROUP_LEN.iter().flat_map(|group| EXT_GROUPS.map(|i| group * i));
    // The allocation groups of XFS, of which there are four by default; the last group of ext4
    // (sparse_super2).
    let parts = (1..4).map(|i| len / 4 / ALIGN * ALIGN * i);
    let last = len.saturating_sub(1) / EXT_GROUP_LEN[2] * EXT_GROUP_LEN[2];
    let at = PLACES.into_iter().chain(ext).chain(parts).chain([last]);
    let places = at.map(|at| at..at + PLACE_LEN);
    let ends = [0..HEAD_LEN, len.saturating_sub(TAIL_LEN)..len];
    places.chain(ends).map(|place| place.start.min(len)..place.end.min(len)).collect()
}

/// The parts of ranges within a place.
fn clipped(ranges: &[Range<u64>], place: &Range<u64>) -> Vec<Range<u64>> {
    let within = ranges.iter().map(|range| range.start.max(place.start)..range.end.min(place.end));
    within.filter(|range| !range.is_empty()).collect()
}

/// Blocks that are evenly spread over ranges of this total length.
fn spread(ranges: &[Range<u64>], total: u64, probes: u64) -> Vec<Range<u64>> {
    let apart = (total / probes).max(PROBE_LEN);
    let (mut found, mut next) = (Vec::new(), 0);
    for range in ranges {
        let mut at = range.start + next;
        while at < range.end {
            found.push(at..(at + PROBE_LEN).min(range.end));
            at += apart;
        }
        next = at - range.end;
    }
    found
}

/// Sorted, without overlaps.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

async fn first_data_in(drive: &Drive, ranges: Vec<Range<u64>>) -> Result<Option<u64>, DriveError> {
    let pieces = ranges.into_iter().flat_map(|range| {
        (range.start..range.end).step_by(READ_LEN as usize).map(move |at| at..(at + READ_LEN).min(range.end))
    });
    let pieces: Vec<Range<u64>> = pieces.collect();
    for some in pieces.chunks(READS) {
        let read = |piece: &Range<u64>| {
            (piece.start, drive.read(piece.start, Buf::new((piece.end - piece.start) as usize)))
        };
        let reads: SmallVec<[_; READS]> = some.iter().map(read).collect();
        let mut first = None;
        for (at, read) in reads {
            let filled = read.await;
            filled.result?;
            first = first.or_else(|| Some(at + first_byte_of_data(&filled.buf)? as u64));
        }
        if first.is_some() {
            return Ok(first);
        }
    }
    Ok(None)
}

/// Almost all that is read are zeros, which are seen many at a time.
fn first_byte_of_data(bytes: &[u8]) -> Option<usize> {
    match is_zero(bytes) {
        true => None,
        false => bytes.iter().position(|byte| *byte != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn is_read(wanted: &[Range<u64>], at: u64) -> bool {
        wanted.iter().any(|range| range.contains(&at))
    }

    fn sum(ranges: &[Range<u64>]) -> u64 {
        ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// The start names the place where somebody's data begin.
    #[test]
    fn the_first_byte_of_data_is_found_where_it_is() {
        for len in [1, 63, 4096, 4608] {
            assert_eq!(first_byte_of_data(&vec![0; len]), None);
            for at in [0, 1, 62, 64, 511, 4095, 4607].into_iter().filter(|at| *at < len) {
                let mut bytes = vec![0; len];
                bytes[at..].fill(0xa5);
                assert_eq!(first_byte_of_data(&bytes), Some(at), "of {len}");
            }
        }
    }

    /// A file with 12 MiB of somebody's data, none of it where samples were taken, was erased.
    #[test]
    fn data_that_a_medium_tells_of_are_read_completely() {
        let len = 10 * GIB;
        let data = [101 * MIB..113 * MIB, 5 * GIB..5 * GIB + MIB, 7 * GIB..8 * GIB - 13 * MIB];
        for told in [&data[..0], &data[..1], &data[1..], &data] {
            assert_eq!(wanted(told, len, true), told);
        }
        let much = [GIB..3 * GIB, 5 * GIB..6 * GIB];
        let read = wanted(&much, len, true);
        assert!(read.iter().all(|part| much.iter().any(|r| r.start <= part.start && part.end <= r.end)));
        let apart = sum(&much) / PROBES_OF_DATA;
        let gaps = read.windows(2).filter(|two| two[1].start < 3 * GIB || two[0].end > 5 * GIB);
        assert!(gaps.into_iter().all(|two| two[1].start - two[0].end <= apart));
        assert!((4 * MIB..6 * MIB).contains(&sum(&read)), "{}", sum(&read));
    }

    /// Btrfs's second superblock and others remained where the first MiB was erased, and were not seen.
    #[test]
    fn copies_of_superblocks_are_looked_at() {
        let len = 20_000_u64 << 30;
        let read = wanted(std::slice::from_ref(&(0..len)), len, false);
        let btrfs = [64 * KIB, 64 * MIB, 256 * GIB].map(|at| at + 64);
        let ext = [8 * MIB + KIB, 32 * MIB, 128 * MIB, 3 * 128 * MIB, 49 * 128 * MIB].map(|at| at + 56);
        let ends = [0, 512, MIB + 1080, len - 1, len - 512, len - 65_536 - 1, len - 512 * KIB];
        let others = [16 * MIB, 10 * GIB, len / 4, len / 2, 3 * (len / 4)];
        for at in btrfs.into_iter().chain(ext).chain(ends).chain(others) {
            assert!(is_read(&read, at), "{at}");
        }
        assert!(read.len() < 320 && sum(&read) < 6 * MIB, "{} places, {} bytes", read.len(), sum(&read));
        let apart = read.windows(2).map(|two| two[1].start - two[0].end).max();
        assert!(apart.is_some_and(|apart| apart <= len / PROBES));
    }

    #[test]
    fn what_is_read_lies_on_the_drive_in_whole_blocks() {
        for len in [512, 4096, 4608, MIB, 3 * MIB - 512, 9 * MIB, 64 * MIB + 512, 65 * MIB, 3 * GIB + 512] {
            for told in [false, true] {
                let within = if told { 1536.min(len - 512)..len } else { 0..len };
                let read = wanted(std::slice::from_ref(&within), len, told);
                assert!(read.windows(2).all(|two| two[0].end < two[1].start), "{len}");
                assert!(read.iter().all(|r| r.end <= len && r.start % 512 == 0 && r.end % 512 == 0), "{len}");
                assert!(read.iter().all(|r| !r.is_empty()) && is_read(&read, len - 1), "{len}");
                let is_whole = sum(&read) == len;
                assert!(is_whole || len > 3 * MIB, "{len}: {read:?}");
            }
        }
    }
}
