//! The limits of the copy manager, as reported by VPD page 8Fh and the operating parameters.

use super::segment::SEGMENT_LEN;
use super::target::TARGET_LEN;

/// Target (CSCD) descriptors in one list.
pub(crate) const TARGETS_MAX: usize = 64;
/// Segment descriptors in one list. With [`segment_bytes_max`] one command copies nearly 2 GiB of 512-byte
/// blocks: within one pool a metadata operation, between pools some seconds, less than the command time-out
/// of any host.
pub(crate) const SEGMENTS_MAX: usize = 64;
/// Target and segment descriptors in total, in bytes: every list within the two limits fits.
pub(crate) const DESCRIPTORS_LEN_MAX: usize = 4096;
const _: () = assert!(TARGETS_MAX * TARGET_LEN + SEGMENTS_MAX * SEGMENT_LEN <= DESCRIPTORS_LEN_MAX);
// One descriptor more than allowed still fits, so that the error is "too many" and not "too long".
const _: () = assert!((TARGETS_MAX + 1) * TARGET_LEN + SEGMENT_LEN <= DESCRIPTORS_LEN_MAX);
const _: () = assert!(TARGET_LEN + (SEGMENTS_MAX + 1) * SEGMENT_LEN <= DESCRIPTORS_LEN_MAX);
/// Bytes per step of a copy. Its ranges are locked meanwhile, so this bounds how long a COMPARE AND WRITE
/// waits: 16 MiB are 80 ms at 200 MB/s, and 320 ms with [`PIECES_IN_FLIGHT`]; and sharing pages takes few
/// steps.
pub(crate) const PIECE_BYTES_MAX: u64 = 16 << 20;
/// Steps of one copy in flight, so that drives have work while a step ends and the next one begins. A copy by
/// one command at a time between two pools of 10,000 and 15,000 rpm drives takes 168 s with 4 (172 s where
/// 216 s were taken with 1).
pub(crate) const PIECES_IN_FLIGHT: usize = 4;
/// Bytes per step if a range moves over itself: the step is read into memory before it is written.
pub(super) const OVERLAP_PIECE_BYTES_MAX: u64 = 1 << 20;
const _: () = assert!(OVERLAP_PIECE_BYTES_MAX <= world::BUF_LEN_MAX as u64);
/// Copies of one nexus whose results are kept, running or ended: the number of one-byte list identifiers.
pub(crate) const OPERATIONS_MAX: usize = 255;
/// Of these, how many on one logical unit.
pub(crate) const OPERATIONS_PER_UNIT_MAX: usize = 32;

/// Longest segment, as reported: 65,535 blocks, in whole MiB, so that a host that copies in steps of this
/// size stays aligned to pages. 31 MiB of 512-byte blocks, 255 MiB of 4 KiB blocks. (The block count of a
/// segment descriptor has 16 bits: the array has no lower limit of its own.)
pub(crate) fn segment_bytes_max(block_bytes: u32) -> u32 {
    let bytes = u64::from(u16::MAX) * u64::from(block_bytes);
    u32::try_from(bytes >> 20 << 20).unwrap_or(u32::MAX)
}
