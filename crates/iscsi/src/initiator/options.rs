//! Options of an initiator's login.

use std::net::SocketAddr;

use world::StreamOptions;

use crate::negotiation::{Digests, Offer};
use crate::target::Secret;

/// Parameters of a login.
#[derive(Clone)]
pub struct Options {
    /// The portal.
    pub address: SocketAddr,
    /// This initiator's iSCSI name.
    pub initiator: String,
    /// The initiator's part of the session identifier. Together with the name it identifies the initiator
    /// port: a new session with the same port ends the old one.
    pub isid: [u8; 6],
    /// The target's name; `None` for discovery.
    pub target: Option<String>,
    /// CHAP name and secret of the initiator, if the target requires them.
    pub chap: Option<Secret>,
    /// CHAP name and secret of the target (mutual CHAP); requires `chap`.
    pub target_chap: Option<Secret>,
    /// Offered operational parameters.
    pub offer: Offer,
    /// Limit of requests in flight, independent of the target's window.
    pub depth_max: u16,
    /// Options of the TCP connection.
    pub stream: StreamOptions,
}

impl Options {
    /// A normal session without authentication. The ISID has the random format (RFC 7143 11.12.5) with this
    /// number.
    pub fn new(address: SocketAddr, initiator: &str, target: &str, port: u32) -> Options {
        let [_, a, b, c] = port.to_be_bytes();
        Options {
            address,
            initiator: initiator.into(),
            isid: [0x80, a, b, c, 0, 0],
            target: Some(target.into()),
            chap: None,
            target_chap: None,
            offer: Offer {
                header_digest: Digests::Never,
                data_digest: Digests::Never,
                initial_r2t: false,
                immediate_data: true,
                recv_segment_len_max: 256 << 10,
                max_burst_len: 1 << 20,
                first_burst_len: 256 << 10,
                max_outstanding_r2t: 8,
                time2wait_s: 2,
                time2retain_s: 0,
            },
            depth_max: 256,
            stream: StreamOptions::default(),
        }
    }
}
