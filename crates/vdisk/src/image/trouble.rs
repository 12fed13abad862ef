//! Failed writes of an open image: what makes it read-only, and what waits for space.

use std::cell::RefCell;
use std::ops::Range;

use world::DriveError;

use crate::VdiskError;

/// What is wrong with an open image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageTrouble {
    /// A metadata write failed: the image is read-only until it is opened again.
    #[error("read-only since a metadata write failed: {cause}")]
    Poisoned {
        /// The first failure.
        cause: String,
    },
    /// The file was removed, replaced or cut: the image is read-only until it is back.
    #[error("read-only while its file is not as it was opened: {cause}")]
    FileChanged {
        /// What became of the file.
        cause: String,
    },
    /// The file system has no space for writes that need some.
    #[error("writes that need space fail: {cause}")]
    NoRoom {
        /// The last such write.
        cause: String,
    },
}

/// A write that found no space in the file system.
struct NoRoom {
    cause: String,
    /// The range of the disk; none: a new block, or metadata.
    payload: Option<Range<u64>>,
    /// Number of successful payload writes since.
    writes: u32,
}

/// After this many successful writes space is assumed to be available, even if the failed write was not
/// repeated.
const WRITES_WITH_ROOM: u32 = 1000;

/// The troubles of an open image.
#[derive(Default)]
pub(super) struct Trouble {
    /// Why the image is read-only.
    poisoned: RefCell<Option<String>>,
    /// The last write that found no space, until one succeeds.
    no_room: RefCell<Option<NoRoom>>,
    /// What became of the file, as of the last look: it was removed, replaced or cut.
    lost: RefCell<Option<String>>,
}

impl Trouble {
    /// Refuses a change of an image that is read-only.
    pub(super) fn check(&self) -> Result<(), VdiskError> {
        match self.poisoned.borrow().as_ref().or(self.lost.borrow().as_ref()) {
            Some(cause) => Err(VdiskError::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Records whether the file is there as it was opened. A drive that does not answer says nothing of that.
    pub(super) fn note_look(&self, looked: Result<(), DriveError>) {
        match looked {
            Ok(()) => *self.lost.borrow_mut() = None,
            Err(error @ DriveError::Gone { .. }) => *self.lost.borrow_mut() = Some(error.to_string()),
            Err(_) => {}
        }
    }

    /// Parts of the file with unknown content are not written. An operation of an unresponsive drive may be
    /// done or not, and is repeated.
    pub(super) fn poison_if<T>(&self, outcome: Result<T, VdiskError>) -> Result<T, VdiskError> {
        if let Err(error) = &outcome
            && !matches!(error, VdiskError::Drive(DriveError::Silent { .. }))
        {
            self.poisoned.borrow_mut().get_or_insert_with(|| error.to_string());
        }
        outcome
    }

    /// Records that metadata or a new block found no space, until one does.
    pub(super) fn note_room<T>(&self, outcome: Result<T, VdiskError>) -> Result<T, VdiskError> {
        match &outcome {
            // In a sparse file metadata may find space where payload does not.
            Ok(_) => drop(self.no_room.borrow_mut().take_if(|old| old.payload.is_none())),
            Err(error @ (VdiskError::NoRoom { .. } | VdiskError::Drive(DriveError::NoRoom { .. }))) => {
                *self.no_room.borrow_mut() =
                    Some(NoRoom { cause: error.to_string(), payload: None, writes: 0 });
            }
            Err(_) => {}
        }
        outcome
    }

    /// Records that payload found no space, until it does, or many writes in succession did.
    pub(super) fn note_payload(
        &self,
        at: u64,
        len: u64,
        outcome: Result<(), DriveError>,
    ) -> Result<(), VdiskError> {
        let mut noted = self.no_room.borrow_mut();
        match (&outcome, noted.as_mut()) {
            (Ok(()), None) => {}
            (Ok(()), Some(old)) => {
                old.writes += 1;
                let again =
                    old.payload.as_ref().is_some_and(|range| range.start < at + len && at < range.end);
                if again || old.writes >= WRITES_WITH_ROOM {
                    *noted = None;
                }
            }
            (Err(error @ DriveError::NoRoom { .. }), _) => {
                *noted = Some(NoRoom { cause: error.to_string(), payload: Some(at..at + len), writes: 0 });
            }
            (Err(_), _) => {}
        }
        Ok(outcome?)
    }

    /// Why the image is read-only, or that its file system has no space.
    pub(super) fn told(&self) -> Option<ImageTrouble> {
        if let Some(cause) = self.poisoned.borrow().clone() {
            return Some(ImageTrouble::Poisoned { cause });
        }
        if let Some(cause) = self.lost.borrow().clone() {
            return Some(ImageTrouble::FileChanged { cause });
        }
        let no_room = self.no_room.borrow();
        no_room.as_ref().map(|no_room| ImageTrouble::NoRoom { cause: no_room.cause.clone() })
    }
}
