//! The values that cross between a transport and a logical unit; they can be sent to another thread.

use std::fmt;

use block::Pieces;
use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::trace::CommandTrace;

/// A logical unit number as hosts use it: 0 to 255 single-level (SAM-5 4.7.5), up to 16383 with flat
/// addressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lun(pub u16);

/// SAM-5 8.7: task attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskAttribute {
    /// May be reordered.
    #[default]
    Simple,
    /// After all older and before all younger commands.
    Ordered,
    /// Before all waiting commands.
    HeadOfQueue,
    /// Auto contingent allegiance.
    Aca,
}

/// A command with its complete data-out.
#[derive(Clone, Debug)]
pub struct Request {
    /// The command descriptor block, zero-padded.
    pub cdb: [u8; 16],
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// The data from the host; may be shorter or longer than the CDB requires.
    pub data_out: Pieces,
    /// The length of data-out that the host has announced: of what the CDB requires, less than this must not
    /// have come.
    pub data_out_max: u32,
    /// The length of data-in that the host can accept: a READ reads no more, in whole blocks.
    pub data_in_max: u32,
    /// The nexus's tag of the command, for ABORT TASK (iSCSI: the initiator task tag).
    pub tag: u64,
    /// When the host's command was there, not yet its data.
    pub arrival: Arrival,
    /// What is recorded of the command, if it is traced.
    pub trace: Option<Box<CommandTrace>>,
}

impl Request {
    /// A command that arrives now, with all of its data; its attribute is SIMPLE, its tag 0.
    pub fn new(cdb: [u8; 16], data_out: Pieces, data_in_max: u32) -> Request {
        Request {
            cdb,
            attribute: TaskAttribute::Simple,
            data_out_max: data_out.len() as u32,
            data_out,
            data_in_max,
            tag: 0,
            arrival: Arrival::now(),
            trace: None,
        }
    }
}

/// SAM-5 5.3: status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Status {
    /// 00h.
    Good = 0x00,
    /// 02h; sense data says why.
    CheckCondition = 0x02,
    /// 08h.
    Busy = 0x08,
    /// 18h.
    ReservationConflict = 0x18,
    /// 28h.
    TaskSetFull = 0x28,
    /// 40h.
    TaskAborted = 0x40,
}

/// As SAM-5 5.3.1 writes it.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Good => "GOOD",
            Status::CheckCondition => "CHECK CONDITION",
            Status::Busy => "BUSY",
            Status::ReservationConflict => "RESERVATION CONFLICT",
            Status::TaskSetFull => "TASK SET FULL",
            Status::TaskAborted => "TASK ABORTED",
        })
    }
}

/// The response to a command.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Response {
    pub status: Status,
    /// Sense data in fixed or descriptor format, empty unless `CheckCondition`.
    pub sense: Vec<u8>,
    /// Data for the host: it may be longer than `data_in_max` (the transport truncates it).
    pub data_in: Pieces,
    /// The data-in length of the command (for the residual count): over that of `data_in` for a READ that
    /// the host cannot accept completely.
    pub data_in_wanted: u64,
    /// The data-out length that the CDB requires (for the residual count).
    pub data_out_wanted: u64,
    /// The task was aborted by another nexus: the transport sends no response (TAS = 0).
    pub aborted: bool,
    /// What was recorded of the command, if it is traced.
    pub trace: Option<Box<CommandTrace>>,
}

impl Response {
    /// A command that succeeded: its data, and the data-out length that its CDB requires.
    pub fn good(data_in: Pieces, data_out_wanted: u64) -> Response {
        Response {
            status: Status::Good,
            sense: Vec::new(),
            data_in_wanted: data_in.len() as u64,
            data_in,
            data_out_wanted,
            aborted: false,
            trace: None,
        }
    }

    /// A command that did not, without data.
    pub fn failed(status: Status, sense: Vec<u8>, data_out_wanted: u64) -> Response {
        Response { status, sense, ..Response::good(Pieces::new(), data_out_wanted) }
    }
}

/// SAM-5 clause 7: task management functions that reach a logical unit or the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskFunction {
    /// The command of this nexus on the LU with this tag.
    AbortTask(Lun, u64),
    /// All tasks of this nexus on the LU.
    AbortTaskSet(Lun),
    /// All tasks of all nexuses on the LU.
    ClearTaskSet(Lun),
    /// Reset one LU.
    LunReset(Lun),
    /// Reset all LUs that the host sees.
    TargetReset,
}

impl TaskFunction {
    /// The LUN that it is for; none for all that the host sees.
    pub(crate) fn lun(self) -> Option<Lun> {
        match self {
            TaskFunction::AbortTask(lun, _)
            | TaskFunction::AbortTaskSet(lun)
            | TaskFunction::ClearTaskSet(lun)
            | TaskFunction::LunReset(lun) => Some(lun),
            TaskFunction::TargetReset => None,
        }
    }
}

/// SAM-5 7.1: how a task management function ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskOutcome {
    /// Done.
    Complete,
    /// No such LU for this host.
    NoSuchLun,
}
