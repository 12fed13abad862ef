//! How pools and volumes are declared.

use array::config::{
    BLOCK_BYTES_DEFAULT, CRITICAL_THRESHOLD_PERCENT_DEFAULT, PAGE_BYTES_DEFAULT,
    PHYSICAL_BLOCK_BYTES_DEFAULT, PoolConfig, Provisioning, SOFT_THRESHOLD_PERCENT_DEFAULT, VolumeConfig,
};
use serde::{Deserialize, Serialize};

use super::caching::CacheName;
use super::size::Size;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pool {
    name: String,
    groups: Vec<String>,
    #[serde(default = "default_page")]
    page: Size,
    #[serde(default = "default_threshold")]
    soft_threshold_percent: u8,
    /// 95, or the soft threshold where that is higher, when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    critical_threshold_percent: Option<u8>,
    /// Groups that are being emptied, and then leave the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    leaving: Vec<String>,
    /// A group in no pool, on which writes are durable before they are in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal: Option<String>,
    /// Whether hot pages move to faster groups.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    placement: bool,
    #[serde(default)]
    controller: usize,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProvisioningName {
    #[default]
    Thin,
    Thick,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Volume {
    name: String,
    pool: String,
    size: Size,
    #[serde(default)]
    provisioning: ProvisioningName,
    #[serde(default = "default_block")]
    block: u32,
    #[serde(default = "default_physical_block")]
    physical_block: u32,
    /// write-back, write-through or off; says nothing where there is no cache.
    #[serde(default, skip_serializing_if = "CacheName::is_default")]
    cache: CacheName,
    /// The partition of the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    /// The service that it is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    /// The volume of which it is a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot_of: Option<String>,
}

fn yes() -> bool {
    true
}

fn default_page() -> Size {
    Size(PAGE_BYTES_DEFAULT)
}
fn default_threshold() -> u8 {
    SOFT_THRESHOLD_PERCENT_DEFAULT
}
fn default_block() -> u32 {
    BLOCK_BYTES_DEFAULT
}
fn default_physical_block() -> u32 {
    PHYSICAL_BLOCK_BYTES_DEFAULT
}

impl Pool {
    pub(super) fn to_config(&self) -> PoolConfig {
        PoolConfig {
            name: self.name.clone(),
            groups: self.groups.clone(),
            page_bytes: self.page.0,
            soft_threshold_percent: self.soft_threshold_percent,
            critical_threshold_percent: self
                .critical_threshold_percent
                .unwrap_or(CRITICAL_THRESHOLD_PERCENT_DEFAULT.max(self.soft_threshold_percent)),
            leaving: self.leaving.clone(),
            journal: self.journal.clone(),
            placement: self.placement,
            controller: self.controller,
        }
    }

    pub(super) fn of(p: &PoolConfig) -> Pool {
        Pool {
            name: p.name.clone(),
            groups: p.groups.clone(),
            page: Size(p.page_bytes),
            soft_threshold_percent: p.soft_threshold_percent,
            critical_threshold_percent: Some(p.critical_threshold_percent),
            leaving: p.leaving.clone(),
            journal: p.journal.clone(),
            placement: p.placement,
            controller: p.controller,
        }
    }
}

impl Volume {
    pub(super) fn to_config(&self) -> VolumeConfig {
        VolumeConfig {
            name: self.name.clone(),
            pool: self.pool.clone(),
            len_bytes: self.size.0,
            provisioning: match self.provisioning {
                ProvisioningName::Thin => Provisioning::Thin,
                ProvisioningName::Thick => Provisioning::Thick,
            },
            block_bytes: self.block,
            physical_block_bytes: self.physical_block,
            cache: self.cache.into(),
            partition: self.partition.clone(),
            policy: self.policy.clone(),
            read_only: self.read_only,
            snapshot_of: self.snapshot_of.clone(),
        }
    }

    pub(super) fn of(v: &VolumeConfig) -> Volume {
        Volume {
            name: v.name.clone(),
            pool: v.pool.clone(),
            size: Size(v.len_bytes),
            provisioning: match v.provisioning {
                Provisioning::Thin => ProvisioningName::Thin,
                Provisioning::Thick => ProvisioningName::Thick,
            },
            block: v.block_bytes,
            physical_block: v.physical_block_bytes,
            cache: v.cache.into(),
            partition: v.partition.clone(),
            policy: v.policy.clone(),
            read_only: v.read_only,
            snapshot_of: v.snapshot_of.clone(),
        }
    }
}
