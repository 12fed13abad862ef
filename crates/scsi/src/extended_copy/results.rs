//! RECEIVE COPY RESULTS and RECEIVE COPY STATUS (SPC-4 6.18, 6.24): the capabilities of the copy manager, and
//! the result of a copy.

use super::limits::*;
use super::operations::{Operation, Stage};
use super::segment::TYPE_BLOCK_TO_BLOCK;
use super::target::TYPE_IDENTIFICATION;

/// TRANSFER COUNT UNITS: logical blocks.
const UNITS_BLOCKS: u8 = 0xF1;
/// ESTIMATED STATUS UPDATE DELAY in milliseconds, while a copy runs: short.
const UPDATE_DELAY_MS: u32 = 100;
/// The same for a copy that has ended: no more updates.
const NO_MORE_UPDATES: u32 = 0xFFFF_FFFE;
/// TRANSFER COUNT UNITS: bytes, KiB, MiB, ... in steps of 1,024 (SPC-4 table of transfer count units).
const UNIT_SHIFT_BITS: u32 = 10;
/// The largest unit code that is a power of 1,024: EiB.
const UNIT_CODE_MAX: u8 = 6;

/// COPY STATUS (SPC-4 6.18.2).
pub(super) fn copy_status(op: &Operation) -> Vec<u8> {
    let status = match op.stage {
        Stage::Foreground | Stage::Background => 0x00,
        Stage::Done => 0x01,
        Stage::Failed | Stage::Terminated => 0x02,
    };
    let (unit, count) = transfer_count(op.bytes);
    let mut out = vec![0, 0, 0, 8, status];
    out.extend(op.segments.to_be_bytes());
    out.push(unit);
    out.extend(count.to_be_bytes());
    out
}

/// RECEIVE COPY STATUS(LID4) (SPC-4 6.24), which is also how RECEIVE ROD TOKEN INFORMATION begins.
pub(crate) fn copy_status_lid4(op: &Operation, block_bytes: u32) -> Vec<u8> {
    let status = match op.stage {
        Stage::Done => 0x01,
        Stage::Failed => 0x02,
        Stage::Foreground => 0x11,
        Stage::Background => 0x12,
        Stage::Terminated => 0x60,
    };
    let mut out = vec![0; 4];
    out.extend([op.action & 0x1F, status]);
    // OPERATION COUNTER: one, this one.
    out.extend(1u16.to_be_bytes());
    out.extend(if op.stage.is_running() { UPDATE_DELAY_MS } else { NO_MORE_UPDATES }.to_be_bytes());
    // EXTENDED COPY COMPLETION STATUS: GOOD or CHECK CONDITION.
    let sense_len = u8::try_from(op.sense.len()).unwrap_or(0);
    out.extend([if op.stage == Stage::Failed { 0x02 } else { 0x00 }, sense_len, sense_len, UNITS_BLOCKS]);
    out.extend((op.bytes / u64::from(block_bytes.max(1))).to_be_bytes());
    out.extend(op.segments.to_be_bytes());
    out.extend([0; 6]);
    out.extend(&op.sense[..usize::from(sense_len)]);
    with_available_len(out)
}

/// Puts the length of what follows into the first four bytes.
pub(crate) fn with_available_len(mut data: Vec<u8>) -> Vec<u8> {
    let available = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&available.to_be_bytes());
    data
}

/// The smallest unit in which the count fits in four bytes, and the count in it.
fn transfer_count(bytes: u64) -> (u8, u32) {
    let mut unit = 0;
    loop {
        match u32::try_from(bytes >> (UNIT_SHIFT_BITS * u32::from(unit))) {
            Ok(count) => return (unit, count),
            Err(_) if unit == UNIT_CODE_MAX => return (unit, u32::MAX),
            Err(_) => unit += 1,
        }
    }
}

/// OPERATING PARAMETERS (SPC-4 6.18.4). Hosts read these before they send EXTENDED COPY.
pub(super) fn operating_parameters(block_bytes: u32) -> Vec<u8> {
    let types = [TYPE_BLOCK_TO_BLOCK, TYPE_IDENTIFICATION];
    let mut out = vec![0; 44];
    // SNLID: a list identifier is not needed.
    out[4] = 0x01;
    out[8..10].copy_from_slice(&(TARGETS_MAX as u16).to_be_bytes());
    out[10..12].copy_from_slice(&(SEGMENTS_MAX as u16).to_be_bytes());
    out[12..16].copy_from_slice(&(DESCRIPTORS_LEN_MAX as u32).to_be_bytes());
    out[16..20].copy_from_slice(&segment_bytes_max(block_bytes).to_be_bytes());
    // 20..32: no inline data, no held data, no stream devices.
    out[34..36].copy_from_slice(&(OPERATIONS_MAX as u16).to_be_bytes());
    out[36] = OPERATIONS_PER_UNIT_MAX as u8;
    // The smallest segment, as a power of two: one block.
    out[37] = block_bytes.max(1).ilog2() as u8;
    out[43] = types.len() as u8;
    out.extend(types);
    with_available_len(out)
}

/// FAILED SEGMENT DETAILS (SPC-4 6.18.5): the sense data of a copy that failed.
pub(super) fn failed_segment_details(op: &Operation) -> Vec<u8> {
    let mut out = vec![0; 60];
    // EXTENDED COPY COMMAND STATUS: CHECK CONDITION.
    out[56] = 0x02;
    out[58..60].copy_from_slice(&(op.sense.len() as u16).to_be_bytes());
    out.extend(&op.sense);
    with_available_len(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_into_the_smallest_unit_that_holds_them() {
        for (bytes, expected) in
            [(0, (0, 0)), (0xFFFF_FFFF, (0, u32::MAX)), (1 << 32, (1, 1 << 22)), (u64::MAX, (4, 0xFF_FFFF))]
        {
            assert_eq!(transfer_count(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn operating_parameters_have_their_fields_in_place() {
        let data = operating_parameters(512);
        assert_eq!(&data[..4], &[0, 0, 0, 42]);
        assert_eq!(&data[8..16], &[0, 64, 0, 64, 0, 0, 16, 0]);
        assert_eq!(u32::from_be_bytes(data[16..20].try_into().expect("four")), 31 << 20);
        assert_eq!((data[37], &data[43..]), (9, &[2, 0x02, 0xE4][..]));
        assert_eq!(segment_bytes_max(4096), 255 << 20);
    }
}
