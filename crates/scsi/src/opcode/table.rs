//! The commands, by operation code and service action. Sources: SPC-5 table of operation codes, SBC-4 clause
//! 5.

use super::{Access, Command, DataOut, Handler as H, Needs};
use crate::counters::OpClass;

const fn cmd(opcode: u8, name: &'static str, handler: H, usage: &[u8]) -> Command {
    Command::new(opcode, name, handler, usage)
}

/// Byte 1 of a read or write: DPO and FUA; RDPROTECT and WRPROTECT are not supported.
const DPO_FUA: u8 = 0x18;
/// The GROUP NUMBER field; accepted and ignored.
const GROUP: u8 = 0x3f;
/// VERIFY: DPO and BYTCHK; FUA is not a bit of it.
const DPO_BYTCHK: u8 = 0x16;
/// WRITE SAME(10): UNMAP. ANCHOR is refused: there are no anchored blocks (ANC_SUP = 0).
const UNMAP: u8 = 0x08;
/// Time-outs of the commands that may touch a whole LU: nominal and recommended, in seconds.
const LONG_S: [u32; 2] = [1, 300];
/// Time-outs of SANITIZE.
const SANITIZE_S: [u32; 2] = [60, 86_400];

/// Every command of the disk, with the entries of one operation code together.
pub static TABLE: &[Command] = &[
    cmd(0x00, "TEST UNIT READY", H::TestUnitReady, &[0, 0, 0, 0, 0]).needs(Needs::Ready),
    cmd(0x03, "REQUEST SENSE", H::RequestSense, &[0x01, 0, 0, 0xff, 0]).gives().access(Access::Free),
    cmd(0x08, "READ(6)", H::Read, &[0x1f, 0xff, 0xff, 0xff, 0]).gives().reads().class(OpClass::Read),
    cmd(0x0a, "WRITE(6)", H::Write, &[0x1f, 0xff, 0xff, 0xff, 0])
        .takes(DataOut::Blocks6)
        .writes()
        .class(OpClass::Write),
    cmd(0x12, "INQUIRY", H::Inquiry, &[0x01, 0xff, 0xff, 0xff, 0]).gives().access(Access::Free),
    cmd(0x15, "MODE SELECT(6)", H::ModeSelect, &[0x11, 0, 0, 0xff, 0])
        .list(4, 1)
        .access(Access::Write)
        .needs(Needs::Ready),
    cmd(0x16, "RESERVE(6)", H::Reserve, &[0, 0, 0, 0, 0]).access(Access::Own),
    cmd(0x17, "RELEASE(6)", H::Release, &[0, 0, 0, 0, 0]).access(Access::Own),
    cmd(0x1a, "MODE SENSE(6)", H::ModeSense, &[0x08, 0xff, 0xff, 0xff, 0]).gives().access(Access::Write),
    cmd(0x1b, "START STOP UNIT", H::StartStop, &[0x01, 0, 0x0f, 0xf7, 0])
        .access(Access::Write)
        .needs(Needs::Ready),
    cmd(0x1c, "RECEIVE DIAGNOSTIC RESULTS", H::ReceiveDiagnostic, &[0x01, 0xff, 0xff, 0xff, 0])
        .gives()
        .access(Access::Write),
    cmd(0x1d, "SEND DIAGNOSTIC", H::SendDiagnostic, &[0xf7, 0, 0xff, 0xff, 0])
        .list(3, 2)
        .access(Access::Write)
        .needs(Needs::Ready),
    cmd(0x1e, "PREVENT ALLOW MEDIUM REMOVAL", H::PreventAllow, &[0, 0, 0, 0x03, 0]).needs(Needs::Ready),
    cmd(0x25, "READ CAPACITY(10)", H::ReadCapacity10, &[0, 0, 0, 0, 0, 0, 0, 0, 0]).gives(),
    cmd(0x28, "READ(10)", H::Read, &[DPO_FUA, 0xff, 0xff, 0xff, 0xff, GROUP, 0xff, 0xff, 0])
        .gives()
        .reads()
        .class(OpClass::Read),
    cmd(0x2a, "WRITE(10)", H::Write, &[DPO_FUA, 0xff, 0xff, 0xff, 0xff, GROUP, 0xff, 0xff, 0])
        .blocks(7, 2)
        .writes()
        .class(OpClass::Write),
    cmd(
        0x2e,
        "WRITE AND VERIFY(10)",
        H::WriteAndVerify,
        &[DPO_BYTCHK, 0xff, 0xff, 0xff, 0xff, GROUP, 0xff, 0xff, 0],
    )
    .blocks(7, 2)
    .writes()
    .class(OpClass::Write),
    cmd(0x2f, "VERIFY(10)", H::Verify, &[DPO_BYTCHK, 0xff, 0xff, 0xff, 0xff, GROUP, 0xff, 0xff, 0])
        .takes(DataOut::Verified { at: 7, width: 2 })
        .reads(),
    cmd(0x34, "PRE-FETCH(10)", H::PreFetch, &[0x02, 0xff, 0xff, 0xff, 0xff, GROUP, 0xff, 0xff, 0]).reads(),
    cmd(
        0x35,
        "SYNCHRONIZE CACHE(10)",
        H::SynchronizeCache,
        &[0x02, 0xff, 0xff, 0xff, 0xff, GROUP, 0xff, 0xff, 0],
    )
    .access(Access::Write)
    .needs(Needs::Ready),
    cmd(0x37, "READ DEFECT DATA(10)", H::ReadDefectData, &[0, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0])
        .gives()
        .reads(),
    cmd(0x41, "WRITE SAME(10)", H::WriteSame, &[UNMAP, 0xff, 0xff, 0xff, 0xff, GROUP, 0xff, 0xff, 0])
        .takes(DataOut::OneBlock { ndob: false })
        .writes()
        .class(OpClass::Zero)
        .lasts(LONG_S[0], LONG_S[1]),
    cmd(0x42, "UNMAP", H::Unmap, &[0, 0, 0, 0, 0, GROUP, 0xff, 0xff, 0])
        .list(7, 2)
        .writes()
        .class(OpClass::Unmap)
        .lasts(LONG_S[0], LONG_S[1]),
    sanitize(0x01, "SANITIZE/OVERWRITE"),
    sanitize(0x02, "SANITIZE/BLOCK ERASE"),
    sanitize(0x1f, "SANITIZE/EXIT FAILURE MODE"),
    cmd(0x4c, "LOG SELECT", H::LogSelect, &[0x03, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0])
        .list(7, 2)
        .access(Access::Write)
        .needs(Needs::Ready),
    cmd(0x4d, "LOG SENSE", H::LogSense, &[0, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0]).gives(),
    cmd(0x55, "MODE SELECT(10)", H::ModeSelect, &[0x11, 0, 0, 0, 0, 0, 0xff, 0xff, 0])
        .list(7, 2)
        .access(Access::Write)
        .needs(Needs::Ready),
    cmd(0x56, "RESERVE(10)", H::Reserve, &[0, 0, 0, 0, 0, 0, 0, 0, 0]).access(Access::Own),
    cmd(0x57, "RELEASE(10)", H::Release, &[0, 0, 0, 0, 0, 0, 0, 0, 0]).access(Access::Own),
    cmd(0x5a, "MODE SENSE(10)", H::ModeSense, &[0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0])
        .gives()
        .access(Access::Write),
    reserve_in(0x00, "PERSISTENT RESERVE IN/READ KEYS"),
    reserve_in(0x01, "PERSISTENT RESERVE IN/READ RESERVATION"),
    reserve_in(0x02, "PERSISTENT RESERVE IN/REPORT CAPABILITIES"),
    reserve_in(0x03, "PERSISTENT RESERVE IN/READ FULL STATUS"),
    reserve_out(0x00, "PERSISTENT RESERVE OUT/REGISTER"),
    reserve_out(0x01, "PERSISTENT RESERVE OUT/RESERVE"),
    reserve_out(0x02, "PERSISTENT RESERVE OUT/RELEASE"),
    reserve_out(0x03, "PERSISTENT RESERVE OUT/CLEAR"),
    reserve_out(0x04, "PERSISTENT RESERVE OUT/PREEMPT"),
    reserve_out(0x05, "PERSISTENT RESERVE OUT/PREEMPT AND ABORT"),
    reserve_out(0x06, "PERSISTENT RESERVE OUT/REGISTER AND IGNORE EXISTING KEY"),
    reserve_out(0x07, "PERSISTENT RESERVE OUT/REGISTER AND MOVE"),
    // Third-party copies check the reservations of every LU that they access, so their handlers decide.
    extended_copy(0x00, "EXTENDED COPY(LID1)"),
    extended_copy(0x01, "EXTENDED COPY(LID4)"),
    cmd(
        0x83,
        "POPULATE TOKEN",
        H::PopulateToken,
        &[0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, GROUP, 0],
    )
    .action(0x10)
    .list(10, 4)
    .reads()
    .class(OpClass::Copy)
    .lasts(LONG_S[0], LONG_S[1]),
    cmd(
        0x83,
        "WRITE USING TOKEN",
        H::WriteUsingToken,
        &[0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, GROUP, 0],
    )
    .action(0x11)
    .list(10, 4)
    .writes()
    .class(OpClass::Copy)
    .lasts(LONG_S[0], LONG_S[1]),
    receive_copy(0x00, "RECEIVE COPY RESULTS/COPY STATUS(LID1)", H::ReceiveCopyResults, 0xff),
    receive_copy(0x03, "RECEIVE COPY RESULTS/OPERATING PARAMETERS", H::ReceiveCopyResults, 0),
    receive_copy(0x04, "RECEIVE COPY RESULTS/FAILED SEGMENT DETAILS(LID1)", H::ReceiveCopyResults, 0xff),
    receive_lid4(0x05, "RECEIVE COPY STATUS(LID4)", H::ReceiveCopyStatus),
    receive_lid4(0x07, "RECEIVE ROD TOKEN INFORMATION", H::ReceiveRodTokenInformation),
    cmd(0x88, "READ(16)", H::Read, &sixteen(DPO_FUA)).gives().reads().class(OpClass::Read),
    cmd(
        0x89,
        "COMPARE AND WRITE",
        H::CompareAndWrite,
        &[DPO_FUA, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, GROUP, 0],
    )
    .takes(DataOut::TwiceBlocks)
    .writes()
    .class(OpClass::Compare),
    cmd(0x8a, "WRITE(16)", H::Write, &sixteen(DPO_FUA)).blocks(10, 4).writes().class(OpClass::Write),
    cmd(0x8b, "ORWRITE(16)", H::OrWrite, &sixteen(DPO_FUA)).blocks(10, 4).writes().class(OpClass::Write),
    cmd(0x8e, "WRITE AND VERIFY(16)", H::WriteAndVerify, &sixteen(DPO_BYTCHK))
        .blocks(10, 4)
        .writes()
        .class(OpClass::Write),
    cmd(0x8f, "VERIFY(16)", H::Verify, &sixteen(DPO_BYTCHK))
        .takes(DataOut::Verified { at: 10, width: 4 })
        .reads(),
    cmd(0x90, "PRE-FETCH(16)", H::PreFetch, &sixteen(0x02)).reads(),
    cmd(0x91, "SYNCHRONIZE CACHE(16)", H::SynchronizeCache, &sixteen(0x02))
        .access(Access::Write)
        .needs(Needs::Ready),
    cmd(0x93, "WRITE SAME(16)", H::WriteSame, &sixteen(UNMAP | 0x01))
        .takes(DataOut::OneBlock { ndob: true })
        .writes()
        .class(OpClass::Zero)
        .lasts(LONG_S[0], LONG_S[1]),
    cmd(
        0x9c,
        "WRITE ATOMIC(16)",
        H::WriteAtomic,
        &[DPO_FUA, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, GROUP, 0],
    )
    .blocks(12, 2)
    .writes()
    .class(OpClass::Write),
    cmd(
        0x9e,
        "READ CAPACITY(16)",
        H::ReadCapacity16,
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
    )
    .action(0x10)
    .gives(),
    cmd(
        0x9e,
        "GET LBA STATUS",
        H::GetLbaStatus,
        &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
    )
    .action(0x12)
    .gives()
    .reads(),
    cmd(0xa0, "REPORT LUNS", H::ReportLuns, &[0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0])
        .gives()
        .access(Access::Free),
    cmd(
        0xa3,
        "REPORT IDENTIFYING INFORMATION",
        H::ReportIdentifyingInformation,
        &[0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xfe, 0],
    )
    .action(0x05)
    .gives(),
    cmd(
        0xa3,
        "REPORT TARGET PORT GROUPS",
        H::ReportTargetPortGroups,
        &[0xe0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
    )
    .action(0x0a)
    .gives(),
    cmd(
        0xa3,
        "REPORT SUPPORTED OPERATION CODES",
        H::ReportOpcodes,
        &[0, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
    )
    .action(0x0c)
    .gives(),
    cmd(
        0xa3,
        "REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS",
        H::ReportTaskFunctions,
        &[0, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
    )
    .action(0x0d)
    .gives(),
    cmd(0xa3, "REPORT TIMESTAMP", H::ReportTimestamp, &[0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0])
        .action(0x0f)
        .gives(),
    cmd(
        0xa4,
        "SET TARGET PORT GROUPS",
        H::SetTargetPortGroups,
        &[0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
    )
    .action(0x0a)
    .list(6, 4)
    .access(Access::Write),
    cmd(0xa8, "READ(12)", H::Read, &twelve(DPO_FUA)).gives().reads().class(OpClass::Read),
    cmd(0xaa, "WRITE(12)", H::Write, &twelve(DPO_FUA)).blocks(6, 4).writes().class(OpClass::Write),
    cmd(0xae, "WRITE AND VERIFY(12)", H::WriteAndVerify, &twelve(DPO_BYTCHK))
        .blocks(6, 4)
        .writes()
        .class(OpClass::Write),
    cmd(0xaf, "VERIFY(12)", H::Verify, &twelve(DPO_BYTCHK))
        .takes(DataOut::Verified { at: 6, width: 4 })
        .reads(),
    cmd(
        0xb7,
        "READ DEFECT DATA(12)",
        H::ReadDefectData,
        &[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
    )
    .gives()
    .reads(),
];

/// Byte 1, eight bytes of LBA, four of length, group number, control.
const fn sixteen(byte1: u8) -> [u8; 15] {
    [byte1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, GROUP, 0]
}

/// Byte 1, four bytes of LBA, four of length, group number, control.
const fn twelve(byte1: u8) -> [u8; 11] {
    [byte1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, GROUP, 0]
}

const fn sanitize(action: u8, name: &'static str) -> Command {
    // IMMED and AUSE, and the parameter list length.
    cmd(0x48, name, H::Sanitize, &[0xa0, 0, 0, 0, 0, 0, 0xff, 0xff, 0])
        .action(action)
        .list(7, 2)
        .writes()
        .lasts(SANITIZE_S[0], SANITIZE_S[1])
}

const fn reserve_in(action: u8, name: &'static str) -> Command {
    cmd(0x5e, name, H::PersistentReserveIn, &[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0]).action(action).gives()
}

const fn reserve_out(action: u8, name: &'static str) -> Command {
    cmd(0x5f, name, H::PersistentReserveOut, &[0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0])
        .action(action)
        .list(5, 4)
        .access(Access::Own)
}

const fn receive_copy(action: u8, name: &'static str, handler: H, list_id: u8) -> Command {
    cmd(0x84, name, handler, &[0, list_id, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0])
        .action(action)
        .gives()
}

const fn receive_lid4(action: u8, name: &'static str, handler: H) -> Command {
    cmd(0x84, name, handler, &[0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0])
        .action(action)
        .gives()
}

const fn extended_copy(action: u8, name: &'static str) -> Command {
    cmd(0x83, name, H::ExtendedCopy, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0])
        .action(action)
        .list(10, 4)
        .access(Access::Write)
        .needs(Needs::Ready)
        .class(OpClass::Copy)
        .lasts(LONG_S[0], LONG_S[1])
}
