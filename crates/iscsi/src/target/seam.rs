//! The interface of an iSCSI portal to the array.

use std::net::SocketAddr;

use scsi::HostView;

use crate::relayed::Relayed;

/// An iSCSI initiator port: its name and the ISID (RFC 7143 4.4.3).
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

/// The credentials that a host must prove, and those of the target.
#[derive(Clone, PartialEq, Eq)]
pub struct Chap {
    /// The host's name and secret.
    pub host: Secret,
    /// The target's, if the host may request it (mutual CHAP).
    pub target: Option<Secret>,
}

/// Why the array refuses a login (RFC 7143 11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    /// 0202h: unknown initiator.
    #[error("no host has this initiator name")]
    NotAllowed,
    /// 0203h: unknown target.
    #[error("no such target")]
    NotFound,
    /// 0301h: shutting down, or the connection was closed for another one.
    #[error("service unavailable: the portal accepts no session now")]
    ServiceUnavailable,
    /// 0302h: out of resources.
    #[error("too many sessions")]
    OutOfResources,
}

/// The array as a portal sees it: who may log in, and what a session sees. Commands go to the session's
/// view, not through here. Everything runs on the portal's own thread.
pub trait Target: 'static {
    /// What a session sees.
    type View: HostView;
    /// The session of one host: its view and its I_T nexus. Dropping it ends the nexus.
    type Nexus: AsRef<Self::View> + 'static;

    /// The target names that this initiator may discover, with addresses and portal group tags.
    fn discover(&self, initiator: &str, at: SocketAddr) -> Vec<(String, Vec<(SocketAddr, u16)>)>;
    /// What the initiator must prove. `Err` if it is unknown; `Ok(None)` if it needs no CHAP. Discovery
    /// sessions have no target name.
    fn authentication(&self, initiator: &str, target: Option<&str>) -> Result<Option<Chap>, LoginRefusal>;
    /// The portal group tag of this portal.
    fn portal_group(&self) -> u16;
    /// Whether another node of the array may carry this connection to this portal. The host is then at the
    /// portal group that the connection names.
    fn admits(&self, relayed: &Relayed) -> bool;
    /// Opens the nexus of a normal session at this portal group, after authentication.
    ///
    /// # Errors
    ///
    /// No such target, the initiator lost its rights since it authenticated, or the array is stopping.
    fn open(
        &self,
        initiator: &InitiatorPort,
        target: &str,
        portal_group: u16,
    ) -> Result<Self::Nexus, LoginRefusal>;
}
