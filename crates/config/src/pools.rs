//! Pools and volumes.

use serde::{Deserialize, Serialize};

use crate::caching::CachePolicy;
use crate::size;

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

/// A thin pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    /// Unique among pools; volumes refer to it.
    pub name: String,
    /// Names of its groups.
    pub groups: Vec<String>,
    /// Size of a page.
    #[serde(default = "page", rename = "page", deserialize_with = "size::bytes")]
    pub page_bytes: u64,
    /// Groups that it had and that are to leave it: their pages move to the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<String>,
    /// Whether hot pages move to faster groups, when its groups are of more than one class.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub placement: bool,
    /// Used share at which a warning is raised.
    #[serde(default = "soft_threshold")]
    pub soft_threshold_percent: u8,
    /// Used share at which space is about to run out. In a file 0, or nothing, is 95, or the soft threshold
    /// where that is higher.
    #[serde(default)]
    pub critical_threshold_percent: u8,
    /// A group in no pool, on which writes are durable before they are in place; none: the write cache is
    /// volatile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// The controller that owns it and every LU on it.
    #[serde(default)]
    pub controller: usize,
}

/// When a volume takes its space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provisioning {
    /// As it is written.
    #[default]
    Thin,
    /// All of it at once.
    Thick,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// Unique among volumes and images; mappings refer to it.
    pub name: String,
    /// The pool it lies in.
    pub pool: String,
    /// Size in bytes.
    #[serde(rename = "size", deserialize_with = "size::bytes")]
    pub len_bytes: u64,
    /// Thin or thick.
    #[serde(default)]
    pub provisioning: Provisioning,
    /// Logical block length that hosts see: 512 or 4096.
    #[serde(default = "block", rename = "block")]
    pub block_bytes: u32,
    /// Physical block length that hosts are told, so that they align: 512 or 4096, no less than the logical
    /// one.
    #[serde(default = "physical_block", rename = "physical_block")]
    pub physical_block_bytes: u32,
    /// What becomes of its writes; says nothing where there is no cache.
    #[serde(default, skip_serializing_if = "CachePolicy::is_default")]
    pub cache: CachePolicy,
    /// The partition of the cache that it is in; none: the one of all that are in no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The service that it is promised; none: its part of what is left. One that is not declared is said in
    /// the status, and promises nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Hosts may read it only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The volume of which it is a snapshot. It goes on being one when that volume is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
            controller: 0,
        }
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
