//! Status snapshot of a group.

use crate::member::MemberStatus;
use crate::stripe::JournalCounts;
use crate::{GroupId, Level};

/// The state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// All members are in sync.
    Optimal,
    /// Redundancy is reduced.
    Degraded,
    /// Data are unavailable.
    Failed,
}

/// The progress of a rebuild or scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The position that is being rebuilt; `None` for work on all drives.
    pub position: Option<u32>,
    /// Completed bytes of each drive.
    pub done_bytes: u64,
    /// Total bytes of each drive.
    pub total_bytes: u64,
}

/// Status snapshot of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct GroupStatus {
    pub name: String,
    /// Its identity.
    pub id: GroupId,
    pub level: Level,
    pub stripe_unit_bytes: u32,
    /// Optimal, degraded or failed.
    pub state: GroupState,
    /// How many more drives may fail, in any combination.
    pub tolerates: u32,
    /// Usable size.
    pub len_bytes: u64,
    /// The epoch of the labels.
    pub epoch: u64,
    /// Whether reads of a block go to one mirror only, because the mirrors may differ since a power failure.
    pub reads_pinned: bool,
    /// Blocks that were rewritten after a medium error, since the group was opened.
    pub repairs: u64,
    /// The number of lost ranges.
    pub lost_ranges: usize,
    /// Blocks that the last scrub left alone, because drives differ and redundancy cannot decide.
    pub differing_blocks: u64,
    /// Counters of the stripe journal (levels 5 and 6) since the group was opened.
    pub journal: JournalCounts,
    /// The progress of a rebuild, if one runs.
    pub rebuild: Option<Progress>,
    /// The progress of a scrub, if one runs.
    pub scrub: Option<Progress>,
    /// By position.
    pub members: Vec<MemberStatus>,
}
