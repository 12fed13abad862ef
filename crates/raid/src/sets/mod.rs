//! Levels 0, 1 and 10: stripes over sets of drives. All drives of a set have the same data.
//!
//! Level 0 has sets of one drive, level 1 one set, level 10 sets of two.
//!
//! * Overlapping writes to mirrors take turns ([`block::RangeLocks`]): otherwise two mirrors could end with
//!   different content.
//! * A drive whose write failed while another drive of its set succeeded is dropped before the write is
//!   acknowledged.
//! * A read that meets a medium error is answered by another mirror, and the bad block is rewritten from
//!   there.
//! * After a power failure, mirrors may differ where writes were not flushed. Reads then go to the
//!   preferred mirror of each set where no resync has been yet, so that repeated reads of a block always
//!   return the same; see `Label::mirrors_may_differ`, `differing` and `preferred`.

mod read;
mod stripes;
mod upkeep;
mod write;

pub(crate) use stripes::{Extent, Sets};
