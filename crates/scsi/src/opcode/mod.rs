//! The one table of commands. Dispatch, data-out lengths, reserved-bit checks, reservation conflicts, REPORT
//! SUPPORTED OPERATION CODES and `docs/scsi.md` all derive from it.

mod table;

pub use table::TABLE;

use crate::cdb::Cdb;
use crate::counters::OpClass;

/// The handler of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the commands")]
pub enum Handler {
    CompareAndWrite,
    ExtendedCopy,
    GetLbaStatus,
    Inquiry,
    LogSelect,
    LogSense,
    ModeSelect,
    ModeSense,
    PersistentReserveIn,
    PersistentReserveOut,
    PopulateToken,
    PreFetch,
    PreventAllow,
    Read,
    ReadCapacity10,
    ReadCapacity16,
    ReadDefectData,
    ReceiveCopyResults,
    ReceiveCopyStatus,
    ReceiveDiagnostic,
    ReceiveRodTokenInformation,
    Release,
    ReportIdentifyingInformation,
    ReportLuns,
    ReportOpcodes,
    ReportTaskFunctions,
    ReportTargetPortGroups,
    ReportTimestamp,
    RequestSense,
    Reserve,
    Sanitize,
    SendDiagnostic,
    SetTargetPortGroups,
    StartStop,
    SynchronizeCache,
    TestUnitReady,
    Unmap,
    Verify,
    OrWrite,
    Write,
    WriteAndVerify,
    WriteAtomic,
    WriteSame,
    WriteUsingToken,
}

/// The effect of another nexus's reservation on a command (SPC-5 table of allowed commands; SPC-2 5.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Allowed under any reservation.
    Free,
    /// Allowed under every persistent reservation; conflicts with RESERVE.
    Query,
    /// Requires read access.
    Read,
    /// Requires write access.
    Write,
    /// The handler decides (the reservation commands themselves).
    Own,
}

/// The requirements of a command; each includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// None: it is executed even while a sanitize operation runs.
    Nothing,
    /// The LU is ready.
    Ready,
    /// The LU is ready and not write-protected.
    Writable,
}

/// The data-out length that a CDB requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum DataOut {
    None,
    /// A parameter list with its length in a field.
    List {
        /// The offset of the field.
        at: u8,
        /// Its width in bytes.
        width: u8,
    },
    /// A number of logical blocks in a field.
    Blocks {
        /// The offset of the field.
        at: u8,
        /// Its width in bytes.
        width: u8,
    },
    /// WRITE(6): one byte, in which 0 means 256 blocks.
    Blocks6,
    /// Twice the number of logical blocks in byte 13 (COMPARE AND WRITE).
    TwiceBlocks,
    /// One logical block, unless NDOB (bit 0 of byte 1 where `ndob`).
    OneBlock {
        /// Whether the command has an NDOB bit.
        ndob: bool,
    },
    /// VERIFY: by BYTCHK (bits 2 and 1 of byte 1) no block, all blocks, or one.
    Verified {
        /// The offset of the field.
        at: u8,
        /// Its width in bytes.
        width: u8,
    },
}

/// One command, or one service action of it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Operation code.
    pub opcode: u8,
    /// Service action, in the low five bits of byte 1.
    pub service_action: Option<u8>,
    /// The standard's name.
    pub name: &'static str,
    /// Length of the CDB in bytes.
    pub cdb_len: u8,
    /// The CDB usage data (SPC-5 6.37.3): operation code and service action literally, otherwise a mask of
    /// the bits that are used.
    pub usage: [u8; 16],
    /// Its data-out length.
    pub data_out: DataOut,
    /// Whether it returns data-in.
    pub data_in: bool,
    /// Its behaviour under reservations.
    pub access: Access,
    /// Its requirements.
    pub needs: Needs,
    /// Its counter class.
    pub class: OpClass,
    /// Nominal and recommended time-outs in seconds (0: none stated), SPC-5 6.37.4.
    pub timeouts_s: [u32; 2],
    /// Executes the command.
    pub handler: Handler,
    /// The bits that must be zero, the CDB as one big-endian number.
    pub reserved: u128,
}

/// Bits of byte 1 that hold the service action.
pub const SERVICE_ACTION_MASK: u8 = 0x1f;

impl Command {
    /// A command without data-out that every nexus may send. `usage` is the CDB usage data from byte 1 on.
    const fn new(opcode: u8, name: &'static str, handler: Handler, usage: &[u8]) -> Command {
        let mut bytes = [0u8; 16];
        bytes[0] = opcode;
        let mut i = 0;
        while i < usage.len() {
            bytes[i + 1] = usage[i];
            i += 1;
        }
        let mut command = Command {
            opcode,
            service_action: None,
            name,
            cdb_len: usage.len() as u8 + 1,
            usage: bytes,
            data_out: DataOut::None,
            data_in: false,
            access: Access::Query,
            needs: Needs::Nothing,
            class: OpClass::Other,
            timeouts_s: [0, 30],
            handler,
            reserved: 0,
        };
        command.reserved = command.reserved_bits();
        command
    }

