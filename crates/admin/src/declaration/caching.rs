//! How caching is declared: `[cache]`, `[[cache.partition]]`, and the policy of a volume.

use array::config::{
    CachePolicy, CacheSettings, DIRECT_BYTES_DEFAULT, PartitionConfig, READ_AHEAD_BYTES_DEFAULT,
};
use serde::{Deserialize, Serialize};

use super::size::Size;

/// The cache of each controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cache {
    memory: Size,
    #[serde(default = "default_read_ahead")]
    read_ahead: Size,
    /// From this size on a read or write passes by the memory.
    #[serde(default = "default_direct")]
    direct: Size,
    /// Drives in no group that keep what the memory gives up, one for each controller; their content is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ssds: Vec<String>,
    /// Parts of the memory that belong to some volumes.
    #[serde(default, rename = "partition", skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<Partition>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Partition {
    name: String,
    /// What others leave to it when its volumes need it.
    minimum: Size,
}

/// What becomes of the writes of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheName {
    /// They are acknowledged from the cache.
    #[default]
    WriteBack,
    /// They are on the drives before they are acknowledged.
    WriteThrough,
    /// Nothing is cached.
    Off,
}

impl CacheName {
    pub(super) fn is_default(&self) -> bool {
        *self == CacheName::default()
    }
}

impl From<CacheName> for CachePolicy {
    fn from(name: CacheName) -> CachePolicy {
        match name {
            CacheName::WriteBack => CachePolicy::WriteBack,
            CacheName::WriteThrough => CachePolicy::WriteThrough,
            CacheName::Off => CachePolicy::Off,
        }
    }
}

impl From<CachePolicy> for CacheName {
    fn from(policy: CachePolicy) -> CacheName {
        match policy {
            CachePolicy::WriteBack => CacheName::WriteBack,
            CachePolicy::WriteThrough => CacheName::WriteThrough,
            CachePolicy::Off => CacheName::Off,
        }
    }
}

fn default_direct() -> Size {
    Size(DIRECT_BYTES_DEFAULT)
}

fn default_read_ahead() -> Size {
    Size(READ_AHEAD_BYTES_DEFAULT)
}

impl Cache {
    pub(super) fn to_config(&self) -> CacheSettings {
        let partition = |p: &Partition| PartitionConfig { name: p.name.clone(), minimum_bytes: p.minimum.0 };
        CacheSettings {
            memory_bytes: self.memory.0,
            read_ahead_bytes: self.read_ahead.0,
            direct_bytes: self.direct.0,
            ssds: self.ssds.clone(),
            partitions: self.partitions.iter().map(partition).collect(),
        }
    }

    pub(super) fn of(c: &CacheSettings) -> Cache {
        let partition =
            |p: &PartitionConfig| Partition { name: p.name.clone(), minimum: Size(p.minimum_bytes) };
        Cache {
            memory: Size(c.memory_bytes),
            read_ahead: Size(c.read_ahead_bytes),
            direct: Size(c.direct_bytes),
            ssds: c.ssds.clone(),
            partitions: c.partitions.iter().map(partition).collect(),
        }
    }
}
