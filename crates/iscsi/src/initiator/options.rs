//! How an initiator logs in.

use std::net::SocketAddr;

use world::StreamOptions;

use crate::negotiation::{Digests, Offer};
use crate::target::Secret;

/// Everything that a login needs.
#[derive(Clone)]
pub struct Options {
    /// The portal.
    pub address: SocketAddr,
    /// This initiator's iSCSI name.
    pub initiator: String,
    /// The initiator's part of the session identifier. With the name it makes the initiator port: two sessions with the same
    /// one end each other.
    pub isid: [u8; 6],
    /// The target's name; `None` for discovery.
    pub target: Option<String>,
    /// What proves who we are, when the target asks.
    pub chap: Option<Secret>,
    /// What the target must prove (mutual CHAP); needs `chap`.
    pub target_chap: Option<Secret>,
    /// What is brought to the negotiation.
    pub offer: Offer,
    /// Requests in flight at most, whatever the target's window allows.
    pub depth_max: u16,
    /// How the connection is made.
    pub stream: StreamOptions,
}

impl Options {
    /// A normal session without authentication. The ISID is of the random format (RFC 7143 11.12.5) with this number.
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
