//! Command descriptor blocks and parameter lists that the laboratory's hosts send (SBC-4, SPC-4, SPC-5).

use super::plan::Segment;

/// A command descriptor block, zero-padded.
pub type Cdb = [u8; 16];

fn with_lba_and_count(opcode: u8, lba: u64, count: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// READ(16).
pub fn read(lba: u64, blocks: u32) -> Cdb {
    with_lba_and_count(0x88, lba, blocks)
}

/// WRITE(16).
pub fn write(lba: u64, blocks: u32) -> Cdb {
    with_lba_and_count(0x8a, lba, blocks)
}

/// WRITE SAME(16), UNMAP = 0: one block of data-out is written to all.
pub fn write_same(lba: u64, blocks: u32) -> Cdb {
    with_lba_and_count(0x93, lba, blocks)
}

/// WRITE SAME(16), UNMAP = 1: the same, and the LU releases space if it can.
pub fn write_same_unmap(lba: u64, blocks: u32) -> Cdb {
    let mut cdb = write_same(lba, blocks);
    cdb[1] = 1 << 3;
    cdb
}

/// SYNCHRONIZE CACHE(16) of the whole LU.
pub fn synchronize_cache() -> Cdb {
    with_lba_and_count(0x91, 0, 0)
}

/// MODE SENSE(6) for the header and all pages.
pub fn mode_sense(len: u8) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[2], cdb[4]) = (0x1a, 0x3f, len);
    cdb
}

/// COMPARE AND WRITE of one block: data-out is the expected block, then the new one.
pub fn compare_and_write(lba: u64) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x89;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[13] = 1;
    cdb
}

/// UNMAP with its parameter list.
pub fn unmap(ranges: &[(u64, u32)]) -> (Cdb, Vec<u8>) {
    let descriptors_len = (ranges.len() * 16) as u16;
    let mut list = Vec::with_capacity(8 + usize::from(descriptors_len));
    list.extend((descriptors_len + 6).to_be_bytes());
    list.extend(descriptors_len.to_be_bytes());
    list.extend([0; 4]);
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    let mut cdb = [0; 16];
    cdb[0] = 0x42;
    cdb[7..9].copy_from_slice(&(list.len() as u16).to_be_bytes());
    (cdb, list)
}

/// RESERVE(6) of the whole LU.
pub fn reserve() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x16;
    cdb
}

/// RELEASE(6).
pub fn release() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x17;
    cdb
}

/// TEST UNIT READY (SPC-4 6.47).
pub fn test_unit_ready() -> Cdb {
    [0; 16]
}

/// INQUIRY for a vital product data page.
pub fn vpd(page: u8, len: u16) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[2]) = (0x12, 0x01, page);
    cdb[3..5].copy_from_slice(&len.to_be_bytes());
    cdb
}

/// INQUIRY, standard data.
pub fn inquiry(len: u16) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x12;
    cdb[3..5].copy_from_slice(&len.to_be_bytes());
    cdb
}

/// READ CAPACITY(16).
pub fn read_capacity() -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
    cdb
}

/// RECEIVE COPY RESULTS, operating parameters.
pub fn copy_operating_parameters(len: u32) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x84, 0x03);
    cdb[10..14].copy_from_slice(&len.to_be_bytes());
    cdb
}

/// REPORT SUPPORTED OPERATION CODES for one operation code.
pub fn report_supported_operation(opcode: u8, len: u32) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[2], cdb[3]) = (0xa3, 0x0c, 0x01, opcode);
    cdb[6..10].copy_from_slice(&len.to_be_bytes());
    cdb
}

/// REPORT TARGET PORT GROUPS (SPC-5 6.39).
pub fn report_target_port_groups(len: u32) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0xa3, 0x0a);
    cdb[6..10].copy_from_slice(&len.to_be_bytes());
    cdb
}

/// EXTENDED COPY(LID1) with its parameter list: two targets named by their NAA designators, then
/// block-to-block segments.
pub fn extended_copy(naa: [&[u8]; 2], block_bytes: u32, segments: &[Segment]) -> (Cdb, Vec<u8>) {
    let block = u64::from(block_bytes);
    let mut list = vec![0; 16];
    // LIST ID USAGE 11b: no list identifier, for nobody asks for the result of a copy that ended with GOOD.
    list[1] = 0b11 << 3;
    list[2..4].copy_from_slice(&64u16.to_be_bytes());
    list[8..12].copy_from_slice(&((segments.len() * 28) as u32).to_be_bytes());
    for designator in naa {
        list.extend(target(designator, block_bytes));
    }
    for segment in segments {
        list.extend([0x02, 0, 0, 24, 0, 0, 0, 1, 0, 0]);
        list.extend(((segment.len / block) as u16).to_be_bytes());
        list.extend((segment.from / block).to_be_bytes());
        list.extend((segment.to / block).to_be_bytes());
    }
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    (cdb, list)
}

/// The length of a ROD token.
const TOKEN_LEN: usize = 512;

