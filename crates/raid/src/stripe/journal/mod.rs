//! The stripe journal: a ring on every drive of the group, between the label region and the data.
//!
//! Writers hand in [`Change`](super::change::Change)s and wait; one of them makes a *batch* of all that is there, while others
//! gather for the next. Of a batch each drive that it touches gets one frame with its own part.

mod batches;
mod commit;
mod frame;
mod ring;

pub(crate) use batches::Journal;
pub use batches::JournalCounts;
pub(crate) use frame::{Entry, Frame, Kind, checksum, decode};
