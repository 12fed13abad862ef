//! What the user of a group knows about its content: a rebuild copies used ranges, and only zeroes ranges
//! that are known to hold zeros.

use std::ops::Range;
use std::rc::Rc;

/// The content of a range of a group, as far as its user knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// All or a part of it is in use.
    Kept,
    /// Free: nobody reads it before it is written.
    Free,
    /// Zeros, with their parity, on every drive: it was zeroed and not written since.
    Zeros,
}

/// Asked while the range is held: later writers wait, and their data also go to the new drive.
pub type KnownContents = Rc<dyn Fn(Range<u64>) -> Contents>;

/// Whether all bytes are zero. (The fold over a lane becomes vector instructions; the branch is taken once
/// per lane.)
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let mut lanes = bytes.chunks_exact(4096);
    let none = |lane: &[u8]| lane.iter().fold(0, |all, byte| all | byte) == 0;
    lanes.by_ref().all(none) && none(lanes.remainder())
}
