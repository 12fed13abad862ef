//! The stripe journal: a ring on every drive of the group, between the label region and the data.
//!
//! Writers submit [`Change`](super::change::Change)s and wait. One of them writes a *batch* of all waiting
//! changes, while others gather for the next. In a batch, each affected drive gets one frame with its own
//! part.

mod batches;
mod commit;
mod frame;
mod ring;

pub(crate) use batches::Journal;
pub use batches::JournalCounts;
pub(crate) use commit::await_failed;
pub(crate) use frame::{Entry, Frame, Kind, checksum, decode};
