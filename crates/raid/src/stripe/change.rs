//! The changes of a write on the drives: new content of units, for the journal and then in place.

use block::Data;
use smallvec::SmallVec;

/// The new content of a range of one drive.
#[derive(Clone, Debug)]
pub(crate) enum New {
    /// These bytes.
    Content(Data),
    Zeros(u64),
    /// These bytes, without a copy in the journal: a unit of a row for which it has an [`Intent`].
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

/// A full stripe of an optimal group that is overwritten: the journal gets the checksums of its blocks.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) row: u64,
    /// CRC32C of every block of every unit, by position.
    pub(crate) sums: Vec<u32>,
}

/// All changes of one write; they go into one batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) pieces: SmallVec<[Piece; 8]>,
    pub(crate) intents: Vec<Intent>,
}

impl Change {
    pub(crate) fn push(&mut self, position: u32, at: u64, new: New) {
        self.pieces.push(Piece { position, at, new });
    }

    /// The drives whose content goes to the journal, as bits.
    pub(crate) fn logged_positions(&self) -> u32 {
        let logged = self.pieces.iter().filter(|p| !matches!(p.new, New::Unlogged(_)));
        logged.fold(0, |set, p| set | 1 << p.position)
    }
}
