//! The Third-Party Copy VPD page (8Fh, SPC-5 7.7.18, SBC-4 6.6.9): the supported copies and commands.

use super::limits::*;
use super::segment::{TARGET_ITSELF, TYPE_BLOCK_TO_BLOCK};
use super::target::TYPE_IDENTIFICATION;
use crate::odx::{self, RodType};

/// The third-party copy descriptors of a logical unit: the page after its four header bytes.
pub(crate) fn third_party_copy_descriptors(block_bytes: u32) -> Vec<u8> {
    let mut out = Vec::new();
    block_device_rod_limits(&mut out, block_bytes);
    descriptor(&mut out, 0x0001, &supported_commands());
    parameter_data(&mut out);
    descriptor(&mut out, 0x0008, &[2, TYPE_BLOCK_TO_BLOCK, TYPE_IDENTIFICATION]);
    let [high, low] = TARGET_ITSELF.to_be_bytes();
    descriptor(&mut out, 0x000C, &[0, 2, high, low]);
    rod_token_features(&mut out, block_bytes);
    supported_rod_types(&mut out);
    general_copy_operations(&mut out, block_bytes);
    out
}

/// Type, length and content, padded to four bytes.
fn descriptor(out: &mut Vec<u8>, kind: u16, content: &[u8]) {
    let len = content.len().next_multiple_of(4);
    out.extend(kind.to_be_bytes());
    out.extend((len as u16).to_be_bytes());
    out.extend(content);
    out.resize(out.len() + len - content.len(), 0);
}

/// SBC-4 6.6.9.3.
fn block_device_rod_limits(out: &mut Vec<u8>, block_bytes: u32) {
    let blocks = |bytes: u64| bytes / u64::from(block_bytes.max(1));
    let mut content = vec![0; 6];
    content.extend((odx::RANGES_MAX as u16).to_be_bytes());
    content.extend(odx::INACTIVITY_S_MAX.to_be_bytes());
    content.extend(odx::INACTIVITY_S_DEFAULT.to_be_bytes());
    content.extend(blocks(odx::TOKEN_BYTES_MAX).to_be_bytes());
    content.extend(blocks(odx::TOKEN_BYTES_OPTIMAL).to_be_bytes());
    descriptor(out, 0x0000, &content);
}

/// SPC-5 7.7.18.5: operation codes with their service actions.
fn supported_commands() -> Vec<u8> {
    let mut list = Vec::new();
    for (opcode, actions) in [(0x83, &[0x00, 0x01, 0x10, 0x11][..]), (0x84, &[0x00, 0x03, 0x04, 0x05, 0x07])]
    {
        list.extend([opcode, actions.len() as u8]);
        list.extend(actions);
    }
    let mut content = vec![list.len() as u8];
    content.extend(list);
    content
}

/// SPC-5 7.7.18.6.
fn parameter_data(out: &mut Vec<u8>) {
    let mut content = vec![0; 4];
    content.extend((TARGETS_MAX as u16).to_be_bytes());
    content.extend((SEGMENTS_MAX as u16).to_be_bytes());
    content.extend((DESCRIPTORS_LEN_MAX as u32).to_be_bytes());
    // No inline data.
    content.extend([0; 4 + 12]);
    descriptor(out, 0x0004, &content);
}

/// SPC-5 7.7.18.10 with the block device features of SBC-4 6.6.9.4.
fn rod_token_features(out: &mut Vec<u8>, block_bytes: u32) {
    let mut content = vec![0; 12];
    // Shortest and longest lifetime of a token, longest inactivity. A token in use does not expire.
    content.extend(1u32.to_be_bytes());
    content.extend(u32::MAX.to_be_bytes());
    content.extend(odx::INACTIVITY_S_MAX.to_be_bytes());
    content.extend([0; 18]);
    let mut block_device = vec![0, 0, 0, 44, 0, 0];
    // OPTIMAL BLOCK ROD LENGTH GRANULARITY in blocks: 64 KiB.
    let granularity = u16::try_from((64 << 10) / block_bytes.max(1)).unwrap_or(0);
    block_device.extend(granularity.to_be_bytes());
    block_device.extend(odx::TOKEN_BYTES_MAX.to_be_bytes());
    for _ in 0..3 {
        block_device.extend(odx::TOKEN_BYTES_OPTIMAL.to_be_bytes());
    }
    block_device.extend([0; 8]);
    content.extend((block_device.len() as u16).to_be_bytes());
    content.extend(block_device);
    descriptor(out, 0x0106, &content);
}

/// SPC-5 7.7.18.11: point in time copies made and taken here, zeros taken.
fn supported_rod_types(out: &mut Vec<u8>) {
    let mut list = Vec::new();
    for (rod_type, flags) in [(RodType::POINT_IN_TIME, 0x03), (RodType::BLOCK_ZERO, 0x02)] {
        list.extend(rod_type.0.to_be_bytes());
        list.extend([flags, 0, 0, 0]);
        list.extend([0; 56]);
    }
    let mut content = vec![0, 0];
    content.extend((list.len() as u16).to_be_bytes());
    content.extend(list);
    descriptor(out, 0x0108, &content);
}

/// SPC-5 7.7.18.13.
fn general_copy_operations(out: &mut Vec<u8>, block_bytes: u32) {
    let mut content = Vec::new();
    content.extend((OPERATIONS_MAX as u32).to_be_bytes());
    content.extend((OPERATIONS_PER_UNIT_MAX as u32).to_be_bytes());
    content.extend(segment_bytes_max(block_bytes).to_be_bytes());
    content.extend([block_bytes.max(1).ilog2() as u8, 0]);
    content.extend([0; 18]);
    descriptor(out, 0x8001, &content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_follow_each_other_to_the_end() {
        let page = third_party_copy_descriptors(512);
        let mut seen = Vec::new();
        let mut rest = &page[..];
        while !rest.is_empty() {
            let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
            assert_eq!(len % 4, 0);
            seen.push((u16::from_be_bytes([rest[0], rest[1]]), len));
            rest = &rest[4 + len..];
        }
        let expected = [(0, 32), (1, 16), (4, 28), (8, 4), (0xC, 4), (0x106, 92), (0x108, 132), (0x8001, 32)];
        assert_eq!(seen, expected);
        assert_eq!(
            &page[36..56],
            &[0, 1, 0, 16, 13, 0x83, 4, 0x00, 0x01, 0x10, 0x11, 0x84, 5, 0x00, 0x03, 0x04, 0x05, 0x07, 0, 0]
        );
    }
}
