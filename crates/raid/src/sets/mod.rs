//! Levels 0, 1 and 10: stripes over sets of drives, each set holding the same on all its drives.
//!
//! Level 0 has sets of one drive, level 1 one set, level 10 sets of two.
//!
//! * Overlapping writes to mirrors take turns ([`block::RangeLocks`]): otherwise two mirrors could end with different winners.
//! * A drive on which a write failed while another of its set took it is dropped before the write is acknowledged.
//! * A read that meets a medium error is answered by another mirror, and the bad place is written again from there.
//! * After a power cut, mirrors may differ where writes were not flushed. Then all reads go to the first mirror of each set, so that a
//!   block that was read once reads the same for ever; see `Label::mirrors_may_differ`.

mod read;
mod stripes;
mod upkeep;
mod write;

pub(crate) use stripes::{Extent, Sets};
