//! iSCSI (RFC 7143, error recovery level 0): PDUs, login, sessions; a target and an initiator.
//!
//! ```text
//!             pdu, text, keys, negotiation, chap, frame        pure: bytes in, verdicts out
//!                 |                           |
//!   initiator ── wire (receive, digests) ── wire ── target ── Target (the array)
//! ```
//!
//! The target serves any implementation of [`target::Target`] (the array). It handles sessions, sequence
//! numbers and data transfer, and does not interpret commands. Input of a peer never causes a panic:
//! everything that is read from the wire is checked, and everything that is stored for a peer has a limit
//! ([`target::Limits`]). `docs/iscsi.md` lists key by key and PDU by PDU what is supported and refused.
#![forbid(unsafe_code)]

mod chap;
mod chunks;
mod digest;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod initiator;
pub mod keys;
mod name;
mod negotiation;
mod outgoing;
pub mod pdu;
mod receive;
mod relayed;
mod serial;
pub mod target;
mod text;

pub use chap::ChapError;
pub use negotiation::{Digests, NegotiationError, Offer, Params};
pub use relayed::{RelayKey, Relayed};
pub use text::TextError;
