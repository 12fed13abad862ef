//! Headers that initiators send.

use zerocopy::big_endian::{U16, U32};

use super::{Len24, header, opcode};

header! {
    /// SCSI Command (11.3).
    ScsiCommand = opcode::SCSI_COMMAND;
    /// Opcode and immediate bit.
    opcode: u8,
    /// F, R, W and the task attribute.
    flags: u8,
    /// Reserved.
    reserved: [u8; 2],
    /// Length of the additional header segments in words of four bytes.
    ahs_words: u8,
    /// Length of the immediate data.
    data_len: Len24,
    /// The LUN field (SAM-5 4.7).
    lun: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// Expected data transfer length.
    expected_len: U32,
    /// Command sequence number.
    cmd_sn: U32,
    /// Expected StatSN.
    exp_stat_sn: U32,
    /// The command descriptor block, or its first 16 bytes.
    cdb: [u8; 16],
}

impl ScsiCommand {
    /// R: the command reads.
    pub const READ: u8 = 0x40;
    /// W: the command writes.
    pub const WRITE: u8 = 0x20;
    /// The task attribute's bits (11.3.1).
    pub const ATTRIBUTE: u8 = 0x07;
}

header! {
    /// Task Management Function Request (11.5).
    TaskRequest = opcode::TASK_REQUEST;
    /// Opcode and immediate bit.
    opcode: u8,
    /// The function, with bit 7 set.
    function: u8,
    /// Reserved.
    reserved: [u8; 2],
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the data segment: zero.
    data_len: Len24,
    /// The LUN field.
    lun: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// Tag of the task that is meant.
    referenced_task: U32,
    /// Command sequence number.
    cmd_sn: U32,
    /// Expected StatSN.
    exp_stat_sn: U32,
    /// CmdSN of the task that is meant.
    ref_cmd_sn: U32,
    /// Expected DataSN, for TASK REASSIGN.
    exp_data_sn: U32,
    /// Reserved.
    reserved_2: [u8; 8],
}

header! {
    /// SCSI Data-Out (11.7).
    DataOut = opcode::DATA_OUT;
    /// Opcode.
    opcode: u8,
    /// F.
    flags: u8,
    /// Reserved.
    reserved: [u8; 2],
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the data.
    data_len: Len24,
    /// The LUN field.
    lun: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// Target transfer tag; [`super::TAG_NONE`] for unsolicited data.
    ttt: U32,
    /// Reserved.
    reserved_2: U32,
    /// Expected StatSN.
    exp_stat_sn: U32,
    /// Reserved.
    reserved_3: U32,
    /// Number of this PDU within its sequence.
    data_sn: U32,
    /// Offset of the data in the whole transfer.
    offset: U32,
    /// Reserved.
    reserved_4: U32,
}

header! {
    /// Text Request (11.10).
    TextRequest = opcode::TEXT_REQUEST;
    /// Opcode and immediate bit.
    opcode: u8,
    /// F and C.
    flags: u8,
    /// Reserved.
    reserved: [u8; 2],
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the text.
    data_len: Len24,
    /// The LUN field.
    lun: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// Target transfer tag of a continued exchange.
    ttt: U32,
    /// Command sequence number.
    cmd_sn: U32,
    /// Expected StatSN.
    exp_stat_sn: U32,
    /// Reserved.
    reserved_2: [u8; 16],
}

header! {
    /// Login Request (11.12).
    LoginRequest = opcode::LOGIN_REQUEST;
    /// Opcode, immediate.
    opcode: u8,
    /// T, C, current and next stage.
    flags: u8,
    /// The highest version that the initiator speaks.
    version_max: u8,
    /// The lowest.
    version_min: u8,
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the text.
    data_len: Len24,
    /// The initiator's part of the session identifier.
    isid: [u8; 6],
    /// The target's part: zero for a new session.
    tsih: U16,
    /// Initiator task tag.
    itt: U32,
    /// Connection identifier.
    cid: U16,
    /// Reserved.
    reserved: U16,
    /// Command sequence number.
    cmd_sn: U32,
    /// Expected StatSN.
    exp_stat_sn: U32,
    /// Reserved.
    reserved_2: [u8; 16],
}

header! {
    /// Logout Request (11.14).
    LogoutRequest = opcode::LOGOUT_REQUEST;
    /// Opcode and immediate bit.
    opcode: u8,
    /// The reason, with bit 7 set.
    reason: u8,
    /// Reserved.
    reserved: [u8; 2],
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the data segment: zero.
    data_len: Len24,
    /// Reserved.
    reserved_2: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// The connection to be closed.
    cid: U16,
    /// Reserved.
    reserved_3: U16,
    /// Command sequence number.
    cmd_sn: U32,
    /// Expected StatSN.
    exp_stat_sn: U32,
    /// Reserved.
    reserved_4: [u8; 16],
}

header! {
    /// SNACK Request (11.16).
    Snack = opcode::SNACK;
    /// Opcode.
    opcode: u8,
    /// The type, with bit 7 set.
    kind: u8,
    /// Reserved.
    reserved: [u8; 2],
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the data segment: zero.
    data_len: Len24,
    /// The LUN field.
    lun: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// Target transfer tag or SNACK tag.
    ttt: U32,
    /// Reserved.
    reserved_2: U32,
    /// Expected StatSN.
    exp_stat_sn: U32,
    /// Reserved.
    reserved_3: [u8; 8],
    /// The first number that is missing.
    beg_run: U32,
    /// How many are missing.
    run_len: U32,
}

header! {
    /// NOP-Out (11.18).
    NopOut = opcode::NOP_OUT;
    /// Opcode and immediate bit.
    opcode: u8,
    /// F.
    flags: u8,
    /// Reserved.
    reserved: [u8; 2],
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the ping data.
    data_len: Len24,
    /// The LUN field.
    lun: [u8; 8],
    /// Initiator task tag; [`super::TAG_NONE`] when no answer is asked for.
    itt: U32,
    /// Target transfer tag: that of the NOP-In which it answers.
    ttt: U32,
    /// Command sequence number.
    cmd_sn: U32,
    /// Expected StatSN.
    exp_stat_sn: U32,
    /// Reserved.
    reserved_2: [u8; 16],
}
