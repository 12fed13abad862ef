//! The parameter list of EXTENDED COPY(LID1) (SPC-4 6.4.1).

use super::limits::{DESCRIPTORS_LEN_MAX, SEGMENTS_MAX, TARGETS_MAX};
use super::segment::Segment;
use super::target::{TARGET_LEN, Target};
use crate::error::CommandError;

/// Length of the header.
pub(super) const HEADER_LEN: usize = 16;

/// What happens to the results of a copy (LIST ID USAGE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Results {
    /// 00b, 10b: kept under the list identifier for RECEIVE COPY RESULTS. (The two differ only in held data,
    /// which does not exist.)
    Kept(u8),
    /// 11b: the command has no list identifier.
    Forgotten,
}

/// A parsed list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) results: Results,
    pub(super) targets: Vec<Target>,
    pub(super) segments: Vec<Segment>,
}

impl List {
    /// Parses the host's list. The checks are in the order in which a host can react: lengths, counts, then
    /// the content of descriptors.
    pub(super) fn parse(bytes: &[u8]) -> Result<List, CommandError> {
        let head = bytes.first_chunk::<HEADER_LEN>().ok_or(CommandError::ParameterListLength)?;
        let targets_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let segments_len = u32::from_be_bytes(head[8..12].try_into().expect("four bytes")) as usize;
        let inline_len = u32::from_be_bytes(head[12..16].try_into().expect("four bytes"));
        if targets_len.saturating_add(segments_len) > DESCRIPTORS_LEN_MAX {
            return Err(CommandError::ParameterListLength);
        }
        if inline_len > 0 {
            return Err(CommandError::InlineDataLength);
        }
        if bytes.len() < HEADER_LEN + targets_len + segments_len {
            return Err(CommandError::ParameterListLength);
        }
        if targets_len % TARGET_LEN != 0 {
            return Err(CommandError::parameter(2));
        }
        let segments_at = HEADER_LEN + targets_len;
        Ok(List {
            results: results(head)?,
            targets: targets(&bytes[HEADER_LEN..segments_at])?,
            segments: segments(&bytes[segments_at..segments_at + segments_len], segments_at)?,
        })
    }
}

fn results(head: &[u8; HEADER_LEN]) -> Result<Results, CommandError> {
    match head[1] >> 3 & 0b11 {
        0b00 | 0b10 => Ok(Results::Kept(head[0])),
        0b11 if head[0] == 0 => Ok(Results::Forgotten),
        0b11 => Err(CommandError::parameter(0)),
        _ => Err(CommandError::parameter_bit(1, 4)),
    }
}

fn targets(bytes: &[u8]) -> Result<Vec<Target>, CommandError> {
    if bytes.len() / TARGET_LEN > TARGETS_MAX {
        return Err(CommandError::TooManyTargetDescriptors);
    }
    let (chunks, _) = bytes.as_chunks::<TARGET_LEN>();
    chunks.iter().enumerate().map(|(i, chunk)| Target::parse(chunk, HEADER_LEN + i * TARGET_LEN)).collect()
}

fn segments(bytes: &[u8], at: usize) -> Result<Vec<Segment>, CommandError> {
    let mut segments = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        if segments.len() == SEGMENTS_MAX {
            return Err(CommandError::TooManySegmentDescriptors);
        }
        segments.push(Segment::parse(rest, at + bytes.len() - rest.len())?);
        rest = &rest[super::segment::SEGMENT_LEN..];
    }
    Ok(segments)
}
