//! Headers that targets send.

use zerocopy::big_endian::{U16, U32};

use super::{Len24, header, opcode};

header! {
    /// SCSI Response (11.4).
    ScsiResponse = opcode::SCSI_RESPONSE;
    /// Opcode.
    opcode: u8,
    /// F and the residual flags.
    flags: u8,
    /// iSCSI service response.
    response: u8,
    /// SCSI status.
    status: u8,
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the sense data with its two bytes of length.
    data_len: Len24,
    /// Reserved.
    reserved: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// SNACK tag: zero.
    snack_tag: U32,
    /// Status sequence number.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// Number of Data-In and R2T PDUs that were sent for the command.
    exp_data_sn: U32,
    /// Residual count of the read half of a bidirectional command.
    bidi_residual: U32,
    /// Residual count.
    residual: U32,
}

impl ScsiResponse {
    /// O: residual overflow (11.4.1).
    pub const OVERFLOW: u8 = 0x04;
    /// U: residual underflow (11.4.1).
    pub const UNDERFLOW: u8 = 0x02;
}

header! {
    /// Task Management Function Response (11.6).
    TaskResponse = opcode::TASK_RESPONSE;
    /// Opcode.
    opcode: u8,
    /// F.
    flags: u8,
    /// How it went.
    response: u8,
    /// Reserved.
    reserved: u8,
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the data segment: zero.
    data_len: Len24,
    /// Reserved.
    reserved_2: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// Reserved.
    reserved_3: U32,
    /// Status sequence number.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// Reserved.
    reserved_4: [u8; 12],
}

header! {
    /// SCSI Data-In (11.7).
    DataIn = opcode::DATA_IN;
    /// Opcode.
    opcode: u8,
    /// F, A, residual flags and S.
    flags: u8,
    /// Reserved.
    reserved: u8,
    /// SCSI status, when S is set.
    status: u8,
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the data.
    data_len: Len24,
    /// The LUN field, when the A bit is set.
    lun: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// Target transfer tag: none.
    ttt: U32,
    /// Status sequence number, when S is set.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// Number of this PDU within the command.
    data_sn: U32,
    /// Offset of the data in the whole transfer.
    offset: U32,
    /// Residual count, when S is set.
    residual: U32,
}

impl DataIn {
    /// S: the PDU carries the command's status (11.7.3).
    pub const STATUS: u8 = 0x01;
}

header! {
    /// Ready To Transfer (11.8).
    R2t = opcode::R2T;
    /// Opcode.
    opcode: u8,
    /// Bit 7 set.
    flags: u8,
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
    /// Target transfer tag.
    ttt: U32,
    /// The StatSN that comes next.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// Number of this R2T within the command.
    r2t_sn: U32,
    /// Where the data that is asked for begins.
    offset: U32,
    /// How much is asked for.
    desired_len: U32,
}

header! {
    /// Asynchronous Message (11.9).
    AsyncMessage = opcode::ASYNC_MESSAGE;
    /// Opcode.
    opcode: u8,
    /// Bit 7 set.
    flags: u8,
    /// Reserved.
    reserved: [u8; 2],
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the data segment.
    data_len: Len24,
    /// The LUN field.
    lun: [u8; 8],
    /// All ones.
    tag: U32,
    /// Reserved.
    reserved_2: U32,
    /// Status sequence number.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// What happened: [`super::event`].
    event: u8,
    /// Vendor code.
    vendor_code: u8,
    /// Parameter 1.
    parameter_1: U16,
    /// Parameter 2.
    parameter_2: U16,
    /// Parameter 3.
    parameter_3: U16,
    /// Reserved.
    reserved_3: U32,
}

header! {
    /// Text Response (11.11).
    TextResponse = opcode::TEXT_RESPONSE;
    /// Opcode.
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
    /// Target transfer tag, when more is to come.
    ttt: U32,
    /// Status sequence number.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// Reserved.
    reserved_2: [u8; 12],
}

header! {
    /// Login Response (11.13).
    LoginResponse = opcode::LOGIN_RESPONSE;
    /// Opcode.
    opcode: u8,
    /// T, C, current and next stage.
    flags: u8,
    /// The highest version that the target speaks.
    version_max: u8,
    /// The version in use.
    version_active: u8,
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the text.
    data_len: Len24,
    /// The initiator's part of the session identifier.
    isid: [u8; 6],
    /// The target's part.
    tsih: U16,
    /// Initiator task tag.
    itt: U32,
    /// Reserved.
    reserved: U32,
    /// Status sequence number.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// Status class.
    status_class: u8,
    /// Status detail.
    status_detail: u8,
    /// Reserved.
    reserved_2: [u8; 10],
}

header! {
    /// Logout Response (11.15).
    LogoutResponse = opcode::LOGOUT_RESPONSE;
    /// Opcode.
    opcode: u8,
    /// Bit 7 set.
    flags: u8,
    /// How it went.
    response: u8,
    /// Reserved.
    reserved: u8,
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the data segment: zero.
    data_len: Len24,
    /// Reserved.
    reserved_2: [u8; 8],
    /// Initiator task tag.
    itt: U32,
    /// Reserved.
    reserved_3: U32,
    /// Status sequence number.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// Reserved.
    reserved_4: U32,
    /// Seconds to wait before reconnecting.
    time2wait: U16,
    /// Seconds that the session's state is kept.
    time2retain: U16,
    /// Reserved.
    reserved_5: U32,
}

header! {
    /// Reject (11.17).
    Reject = opcode::REJECT;
    /// Opcode.
    opcode: u8,
    /// Bit 7 set.
    flags: u8,
    /// Why: [`super::reject`].
    reason: u8,
    /// Reserved.
    reserved: u8,
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the data segment: the header that was refused.
    data_len: Len24,
    /// Reserved.
    reserved_2: [u8; 8],
    /// All ones.
    tag: U32,
    /// Reserved.
    reserved_3: U32,
    /// Status sequence number.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// DataSN or R2TSN, for SNACK.
    data_sn: U32,
    /// Reserved.
    reserved_4: [u8; 8],
}

header! {
    /// NOP-In (11.19).
    NopIn = opcode::NOP_IN;
    /// Opcode.
    opcode: u8,
    /// Bit 7 set.
    flags: u8,
    /// Reserved.
    reserved: [u8; 2],
    /// Length of the additional header segments in words.
    ahs_words: u8,
    /// Length of the ping data.
    data_len: Len24,
    /// The LUN field.
    lun: [u8; 8],
    /// Initiator task tag of the NOP-Out which it answers.
    itt: U32,
    /// Target transfer tag, when an answer is asked for.
    ttt: U32,
    /// Status sequence number.
    stat_sn: U32,
    /// Next CmdSN expected.
    exp_cmd_sn: U32,
    /// Last CmdSN allowed.
    max_cmd_sn: U32,
    /// Reserved.
    reserved_2: [u8; 12],
}
