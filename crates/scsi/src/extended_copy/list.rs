//! The parameter lists of EXTENDED COPY(LID1) and (LID4) (SPC-4 6.4.1, 6.4.2): two headers before the same
//! descriptors.

use super::limits::{DESCRIPTORS_LEN_MAX, SEGMENTS_MAX, TARGETS_MAX};
use super::segment::Segment;
use super::target::{TARGET_LEN, Target};
use crate::error::CommandError;

/// Length of the header of LID1.
const LID1_HEADER_LEN: usize = 16;
/// Length of the header of LID4, with its header CSCD descriptor.
const LID4_HEADER_LEN: usize = 48;
/// PARAMETER LIST FORMAT of LID4.
const LID4_FORMAT: u8 = 0x01;
/// HEADER CSCD DESCRIPTOR LIST LENGTH, and TYPE CODE: the one that there is.
const HEADER_TARGET_LEN: u16 = 0x20;
const HEADER_TARGET_TYPE: u8 = 0xFF;

/// What happens to the results of a copy (LIST ID USAGE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Results {
    /// 00b, 10b: kept under the list identifier, for the commands that ask for them. (The two differ only in
    /// held data, which does not exist.)
    Kept(u32),
    /// 11b: the command has no list identifier.
    Forgotten,
}

/// A parsed list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) results: Results,
    /// IMMED: the command ends when the copy has started.
    pub(super) immediate: bool,
    pub(super) targets: Vec<Target>,
    pub(super) segments: Vec<Segment>,
}

/// The lengths of the parts of a list, in bytes.
struct Lengths {
    header: usize,
    /// Where the length of the targets stands.
    targets_at: usize,
    targets: usize,
    segments: usize,
    inline: u32,
}

impl List {
    /// Parses a host's list of LID1.
    pub(super) fn parse_lid1(bytes: &[u8]) -> Result<List, CommandError> {
        let head = bytes.first_chunk::<LID1_HEADER_LEN>().ok_or(CommandError::ParameterListLength)?;
        let lengths = Lengths {
            header: LID1_HEADER_LEN,
            targets_at: 2,
            targets: u16::from_be_bytes([head[2], head[3]]).into(),
            segments: u32::from_be_bytes(head[8..12].try_into().expect("four bytes")) as usize,
            inline: u32::from_be_bytes(head[12..16].try_into().expect("four bytes")),
        };
        let (targets, segments) = lengths.descriptors(bytes)?;
        Ok(List { results: results(head[1], head[0].into(), 0)?, immediate: false, targets, segments })
    }

    /// Parses a host's list of LID4.
    pub(super) fn parse_lid4(bytes: &[u8]) -> Result<List, CommandError> {
        let head = bytes.first_chunk::<LID4_HEADER_LEN>().ok_or(CommandError::ParameterListLength)?;
        let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        if head[0] != LID4_FORMAT {
            return Err(CommandError::parameter(0));
        }
        if u16_at(2) != HEADER_TARGET_LEN {
            return Err(CommandError::parameter(2));
        }
        if head[16] != HEADER_TARGET_TYPE {
            return Err(CommandError::parameter(16));
        }
        let lengths = Lengths {
            header: LID4_HEADER_LEN,
            targets_at: 42,
            targets: u16_at(42).into(),
            segments: u16_at(44).into(),
            inline: u16_at(46).into(),
        };
        let (targets, segments) = lengths.descriptors(bytes)?;
        let id = u32::from_be_bytes(head[20..24].try_into().expect("four bytes"));
        let (results, immediate) = (results(head[1], id, 20)?, head[15] & 0x01 != 0);
        // Nobody could ask for its end, and no limit of list identifiers would count it.
        if immediate && results == Results::Forgotten {
            return Err(CommandError::parameter_bit(15, 0));
        }
        Ok(List { results, immediate, targets, segments })
    }
}

impl Lengths {
    /// The descriptors. The checks are in the order in which a host can react: lengths, counts, then the
    /// content of descriptors.
    fn descriptors(&self, bytes: &[u8]) -> Result<(Vec<Target>, Vec<Segment>), CommandError> {
        if self.targets.saturating_add(self.segments) > DESCRIPTORS_LEN_MAX {
            return Err(CommandError::ParameterListLength);
        }
        if self.inline > 0 {
            return Err(CommandError::InlineDataLength);
        }
        let segments_at = self.header + self.targets;
        if bytes.len() < segments_at + self.segments {
            return Err(CommandError::ParameterListLength);
        }
        if !self.targets.is_multiple_of(TARGET_LEN) {
            return Err(CommandError::parameter(self.targets_at));
        }
        let targets = targets(&bytes[self.header..segments_at], self.header)?;
        Ok((targets, segments(&bytes[segments_at..segments_at + self.segments], segments_at)?))
    }
}

/// LIST ID USAGE and the list identifier, which stands at byte `id_at`.
fn results(flags: u8, id: u32, id_at: usize) -> Result<Results, CommandError> {
    match flags >> 3 & 0b11 {
        0b00 | 0b10 => Ok(Results::Kept(id)),
        0b11 if id == 0 => Ok(Results::Forgotten),
        0b11 => Err(CommandError::parameter(id_at)),
        _ => Err(CommandError::parameter_bit(1, 4)),
    }
}

fn targets(bytes: &[u8], at: usize) -> Result<Vec<Target>, CommandError> {
    if bytes.len() / TARGET_LEN > TARGETS_MAX {
        return Err(CommandError::TooManyTargetDescriptors);
    }
    let (chunks, _) = bytes.as_chunks::<TARGET_LEN>();
    chunks.iter().enumerate().map(|(i, chunk)| Target::parse(chunk, at + i * TARGET_LEN)).collect()
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
