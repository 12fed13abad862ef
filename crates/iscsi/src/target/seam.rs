//! What an iSCSI portal needs from the array behind it.

use std::net::SocketAddr;

use scsi::{Lun, Request, Response, TaskFunction, TaskOutcome};

/// The initiator's end of a session: an iSCSI initiator port is its name and the ISID (RFC 7143 4.4.3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InitiatorPort {
    /// The initiator's iSCSI name.
    pub name: String,
    /// The initiator's part of the session identifier.
    pub isid: [u8; 6],
}

/// A CHAP name and secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// The CHAP name.
    pub name: String,
    /// The CHAP secret.
    pub secret: String,
}

/// What a host must prove, and what the target proves in return.
#[derive(Clone, PartialEq, Eq)]
pub struct Chap {
    /// The host's name and secret.
    pub host: Secret,
    /// The target's, when the host may ask for it (mutual CHAP).
    pub target: Option<Secret>,
}

/// Why a login is refused (RFC 7143 11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    /// 0202h: the initiator is not known.
    #[error("no host has this name")]
    NotAllowed,
    /// 0203h: the target is not here.
    #[error("there is no such target")]
    NotFound,
    /// 0301h: shutting down, or the connection gave way to another one.
    #[error("the portal does not take it in now")]
    ServiceUnavailable,
    /// 0302h: out of resources.
    #[error("too many sessions")]
    OutOfResources,
}

/// The array as a portal sees it. All on the portal's own thread; a command for a LU of another controller crosses inside
/// `execute`.
pub trait Target: 'static {
    /// One host's session: what it sees, and its I_T nexus. Dropping it ends the nexus.
    type Nexus: 'static;

    /// The target names that this initiator may discover, with the addresses and portal group tags to log in at.
    fn discover(&self, initiator: &str, at: SocketAddr) -> Vec<(String, Vec<(SocketAddr, u16)>)>;
    /// What the initiator must prove. `Err` when it is not known here; `Ok(None)` when it needs no CHAP. Discovery
    /// sessions have no target name.
    fn authentication(&self, initiator: &str, target: Option<&str>) -> Result<Option<Chap>, LoginRefusal>;
    /// The portal group tag of this portal.
    fn portal_group(&self) -> u16;
    /// Opens the nexus of a normal session after authentication.
    fn open(&self, initiator: &InitiatorPort, target: &str) -> Result<Self::Nexus, LoginRefusal>;
    /// How much data-out the command asks for, in bytes (so that a transport need not solicit more).
    fn data_out_len(&self, nexus: &Self::Nexus, lun: Option<Lun>, cdb: &[u8; 16]) -> u64;
    /// Executes a command; `lun` is `None` when the wire's LUN field is none that the array could have.
    fn execute(
        &self,
        nexus: &Self::Nexus,
        lun: Option<Lun>,
        request: Request,
    ) -> impl Future<Output = Response>;
    /// Performs a task management function. The session suppresses the responses of its own tasks that are meant.
    fn manage(&self, nexus: &Self::Nexus, function: TaskFunction) -> impl Future<Output = TaskOutcome>;
    /// The session is over, and what executes for it is of no use any more: it may end early. The nexus is dropped when it has.
    fn end(&self, nexus: &Self::Nexus) {
        let _ = nexus;
    }
}
