//! Ports, hosts and sessions.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Port {
    /// Where it listens, with the port number that the system chose.
    #[schema(value_type = String)]
    pub listen: SocketAddr,
    /// Portal group tag.
    pub portal_group: u16,
    /// The controller that serves it.
    pub controller: usize,
    /// Sessions now.
    pub sessions: usize,
    /// Commands executed.
    pub commands: u64,
    /// Bytes from hosts.
    pub bytes_in: u64,
    /// Bytes to hosts.
    pub bytes_out: u64,
}

/// A host.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// As declared.
    pub name: String,
    /// iSCSI name.
    pub initiator: String,
    /// `none`, `chap` or `mutual`.
    pub authentication: String,
    /// What it sees.
    pub luns: Vec<HostLun>,
}

/// What a host sees under a number.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HostLun {
    /// The number by which the host addresses it.
    pub lun: u16,
    /// A volume, a snapshot or an image.
    pub volume: String,
}

/// A session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The declared host that logged in.
    pub host: String,
    /// iSCSI name.
    pub initiator: String,
    /// Initiator session identifier, 12 hexadecimal digits (RFC 7143, 11.12.5).
    pub isid: String,
    /// Portal group tag of the portal that the host has connected to, which may be another node's.
    pub portal_group: u16,
    /// Executed since the login.
    pub commands: u64,
    /// Bytes both ways.
    pub bytes: u64,
}
