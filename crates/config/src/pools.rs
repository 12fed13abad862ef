//! Pools and volumes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caching::CachePolicy;
use crate::ids::JournalId;
use crate::{schema, size};

/// What a page of a pool can be: powers of two among these (`pool/src/create.rs`).
pub const PAGE_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 20;
/// Size of a page.
pub const PAGE_BYTES_DEFAULT: u64 = 1 << 20;
/// Used share of a pool at which a warning is raised.
pub const SOFT_THRESHOLD_PERCENT_DEFAULT: u8 = 80;
/// Used share at which somebody should act at once: a twentieth of the space is left.
pub const CRITICAL_THRESHOLD_PERCENT_DEFAULT: u8 = 95;
/// The logical block length that every host takes.
pub const BLOCK_BYTES_DEFAULT: u32 = 512;
/// Hosts align to it.
pub const PHYSICAL_BLOCK_BYTES_DEFAULT: u32 = 4096;

/// A thin pool on RAID groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    /// Unique among pools; volumes refer to it.
    #[schemars(with = "schema::Name")]
    pub name: String,
    /// Names of its groups, at least one. A group is in one pool only. `masu pool remove-group` removes one.
    #[schemars(with = "Vec<schema::Name>", length(min = 1))]
    pub groups: Vec<String>,
    /// Size of a page, the unit of allocation. It is fixed when the pool is created.
    #[serde(default = "page", rename = "page", deserialize_with = "size::bytes")]
    #[schemars(with = "schema::Size")]
    pub page_bytes: u64,
    /// Groups that are being removed: masu moves their pages to the others. Commands maintain this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::Name>", !skip_serializing_if)]
    pub leaving: Vec<String>,
    /// Automatic tiering: hot pages move to faster groups, if the groups are of different classes.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    #[schemars(!skip_serializing_if)]
    pub placement: bool,
    /// Used share at which masu warns.
    #[serde(default = "soft_threshold")]
    #[schemars(range(min = 1, max = 100), extend("x-unit" = "%"))]
    pub soft_threshold_percent: u8,
    /// Used share at which space is about to run out; at least `soft_threshold_percent`.
    #[serde(default)]
    #[schemars(range(max = 100), extend("x-unit" = "%"))]
    #[schemars(extend("x-default" = critical_threshold_text()))]
    pub critical_threshold_percent: u8,
    /// The journal of acknowledged writes: a group in no pool. With it a write is durable when it is
    /// acknowledged; without it the write cache is volatile. Requires `[cache]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Name>")]
    pub journal: Option<String>,
    /// A journal that is lost for good: the pool is served without the acknowledged writes that only this
    /// journal has. It is the identifier that the refusal names; another journal's has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub give_up_journal: Option<JournalId>,
    /// The controller that owns the pool and every LU on it.
    #[serde(default)]
    pub controller: usize,
}

/// When a volume takes its space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub enum Provisioning {
    /// Space is allocated by writes.
    #[default]
    Thin,
    /// All space is reserved at once.
    Thick,
}

/// A volume in a pool, served as a LU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// Unique among volumes and images; hosts refer to it.
    #[schemars(with = "schema::Name")]
    pub name: String,
    /// The pool that holds it.
    #[schemars(with = "schema::Name")]
    pub pool: String,
    /// Its size, a multiple of 4096 bytes. A larger value grows the volume; it never shrinks.
    #[serde(rename = "size", deserialize_with = "size::bytes")]
    #[schemars(with = "schema::Size", range(min = 4096))]
    pub len_bytes: u64,
    /// When it takes its space.
    #[serde(default)]
    pub provisioning: Provisioning,
    /// Logical block length: 512 or 4096.
    #[serde(default = "block", rename = "block")]
    #[schemars(extend("enum" = [512, 4096], "x-unit" = "bytes"))]
    pub block_bytes: u32,
    /// Physical block length that hosts align to: 512 or 4096, at least `block`.
    #[serde(default = "physical_block", rename = "physical_block")]
    #[schemars(extend("enum" = [512, 4096], "x-unit" = "bytes"))]
    pub physical_block_bytes: u32,
    /// Its caching; without effect on an array without `[cache]`.
    #[serde(default, skip_serializing_if = "CachePolicy::is_default")]
    #[schemars(!skip_serializing_if)]
    pub cache: CachePolicy,
    /// Its partition of the cache. Without it the volume uses the shared memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Name>")]
    pub partition: Option<String>,
    /// Its policy. A policy that does not exist is a problem in `masu status`, and has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Name>")]
    pub policy: Option<String>,
    /// Hosts may only read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(!skip_serializing_if)]
    pub read_only: bool,
    /// The volume of which it is a snapshot. Commands maintain it; it stays when that volume is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Name>")]
    pub snapshot_of: Option<String>,
}

fn yes() -> bool {
    true
}
fn page() -> u64 {
    PAGE_BYTES_DEFAULT
}
fn soft_threshold() -> u8 {
    SOFT_THRESHOLD_PERCENT_DEFAULT
}
fn critical_threshold_text() -> String {
    format!("{CRITICAL_THRESHOLD_PERCENT_DEFAULT}, or soft_threshold_percent if that is higher")
}
fn block() -> u32 {
    BLOCK_BYTES_DEFAULT
}
fn physical_block() -> u32 {
    PHYSICAL_BLOCK_BYTES_DEFAULT
}

impl PoolConfig {
    /// A pool on these groups, of controller 0.
    pub fn new(name: String, groups: Vec<String>) -> PoolConfig {
        PoolConfig {
            name,
            groups,
            page_bytes: PAGE_BYTES_DEFAULT,
            leaving: Vec::new(),
            placement: true,
            soft_threshold_percent: SOFT_THRESHOLD_PERCENT_DEFAULT,
            critical_threshold_percent: CRITICAL_THRESHOLD_PERCENT_DEFAULT,
            journal: None,
            give_up_journal: None,
            controller: 0,
        }
    }

    /// Its groups, those that leave it, and that of its journal: they are at its controller.
    pub fn all_groups(&self) -> impl Iterator<Item = &String> {
        self.groups.iter().chain(&self.leaving).chain(&self.journal)
    }

    pub(crate) fn complete(&mut self) {
        if self.critical_threshold_percent == 0 {
            self.critical_threshold_percent =
                CRITICAL_THRESHOLD_PERCENT_DEFAULT.max(self.soft_threshold_percent);
        }
    }
}

impl VolumeConfig {
    /// A thin volume that is cached and was promised nothing.
    pub fn new(name: String, pool: String, len_bytes: u64) -> VolumeConfig {
        VolumeConfig {
            name,
            pool,
            len_bytes,
            provisioning: Provisioning::Thin,
            block_bytes: BLOCK_BYTES_DEFAULT,
            physical_block_bytes: PHYSICAL_BLOCK_BYTES_DEFAULT,
            cache: CachePolicy::default(),
            partition: None,
            policy: None,
            read_only: false,
            snapshot_of: None,
        }
    }
}