    const fn reserved_bits(&self) -> u128 {
        let mut mask = 0u128;
        let mut i = 1;
        while i < self.cdb_len as usize {
            let mut used = self.usage[i];
            if i == 1 && self.service_action.is_some() {
                used |= SERVICE_ACTION_MASK;
            }
            mask |= (!used as u128) << (8 * (15 - i));
            i += 1;
        }
        mask
    }

    const fn action(mut self, service_action: u8) -> Command {
        self.service_action = Some(service_action);
        self.usage[1] |= service_action;
        self.reserved = self.reserved_bits();
        self
    }

    const fn gives(mut self) -> Command {
        self.data_in = true;
        self
    }

    const fn takes(mut self, data_out: DataOut) -> Command {
        self.data_out = data_out;
        self
    }

    const fn list(self, at: u8, width: u8) -> Command {
        self.takes(DataOut::List { at, width })
    }

    const fn blocks(self, at: u8, width: u8) -> Command {
        self.takes(DataOut::Blocks { at, width })
    }

    const fn access(mut self, access: Access) -> Command {
        self.access = access;
        self
    }

    const fn needs(mut self, needs: Needs) -> Command {
        self.needs = needs;
        self
    }

    const fn reads(self) -> Command {
        self.access(Access::Read).needs(Needs::Ready)
    }

    const fn writes(self) -> Command {
        self.access(Access::Write).needs(Needs::Writable)
    }

    const fn class(mut self, class: OpClass) -> Command {
        self.class = class;
        self
    }

    const fn lasts(mut self, nominal_s: u32, recommended_s: u32) -> Command {
        self.timeouts_s = [nominal_s, recommended_s];
        self
    }

    /// The access that `cdb` needs under a reservation: that of the table, but that a host may start a
    /// logical unit under any (SBC-3 table 13, SPC-2 table 3: START = 1, POWER CONDITION = 0h).
    pub fn access_of(&self, cdb: &Cdb) -> Access {
        match self.handler {
            Handler::StartStop if cdb.u8(4) & 0xf1 == 0x01 => Access::Free,
            _ => self.access,
        }
    }

    /// The nonzero reserved bits of `cdb`: byte and bit of the first.
    pub fn reserved_set(&self, cdb: &Cdb) -> Option<(u16, u8)> {
        let wrong = u128::from_be_bytes(cdb.0) & self.reserved;
        if wrong == 0 {
            return None;
        }
        let from_left = wrong.leading_zeros();
        Some(((from_left / 8) as u16, 7 - (from_left % 8) as u8))
    }

    /// How much excess data-out the command must receive in order to refuse it.
    pub fn data_out_over(&self, block_bytes: u32) -> u64 {
        match self.data_out {
            DataOut::OneBlock { .. } | DataOut::TwiceBlocks => u64::from(block_bytes),
            _ => 0,
        }
    }

    /// The data-out length that the CDB requires, in bytes.
    pub fn data_out_len(&self, cdb: &Cdb, block_bytes: u32) -> u64 {
        let block = u64::from(block_bytes);
        let field = |at: u8, width: u8| cdb.uint(usize::from(at), usize::from(width));
        match self.data_out {
            DataOut::None => 0,
            DataOut::List { at, width } => field(at, width),
            DataOut::Blocks { at, width } => field(at, width) * block,
            DataOut::Blocks6 => (if cdb.u8(4) == 0 { 256 } else { u64::from(cdb.u8(4)) }) * block,
            DataOut::TwiceBlocks => 2 * u64::from(cdb.u8(13)) * block,
            DataOut::OneBlock { ndob } if ndob && cdb.bit(1, 0x01) => 0,
            DataOut::OneBlock { .. } => block,
            DataOut::Verified { at, width } => match cdb.u8(1) >> 1 & 3 {
                1 => field(at, width) * block,
                3 if field(at, width) > 0 => block,
                _ => 0,
            },
        }
    }
}

/// The index of the first entry of each operation code.
static FIRST: [Option<u8>; 256] = {
    let mut first = [None; 256];
    let mut i = TABLE.len();
    while i > 0 {
        i -= 1;
        first[TABLE[i].opcode as usize] = Some(i as u8);
    }
    first
};

/// The entries of an operation code, one per service action.
pub fn entries(opcode: u8) -> &'static [Command] {
    let Some(first) = FIRST[usize::from(opcode)] else { return &[] };
    let from = usize::from(first);
    let len = TABLE[from..].iter().take_while(|c| c.opcode == opcode).count();
    &TABLE[from..from + len]
}

/// The command of a CDB.
pub fn find(cdb: &Cdb) -> Option<&'static Command> {
    let first = FIRST[usize::from(cdb.opcode())]?;
    let mut at = usize::from(first);
    while let Some(command) = TABLE.get(at).filter(|c| c.opcode == cdb.opcode()) {
        match command.service_action {
            Some(action) if action != cdb.u8(1) & SERVICE_ACTION_MASK => at += 1,
            _ => return Some(command),
        }
    }
    None
}
