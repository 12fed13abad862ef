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
    /// These bytes, which the journal does not get: a unit of a row of which it has an [`Intent`].
    Unlogged(Data),
}

impl New {
    pub(crate) fn len(&self) -> u64 {
        match self {
            New::Content(data) | New::Unlogged(data) => data.len() as u64,
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

/// A full row of an optimal group that is written over: the journal gets the checksums of its blocks.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) row: u64,
    /// CRC32C of every block of every unit, in the order of the positions.
    pub(crate) sums: Vec<u32>,
}

/// What one write changes: goes into one batch as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) pieces: SmallVec<[Piece; 8]>,
    pub(crate) intents: Vec<Intent>,
}

impl Change {
    pub(crate) fn push(&mut self, position: u32, at: u64, new: New) {
        self.pieces.push(Piece { position, at, new });
    }

    /// The drives of which the journal gets content, as bits.
    pub(crate) fn logged_positions(&self) -> u32 {
        let logged = self.pieces.iter().filter(|p| !matches!(p.new, New::Unlogged(_)));
        logged.fold(0, |set, p| set | 1 << p.position)
    }
}
