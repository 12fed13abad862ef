//! The declared partitions of a controller's cache. Their minimums hold on each controller, as the memory
//! size does.

use std::collections::BTreeMap;

use cache::{FRAME_BYTES, PARTITIONS_MAX, PartitionId};

use crate::config::{CacheSettings, PARTITION_DEFAULT, PartitionConfig};
use crate::status::PartitionStatus;
use stack::VolumeCache;

/// The partition of volumes without one.
const DEFAULT: PartitionId = PartitionId(0);

/// The numbers of the partitions in the cache, by name. They are not stored: a start assigns new ones.
#[derive(Clone, Default)]
pub(crate) struct Partitions(BTreeMap<String, PartitionId>);

impl Partitions {
    /// The number of a declared partition, or of the default partition.
    pub(crate) fn id_of(&self, name: Option<&String>) -> PartitionId {
        name.and_then(|name| self.0.get(name)).copied().unwrap_or(DEFAULT)
    }

    /// The name of a partition.
    pub(crate) fn name_of(&self, id: PartitionId) -> &str {
        self.0.iter().find(|(_, known)| **known == id).map_or(PARTITION_DEFAULT, |(name, _)| name)
    }

    fn free_id(&self) -> PartitionId {
        let free =
            (DEFAULT.0 + 1..PARTITIONS_MAX).map(PartitionId).find(|id| !self.0.values().any(|u| u == id));
        free.expect("a declaration has no more partitions than a cache")
    }

    /// The status of all partitions, the default one first.
    pub(crate) fn status(&self, cache: &VolumeCache) -> Vec<PartitionStatus> {
        let named = self.0.iter().map(|(name, id)| (name.as_str(), *id));
        let all = [(PARTITION_DEFAULT, DEFAULT)].into_iter().chain(named);
        let status = |(name, id): (&str, PartitionId)| {
            let status = cache.partition(id)?;
            Some(PartitionStatus { name: name.into(), frames: status.frames, traffic: status.traffic })
        };
        all.filter_map(status).collect()
    }

    /// Creates, resizes and removes partitions as declared.
    pub(crate) fn set(
        &mut self,
        controller: usize,
        cache: &VolumeCache,
        settings: &CacheSettings,
        done: &mut Vec<String>,
    ) {
        let is_declared = |name: &String| settings.partitions.iter().any(|p| p.name == *name);
        self.0.retain(|name, id| {
            let stays = is_declared(name);
            if !stays {
                // Its volumes stay in the default partition until they are opened as declared.
                cache.remove_partition(*id);
                done.push(format!("controller {controller}: cache partition {name}: removed"));
            }
            stays
        });
        let frames_of = |p: &PartitionConfig| p.minimum_bytes / FRAME_BYTES as u64;
        let mut changes = Vec::new();
        for declared in &settings.partitions {
            let known = self.0.get(&declared.name).copied();
            let now = known.and_then(|id| cache.partition(id)).map(|p| u64::from(p.frames.frames_min));
            if now != Some(frames_of(declared)) {
                changes.push((now.is_none_or(|now| now < frames_of(declared)), declared));
            }
        }
        // Shrink before growing, so that the minimums never exceed all frames.
        changes.sort_by_key(|(grows, _)| *grows);
        for (_, declared) in changes {
            let id = self.0.get(&declared.name).copied().unwrap_or_else(|| self.free_id());
            self.0.insert(declared.name.clone(), id);
            cache.set_partition(id, declared.minimum_bytes);
            let (name, bytes) = (&declared.name, declared.minimum_bytes);
            done.push(format!("controller {controller}: cache partition {name}: minimum {bytes} bytes"));
        }
    }
}
