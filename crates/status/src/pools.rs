//! Pools: their space, and how hot it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// As declared.
    pub name: String,
    /// Names of its RAID groups.
    pub groups: Vec<String>,
    /// The unit of allocation.
    pub page_bytes: u64,
    /// Bytes in the pages of all groups.
    pub size_bytes: u64,
    /// Bytes of pages that are mapped, or held by tokens.
    pub used_bytes: u64,
    /// Of these, bytes of pages that only tokens of hosts (ODX) hold: they give way when the pool is full.
    #[serde(default)]
    pub token_bytes: u64,
    /// Seconds until it is full, if it goes on filling as it did (see docs/operation.md). None: it does not
    /// fill, or has not been watched for long enough.
    #[serde(default)]
    pub full_in_s: Option<u64>,
    /// Promised to hosts.
    pub promised_bytes: u64,
    /// Used space above which masu warns and hosts get a unit attention.
    pub soft_threshold_percent: u8,
    /// Used space above which the warning becomes critical.
    pub critical_threshold_percent: u8,
    /// The space of each group.
    pub group_spaces: Vec<PoolGroup>,
    /// How it is used, and what moved because of that.
    #[serde(default)]
    pub heat: Heat,
    /// Owning controller.
    pub controller: usize,
    /// Why writes to it fail: the storage below a drive is full.
    #[serde(skip)]
    pub no_room: Option<String>,
    /// Why writes to it failed in the last minute: a drive refuses them.
    #[serde(skip)]
    pub refused_writes: Option<String>,
    /// The medium of the drive that refuses them, where it is one drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusing_medium: Option<String>,
    /// Reads and writes of its volumes since that controller opened it: of one in sixteen.
    #[serde(default)]
    pub operations: u64,
}

/// How often the pages of a pool are used, and what moved between its classes of groups because of that.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Heat {
    /// Whether pages move.
    pub placement: bool,
    /// Intervals that ended since the start.
    pub intervals: u64,
    /// The classes, the fastest first, in the last interval.
    pub classes: Vec<ClassHeat>,
    /// Pages that came to a faster class since the start.
    pub promoted: u64,
    /// Pages that went to a slower one.
    pub demoted: u64,
    /// Bytes of both.
    pub moved_bytes: u64,
    /// The last decisions, the newest first.
    pub decisions: Vec<Decision>,
}

/// A class of groups in the last interval.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClassHeat {
    /// `fast`, `capacity` or `archive`.
    pub class: String,
    /// Bytes in pages.
    pub size_bytes: u64,
    /// Bytes of pages that are used.
    pub used_bytes: u64,
    /// Reads; one of more than 64 KiB counts for each 64 KiB.
    pub reads: u64,
    /// One of more than 64 KiB counts for each 64 KiB.
    pub writes: u64,
    /// Its share of all of them.
    pub share_percent: f64,
    /// Accesses of its hottest page: of the last interval, half of the one before, and so on.
    pub hottest: u32,
    /// Accesses of its coldest page.
    pub coldest: u32,
    /// What a page of the next class must have to come here; 0 when there is none.
    pub threshold: u32,
}

/// What was decided between two classes after an interval.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// The interval's number.
    pub interval: u64,
    /// The faster class.
    pub upper: String,
    /// The slower one.
    pub lower: String,
    /// `room`, `exchange`, `too_full`, `settled` or `no_room_below`.
    pub reason: String,
    /// Accesses of the hottest page of the slower class.
    pub hottest_below: u32,
    /// Accesses of the coldest page of the faster class.
    pub coldest_above: u32,
    /// What a page had to have to come up.
    pub threshold: u32,
    /// Pages that were to come up.
    pub promote: u32,
    /// Pages that were to go down.
    pub demote: u32,
}

/// A group's part of a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolGroup {
    /// The group.
    pub name: String,
    /// Bytes for data.
    pub size_bytes: u64,
    /// Bytes in pages that are taken.
    pub used_bytes: u64,
    /// Its pages are being moved away.
    pub evacuating: bool,
}
