//! What a write changes on the drives: the new content of units, as it goes to the journal and then in place.

use block::Data;
use smallvec::SmallVec;

/// What stands in a range of one drive afterwards.
#[derive(Clone, Debug)]
pub(crate) enum New {
    /// These bytes.
    Content(Data),
    /// Zeros.
    Zeros(u64),
    /// These bytes, of which the journal gets checksums only: a unit of a full row in an optimal group.
    Intent(Data),
}

impl New {
    pub(crate) fn len(&self) -> u64 {
        match self {
            New::Content(data) | New::Intent(data) => data.len() as u64,
            New::Zeros(len) => *len,
        }
    }
}

/// A change of one drive, in bytes from the start of its data.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) position: u32,
    pub(crate) at: u64,
    pub(crate) new: New,
}

/// What one write changes: goes into one batch as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) pieces: SmallVec<[Piece; 8]>,
}

impl Change {
    pub(crate) fn push(&mut self, position: u32, at: u64, new: New) {
        self.pieces.push(Piece { position, at, new });
    }

    /// Whether only checksums of any of it are journaled.
    pub(crate) fn has_intents(&self) -> bool {
        self.pieces.iter().any(|p| matches!(p.new, New::Intent(_)))
    }

    /// The drives that it touches, as bits.
    pub(crate) fn positions(&self) -> u32 {
        self.pieces.iter().fold(0, |set, p| set | 1 << p.position)
    }
}
