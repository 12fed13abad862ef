//! Segment descriptors of a copy (SPC-4 6.4.6): from block device to block device, type 02h.

use crate::error::CommandError;

/// Length of the descriptor of type 02h.
pub(super) const SEGMENT_LEN: usize = 28;
/// Type code: block device to block device.
pub(super) const TYPE_BLOCK_TO_BLOCK: u8 = 0x02;
/// The target index that means the logical unit that got the command (SPC-4 table of CSCD descriptor IDs).
pub(super) const TARGET_ITSELF: u16 = 0xFFFF;

/// One range to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Index of the source among the targets, or [`TARGET_ITSELF`].
    pub(super) source: u16,
    /// Index of the destination.
    pub(super) destination: u16,
    /// DC: the block count is in blocks of the destination; otherwise of the source.
    pub(super) counts_destination: bool,
    /// The number of blocks.
    pub(super) blocks: u16,
    pub(super) source_lba: u64,
    pub(super) destination_lba: u64,
}

impl Segment {
    /// Parses the descriptor at the beginning of `bytes`, at offset `at` of the parameter list.
    pub(super) fn parse(bytes: &[u8], at: usize) -> Result<Segment, CommandError> {
        let head = bytes.first_chunk::<4>().ok_or(CommandError::ParameterListLength)?;
        if head[0] != TYPE_BLOCK_TO_BLOCK {
            return Err(CommandError::UnsupportedSegmentDescriptor {
                byte: u16::try_from(at).unwrap_or(u16::MAX),
            });
        }
        if usize::from(u16::from_be_bytes([head[2], head[3]])) != SEGMENT_LEN - 4 {
            return Err(CommandError::parameter(at + 2));
        }
        let bytes = bytes.first_chunk::<SEGMENT_LEN>().ok_or(CommandError::ParameterListLength)?;
        let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Ok(Segment {
            source: u16_at(4),
            destination: u16_at(6),
            counts_destination: bytes[1] & 0x02 != 0,
            blocks: u16_at(10),
            source_lba: u64::from_be_bytes(bytes[12..20].try_into().expect("eight bytes")),
            destination_lba: u64::from_be_bytes(bytes[20..28].try_into().expect("eight bytes")),
        })
    }
}
