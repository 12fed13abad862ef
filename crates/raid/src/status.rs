//! A group as a person sees it: plain values.

use crate::member::MemberStatus;
use crate::stripe::JournalCounts;
use crate::{GroupId, Level};

/// How a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// All drives serve.
    Optimal,
    /// It serves without some of its drives.
    Degraded,
    /// It cannot serve any more.
    Failed,
}

/// How far long work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The position that is being rebuilt; none when the work is on all drives.
    pub position: Option<u32>,
    /// Bytes of each drive that are done.
    pub done_bytes: u64,
    /// Bytes of each drive.
    pub total_bytes: u64,
}

/// A group as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: GroupId,
    /// Its level.
    pub level: Level,
    /// Its stripe unit.
    pub stripe_unit_bytes: u32,
    /// How it is.
    pub state: GroupState,
    /// How many more drives may fail, whichever they are.
    pub tolerates: u32,
    /// Its size.
    pub len_bytes: u64,
    /// How often its membership changed.
    pub epoch: u64,
    /// Whether reads are kept to one mirror, because the mirrors may differ since a power cut.
    pub reads_pinned: bool,
    /// Places that were written again after a medium error, since the group was opened.
    pub repairs: u64,
    /// Ranges that cannot be read any more until they are written again.
    pub lost_ranges: usize,
    /// Blocks that the last scrub left as they are, because drives differ and nobody knows which is right.
    pub differing_blocks: u64,
    /// What the journal of levels 5 and 6 did since the group was opened.
    pub journal: JournalCounts,
    /// How far a rebuild is.
    pub rebuild: Option<Progress>,
    /// How far a scrub is.
    pub scrub: Option<Progress>,
    /// Its drives by position.
    pub members: Vec<MemberStatus>,
}
