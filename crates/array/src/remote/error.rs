//! Why a connection to another node's controllers ends.

use super::limits::{FRAME_MAX, PROTOCOL};

/// What the other side sent, and this side cannot accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Longer than a frame may be.
    #[error("the other node sent a frame of {len} bytes: at most {FRAME_MAX} are allowed")]
    TooLong {
        /// Without its length field.
        len: usize,
    },
    /// Not a frame of this protocol.
    #[error("the other node sent an invalid frame: {cause}")]
    Malformed {
        /// What is wrong with it.
        cause: String,
    },
    /// Another version of the protocol.
    #[error(
        "the other node has version {theirs} of the protocol between nodes, this one has {PROTOCOL}: run the same version of masu on both"
    )]
    Protocol {
        /// The version there.
        theirs: u32,
    },
    /// A message for a controller that is not here.
    #[error("the other node sent a message for controller {0}, which is not at this node")]
    NoController(usize),
    /// A valid message that must not come now, or from that side.
    #[error("the other node sent {what}")]
    Unexpected {
        /// What it sent.
        what: &'static str,
    },
}

impl RemoteError {
    pub(super) fn malformed(cause: impl ToString) -> RemoteError {
        RemoteError::Malformed { cause: cause.to_string() }
    }
}
