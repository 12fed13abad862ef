//! What the array has made so far. It is kept beside the declaration and declared by nobody: what is named here is only ever
//! opened, and made again never.

use std::collections::{BTreeMap, BTreeSet};

use raid::GroupId;
use world::DriveSpec;

use super::{Config, GroupConfig};

/// What was made, by the names of the declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Drives that were opened once: the file of one is not made again when it is missing.
    pub drives: BTreeSet<String>,
    /// Groups, from the moment before the first label is written.
    pub groups: BTreeMap<String, MadeGroup>,
    /// Pools. A journal is not named: the volumes of its pool say which one has acknowledged writes of theirs, and none is made in its place.
    pub pools: BTreeSet<String>,
    /// Volumes.
    pub volumes: BTreeSet<String>,
    /// Volumes that are to be deleted, or were being made when the process ended, with their pools: a start deletes what is left.
    pub discarded: BTreeMap<String, String>,
    /// Drives whose content may be overwritten, until they are made.
    pub overwrite: BTreeSet<String>,
    /// What the block devices are that drives were opened on, whatever their names are now.
    pub devices: BTreeMap<String, String>,
    /// Drives in whose place another device is, and how that is told: they are not opened. It is seen anew in every life, and not kept.
    pub displaced: BTreeMap<String, String>,
}

/// A group that was made, or is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeGroup {
    /// The identity on its labels; not known of one that an older masu made, until it is opened.
    pub id: Option<GroupId>,
    /// Whether it was made whole. Until then no host has written to it, and creation goes on where it was interrupted.
    pub ready: bool,
}

impl Made {
    /// All of a declaration that an older masu kept: it did not say what was made, and made everything at once.
    pub fn all_of(config: &Config) -> Made {
        let mut made = Made::default();
        made.finish(config, &BTreeMap::new());
        made
    }

    /// Whether the group was made whole.
    pub fn has_group(&self, name: &str) -> bool {
        self.groups.get(name).is_some_and(|group| group.ready)
    }

    /// Notes that everything in the declaration was made, and forgets what is in it no more. `ids` are those of the groups that are open.
    /// What lies in memory is never noted: it ends with the process, and every start makes it.
    pub(crate) fn finish(&mut self, config: &Config, ids: &BTreeMap<String, GroupId>) {
        let ssds = config.cache.iter().flat_map(|c| &c.ssds);
        let used = config.groups.iter().flat_map(|g| &g.drives).chain(&config.spares).chain(ssds);
        self.drives.extend(used.cloned());
        self.drives.retain(|name| config.drives.iter().any(|d| d.name == *name));
        self.devices.retain(|name, _| self.drives.contains(name));
        self.displaced.retain(|name, _| self.drives.contains(name));
        let known = std::mem::take(&mut self.groups);
        let id_of = |name: &str| ids.get(name).copied().or_else(|| known.get(name)?.id);
        let ready = |name: &String| (name.clone(), MadeGroup { id: id_of(name), ready: true });
        self.groups = config.groups.iter().filter(|g| lasts(config, g)).map(|g| ready(&g.name)).collect();
        let lasting = |name: &String| self.groups.contains_key(name);
        let pools = config.pools.iter().filter(|p| p.groups.iter().chain(&p.leaving).any(lasting));
        self.pools = pools.map(|p| p.name.clone()).collect();
        let volumes = config.volumes.iter().filter(|v| self.pools.contains(&v.pool));
        self.volumes = volumes.map(|v| v.name.clone()).collect();
        self.discarded.retain(|name, _| config.volume(name).is_none());
        self.overwrite.clear();
    }
}

/// Whether a group outlives the process.
fn lasts(config: &Config, group: &GroupConfig) -> bool {
    let in_memory = |spec: &DriveSpec| matches!(spec, DriveSpec::Memory { .. });
    let own = config.drives.iter().filter(|d| group.drives.contains(&d.name));
    own.into_iter().any(|d| !in_memory(&d.spec))
}

/// Where the declaration and what was made are kept before a change takes effect.
pub trait Keeper: Send + Sync {
    /// Makes both durable.
    ///
    /// # Errors
    /// Why, in one line.
    fn keep(&mut self, config: &Config, made: &Made) -> Result<(), String>;
}
