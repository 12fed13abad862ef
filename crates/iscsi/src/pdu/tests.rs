//! Headers against bytes written by hand from the figures of RFC 7143 clause 11.

use super::*;

#[test]
fn a_scsi_command_is_read_field_by_field() {
    let mut bhs = [0u8; BHS_LEN];
    bhs[0] = IMMEDIATE | opcode::SCSI_COMMAND;
    bhs[1] = FINAL | ScsiCommand::READ | 1;
    bhs[5..8].copy_from_slice(&[1, 2, 3]);
    bhs[9] = 7;
    bhs[16..20].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
    bhs[20..24].copy_from_slice(&[0, 0, 0x10, 0]);
    bhs[24..28].copy_from_slice(&[0, 0, 0, 9]);
    bhs[32] = 0x28;
    let pdu = Pdu { bhs: &bhs, ahs: &[], data: &[] };
    let command: &ScsiCommand = pdu.header();
    assert_eq!(command.data_len.get(), 0x01_0203);
    assert_eq!(command.lun, [0, 7, 0, 0, 0, 0, 0, 0]);
    assert_eq!(command.expected_len.get(), 4096);
    assert_eq!(command.cdb[0], 0x28);
    assert_eq!((pdu.opcode(), pdu.itt(), pdu.cmd_sn()), (opcode::SCSI_COMMAND, 0xdead_beef, 9));
    assert!(pdu.is_immediate() && pdu.is_final());
}

#[test]
fn a_data_in_is_written_field_by_field() {
    let header = DataIn {
        opcode: DataIn::OPCODE,
        flags: FINAL | DataIn::STATUS,
        data_len: Len24::new(4096),
        itt: 1.into(),
        ttt: TAG_NONE.into(),
        stat_sn: 2.into(),
        exp_cmd_sn: 3.into(),
        max_cmd_sn: 4.into(),
        data_sn: 5.into(),
        offset: 6.into(),
        residual: 7.into(),
        ..DataIn::default()
    };
    let bytes = header.bytes();
    assert_eq!(bytes[..8], [0x25, 0x81, 0, 0, 0, 0, 0x10, 0]);
    assert_eq!(bytes[16..24], [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
    for (i, at) in (24..48).step_by(4).enumerate() {
        assert_eq!(bytes[at..at + 4], [0, 0, 0, 2 + i as u8], "word at byte {at}");
    }
}
