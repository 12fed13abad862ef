//! What the user of a group knows of its content: a rebuild copies what is in use, and only zeroes what is known to hold zeros.

use std::ops::Range;
use std::rc::Rc;

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

/// Whether all bytes are zero. (The fold over a lane becomes vector instructions; the branch is taken once per lane.)
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let mut lanes = bytes.chunks_exact(4096);
    let none = |lane: &[u8]| lane.iter().fold(0, |all, byte| all | byte) == 0;
    lanes.by_ref().all(none) && none(lanes.remainder())
}
