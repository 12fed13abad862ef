//! The seam between a transport and SCSI: the interface of a host's view.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use serde::{Deserialize, Serialize};
use world::sync::Permits;
use world::{Instant, LatencyHistogram, Stage};

use crate::arrival::Arrival;
use crate::counters::OpClass;
use crate::error::TokenFault;
use crate::limits::{HOST_COPIES_MAX, HOST_UNCOUNTED_MAX};
use crate::request::{Lun, Request, Response, TaskFunction, TaskOutcome};
use crate::sense::{Asc, Format};
use crate::trace::CommandTrace;

/// The view of one host through one nexus, for its session at a port. [`crate::View`] implements it;
/// transport tests have simpler ones.
pub trait HostView: 'static {
    /// Length of the command's data-out in bytes, so that a transport solicits no more.
    fn data_out_len(&self, lun: Option<Lun>, cdb: &[u8; 16]) -> u64;
    /// The format of sense data that hosts have selected for this LUN, for what a transport refuses itself.
    fn sense_format(&self, _lun: Option<Lun>) -> Format {
        Format::Fixed
    }
    /// Where a transport records how long commands wait at their port before they are executed; none where
    /// nobody asks.
    fn waits(&self) -> Option<&Stage> {
        None
    }
    /// The beginning of a trace, if the command is one of those that are traced: a transport asks for each
    /// command, and passes the trace with the request.
    fn sample(&self, _cdb: &[u8; 16], _arrived: Instant) -> Option<Box<CommandTrace>> {
        None
    }
    /// Ends the trace of a command, when the transport has its response.
    fn traced(&self, _trace: CommandTrace, _lun: Option<Lun>, _response: &Response) {}
    /// Executes a command; `lun` is `None` if the wire's LUN field has an unsupported format.
    fn execute(&self, lun: Option<Lun>, request: Request) -> impl Future<Output = Response>;
    /// Performs a task management function. The transport suppresses the responses of its own affected tasks.
    fn manage(&self, function: TaskFunction) -> impl Future<Output = TaskOutcome>;
    /// Ends the session. Running commands may end early; the view is dropped after them.
    fn end(&self);
}

/// A pending operation on another controller.
pub type Remote<T> = Pin<Box<dyn Future<Output = T>>>;

/// The controller that owns logical units of a view: their commands cross to it.
pub trait Owner {
    /// Executes a command on the owner.
    fn execute(&self, lun: Lun, request: Request) -> Remote<Response>;
    /// Does its part of a copy; `None` if the owner has stopped.
    fn copy(&self, request: CopyRequest) -> Remote<Option<CopyAnswer>>;
    /// Performs a task management function on the owner.
    fn manage(&self, function: TaskFunction) -> Remote<TaskOutcome>;
    /// Tells the owner that the session has ended: what has crossed is aborted.
    fn end(&self);
}

/// What a copy asks of the controller that owns one of its ends.
#[derive(Clone, Debug)]
pub enum CopyRequest {
    /// Whether the host sees a logical unit with this NAA designator there.
    Find([u8; 16]),
    /// So many bytes at a byte of a logical unit.
    Read {
        /// As [`CopyRequest::Find`] has found it.
        end: CopyEnd,
        /// In bytes, whole blocks.
        at: u64,
        /// In bytes, whole blocks.
        len: u64,
    },
    /// Whether the controller made this ROD token, and the host may use it.
    FindToken(Box<[u8; 512]>),
    /// So many bytes at a byte of the data of a token.
    ReadToken {
        /// A token that [`CopyRequest::FindToken`] has found.
        token: Box<[u8; 512]>,
        /// In bytes.
        at: u64,
        /// In bytes.
        len: u64,
    },
    /// The host needs the token no more.
    DeleteToken(Box<[u8; 512]>),
    /// Bytes for a logical unit.
    Write {
        /// As [`CopyRequest::Find`] has found it.
        end: CopyEnd,
        /// In bytes, whole blocks.
        at: u64,
        /// Whole blocks.
        data: Pieces,
        /// Of the command.
        arrival: Arrival,
    },
}

/// A logical unit of another controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyEnd {
    /// For this host.
    pub lun: Lun,
    /// Its NAA designator: another one may take the LUN while the copy runs.
    pub naa: [u8; 16],
    /// Its block length.
    pub block_bytes: u32,
    /// Its size.
    pub len_bytes: u64,
}

/// What the owner answers.
#[derive(Clone, Debug)]
pub enum CopyAnswer {
    /// The logical unit, if the host sees one there.
    End(Option<CopyEnd>),
    /// The length of the data of the token in bytes, or why it cannot be used here.
    Token(Result<u64, TokenFault>),
    /// The bytes that were read; none after a write.
    Done(Pieces),
    /// It cannot be done; the additional sense code of the reason.
    Refused(Asc),
}

/// A logical unit of another controller.
#[derive(Clone)]
pub struct Elsewhere {
    /// Its LUN for this host.
    pub lun: Lun,
    /// Which one it is ([`crate::Identity::key`]).
    pub key: u64,
    /// Its block length: the transport solicits the data of a WRITE before the command crosses.
    pub block_bytes: u32,
    /// The owner; `None` if commands must not cross again.
    pub owner: Option<Rc<dyn Owner>>,
}

/// The traffic of a port or a session.
#[derive(Default)]
pub struct Traffic {
    /// Commands executed.
    pub commands: Cell<u64>,
    /// Bytes of data-out.
    pub bytes_in: Cell<u64>,
    /// Bytes of data-in.
    pub bytes_out: Cell<u64>,
}

/// What a port served since it was opened.
#[derive(Default)]
pub struct PortTraffic {
    /// Commands and bytes.
    pub traffic: Traffic,
    /// From the arrival of a command until it is executed: its data arrives, and there is memory for it.
    pub waits: Stage,
}

/// What a host was served by a controller: at its ports, and as the owner of LUs.
pub struct HostTraffic {
    /// Commands and bytes at the ports of this controller.
    pub traffic: Traffic,
    /// Latencies of reads, writes and other commands on LUs of this controller.
    pub served: [LatencyHistogram; 3],
    /// For commands whose data no transport counts, and for copies, over all its sessions and LUs here.
    pub(crate) uncounted: Permits,
    pub(crate) copying: Permits,
}

impl Default for HostTraffic {
    fn default() -> HostTraffic {
        HostTraffic {
            traffic: Traffic::default(),
            served: Default::default(),
            uncounted: Permits::new(HOST_UNCOUNTED_MAX),
            copying: Permits::new(HOST_COPIES_MAX),
        }
    }
}

impl HostTraffic {
    pub(crate) fn record(&self, class: OpClass, time: Duration) {
        let index = match class {
            OpClass::Read => 0,
            OpClass::Write => 1,
            _ => 2,
        };
        self.served[index].record(time);
    }
}

impl Traffic {
    pub(crate) fn add(&self, bytes_in: u64, bytes_out: u64) {
        self.commands.set(self.commands.get() + 1);
        self.bytes_in.set(self.bytes_in.get() + bytes_in);
        self.bytes_out.set(self.bytes_out.get() + bytes_out);
    }
}
