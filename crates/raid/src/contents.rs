//! What the user of a group knows of its content: a rebuild copies what is in use, and only zeroes what is known to hold zeros.

use std::ops::Range;
use std::rc::Rc;

use crate::group::Group;
use crate::inner::Inner;

/// What a range of a group holds, as far as its user knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Something that is to be kept, in all of it or a part.
    Kept,
    /// Nothing that anybody will read before it is written: the range is free.
    Free,
    /// Nothing but zeros, on every drive with their parity: it was zeroed, and nobody has begun to write to it since.
    Zeros,
}

/// Asked under the hold of a range: whoever begins to write to it later waits, and his data go to the new drive, too.
pub type KnownContents = Rc<dyn Fn(Range<u64>) -> Contents>;

impl Group {
    /// From here on this is asked what ranges hold. Nothing is known without it.
    pub fn know_contents(&self, known: KnownContents) {
        *self.0.contents.borrow_mut() = Some(known);
    }
}

impl Inner {
    pub(crate) fn contents_of(&self, range: Range<u64>) -> Contents {
        let end = range.end.min(self.geometry.len_bytes);
        self.contents.borrow().as_ref().map_or(Contents::Kept, |known| known(range.start..end))
    }
}

/// Whether all bytes are zero. (The fold over a lane becomes vector instructions; the branch is taken once per lane.)
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let mut lanes = bytes.chunks_exact(4096);
    let none = |lane: &[u8]| lane.iter().fold(0, |all, byte| all | byte) == 0;
    lanes.by_ref().all(none) && none(lanes.remainder())
}
