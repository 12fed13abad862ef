//! What a port protocol asks of a host's view: the seam between a transport and SCSI.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

use crate::request::{Lun, Request, Response, TaskFunction, TaskOutcome};

/// What one host sees through one nexus, as its session at a port uses it. [`crate::View`] is it; tests of transports have simpler ones.
pub trait HostView: 'static {
    /// Length of the command's data-out in bytes, so that a transport solicits no more.
    fn data_out_len(&self, lun: Option<Lun>, cdb: &[u8; 16]) -> u64;
    /// Executes a command; `lun` is `None` if the wire's LUN field has an unsupported format.
    fn execute(&self, lun: Option<Lun>, request: Request) -> impl Future<Output = Response>;
    /// Performs a task management function. The transport suppresses the responses of its own affected tasks.
    fn manage(&self, function: TaskFunction) -> impl Future<Output = TaskOutcome>;
    /// The session has ended, and its running commands may end early. The view is dropped when they have.
    fn end(&self);
}

/// An operation of another controller.
pub type Remote<T> = Pin<Box<dyn Future<Output = T>>>;

/// The controller that serves logical units which a view does not: their commands cross to it.
pub trait Owner {
    /// Executes a command there.
    fn execute(&self, lun: Lun, request: Request) -> Remote<Response>;
    /// Performs a task management function there.
    fn manage(&self, function: TaskFunction) -> Remote<TaskOutcome>;
}

/// A logical unit that another controller serves.
#[derive(Clone)]
pub struct Elsewhere {
    /// Its number for this host.
    pub lun: Lun,
    /// Its block length: a host is asked for the data of a WRITE before the command crosses.
    pub block_bytes: u32,
    /// Who executes its commands; `None` where they must not cross again.
    pub owner: Option<Rc<dyn Owner>>,
}

/// What went through a port, or a session.
#[derive(Default)]
pub struct Traffic {
    /// Commands executed.
    pub commands: Cell<u64>,
    /// Bytes of data-out.
    pub bytes_in: Cell<u64>,
    /// Bytes of data-in.
    pub bytes_out: Cell<u64>,
}

impl Traffic {
    pub(crate) fn add(&self, bytes_in: u64, bytes_out: u64) {
        self.commands.set(self.commands.get() + 1);
        self.bytes_in.set(self.bytes_in.get() + bytes_in);
        self.bytes_out.set(self.bytes_out.get() + bytes_out);
    }
}
