//! Block device range descriptors (SBC-4 5.10.3) and the common list header of both token commands.

use lu::LogicalDisk;

use super::limits::RANGES_MAX;
use crate::context::{Span, span};
use crate::error::CommandError;
use crate::unit::LogicalUnit;

/// Length of a range descriptor.
pub(super) const RANGE_LEN: usize = 16;

/// Some blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) lba: u64,
    pub(super) blocks: u32,
}

/// The range descriptors of a parameter list whose fixed part has `fixed_len` bytes and ends with their
/// length.
pub(super) fn parse(list: &[u8], fixed_len: usize) -> Result<Vec<Range>, CommandError> {
    if list.len() < fixed_len {
        return Err(CommandError::ParameterListLength);
    }
    let data_len = usize::from(u16::from_be_bytes([list[0], list[1]]));
    if data_len < fixed_len - 2 + RANGE_LEN {
        return Err(CommandError::parameter(0));
    }
    if list.len() < data_len + 2 {
        return Err(CommandError::ParameterListLength);
    }
    let ranges_len = usize::from(u16::from_be_bytes([list[fixed_len - 2], list[fixed_len - 1]]));
    if ranges_len < RANGE_LEN || ranges_len > data_len + 2 - fixed_len {
        return Err(CommandError::parameter(fixed_len - 2));
    }
    if ranges_len / RANGE_LEN > RANGES_MAX {
        return Err(CommandError::TooManySegmentDescriptors);
    }
    let (chunks, _) = list[fixed_len..fixed_len + ranges_len].as_chunks::<RANGE_LEN>();
    Ok(chunks.iter().map(range).collect())
}

fn range(bytes: &[u8; RANGE_LEN]) -> Range {
    Range {
        lba: u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes")),
        blocks: u32::from_be_bytes(bytes[8..12].try_into().expect("four bytes")),
    }
}

/// The ranges in bytes on a logical unit: within it, not overlapping, one block to `bytes_max` in total. `at`
/// is their offset in the parameter list.
pub(super) fn spans<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    ranges: &[Range],
    bytes_max: u64,
    at: usize,
) -> Result<Vec<Span>, CommandError> {
    let spans = ranges.iter().map(|r| span(lu, r.lba, u64::from(r.blocks))).collect::<Result<Vec<_>, _>>()?;
    let total: u64 = spans.iter().map(|s| s.len).sum();
    if total == 0 || total > bytes_max {
        return Err(CommandError::parameter(at));
    }
    let mut sorted: Vec<_> = spans.iter().filter(|s| s.len > 0).collect();
    sorted.sort_unstable_by_key(|s| s.at);
    if sorted.windows(2).any(|pair| pair[0].at + pair[0].len > pair[1].at) {
        return Err(CommandError::parameter(at));
    }
    Ok(spans)
}