/// POPULATE TOKEN for one range, place and blocks.
pub fn populate_token(list_id: u32, (lba, blocks): (u64, u32)) -> (Cdb, Vec<u8>) {
    token_command(0x10, list_id, vec![0; 16], (lba, blocks))
}

/// RECEIVE ROD TOKEN INFORMATION about the command with this list identifier.
pub fn receive_token_information(list_id: u32, len: u32) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x84, 0x07);
    cdb[2..6].copy_from_slice(&list_id.to_be_bytes());
    cdb[10..14].copy_from_slice(&len.to_be_bytes());
    cdb
}

/// The token in the data of RECEIVE ROD TOKEN INFORMATION (SPC-5 6.31), after sense data of their own length.
pub fn token_in(information: &[u8]) -> Option<&[u8; TOKEN_LEN]> {
    let sense_len = usize::from(*information.get(13)?);
    information.get(32 + sense_len + 6..)?.first_chunk()
}

/// WRITE USING TOKEN of all of a token's data to one range. The token is deleted afterwards (DEL_TKN).
pub fn write_using_token(list_id: u32, token: &[u8; TOKEN_LEN], (lba, blocks): (u64, u32)) -> (Cdb, Vec<u8>) {
    let mut fixed = vec![0; 536];
    fixed[2] = 0x02;
    fixed[16..16 + TOKEN_LEN].copy_from_slice(token);
    token_command(0x11, list_id, fixed, (lba, blocks))
}

/// A command of tokens: the fixed part of its list with both lengths, and one range descriptor.
fn token_command(action: u8, list_id: u32, fixed: Vec<u8>, (lba, blocks): (u64, u32)) -> (Cdb, Vec<u8>) {
    let mut list = fixed;
    let fixed_len = list.len();
    list.extend(lba.to_be_bytes());
    list.extend(blocks.to_be_bytes());
    list.extend([0; 4]);
    let len = list.len();
    list[..2].copy_from_slice(&(len as u16 - 2).to_be_bytes());
    list[fixed_len - 2..fixed_len].copy_from_slice(&((len - fixed_len) as u16).to_be_bytes());
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x83, action);
    cdb[6..10].copy_from_slice(&list_id.to_be_bytes());
    cdb[10..14].copy_from_slice(&(len as u32).to_be_bytes());
    (cdb, list)
}

/// Identification descriptor target descriptor, E4h (SPC-4 6.4.5.2): binary, NAA, of the logical unit.
fn target(naa: &[u8], block_bytes: u32) -> [u8; 32] {
    let mut out = [0; 32];
    (out[0], out[4], out[5], out[7]) = (0xe4, 0x01, 0x03, naa.len() as u8);
    out[8..8 + naa.len()].copy_from_slice(naa);
    out[29..32].copy_from_slice(&block_bytes.to_be_bytes()[1..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_places() {
        assert_eq!(read(0x0102_0304_0506_0708, 9), [0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0, 0]);
        assert_eq!(compare_and_write(5)[13], 1);
        assert_eq!(write_same_unmap(1, 2)[..3], [0x93, 8, 0]);
        let (cdb, list) = unmap(&[(1, 2), (3, 4)]);
        assert_eq!((u16::from_be_bytes([cdb[7], cdb[8]]), list.len()), (40, 40));
        assert_eq!(list[..4], [0, 38, 0, 32]);
    }

    #[test]
    fn token_commands_have_their_lengths_and_ranges() {
        let (cdb, list) = populate_token(7, (3, 9));
        assert_eq!(cdb, [0x83, 0x10, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 32, 0, 0]);
        assert_eq!((&list[..2], &list[14..16]), (&[0, 30][..], &[0, 16][..]));
        assert_eq!((list[23], list[27]), (3, 9));
        let (cdb, list) = write_using_token(7, &[0x5A; 512], (3, 9));
        assert_eq!((cdb[1], &cdb[10..14]), (0x11, &552u32.to_be_bytes()[..]));
        assert_eq!((list[2], list[16], list[527], &list[534..536]), (2, 0x5A, 0x5A, &[0, 16][..]));
        let mut information = vec![0; 38];
        information.extend([0x77; 512]);
        assert_eq!(token_in(&information), Some(&[0x77; 512]));
        assert_eq!(token_in(&information[..500]), None);
    }

    #[test]
    fn a_copy_names_both_units_and_all_segments() {
        let naa = [0x60; 16];
        let (cdb, list) =
            extended_copy([&naa, &naa], 512, &[Segment { from: 512, to: 1 << 20, len: 4 << 20 }]);
        assert_eq!(list.len(), 16 + 2 * 32 + 28);
        assert_eq!(u32::from_be_bytes([cdb[10], cdb[11], cdb[12], cdb[13]]), list.len() as u32);
        assert_eq!(list[80 + 10..80 + 12], 8192u16.to_be_bytes());
        assert_eq!(list[80 + 12..80 + 20], 1u64.to_be_bytes());
        assert_eq!(list[80 + 20..], 2048u64.to_be_bytes());
    }
}
