//! What a controller knows of objects that exist, of new ones, and of missing ones.

use raid::GroupId;
use world::Drive;

use super::state::VolumeKey;
use crate::config::Config;

/// The kinds of objects that can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Group,
    Pool,
    Volume,
    /// The drive of a second level of the cache.
    CacheDrive,
}

impl Kind {
    /// The noun in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Group => "group",
            Kind::Pool => "pool",
            Kind::Volume => "volume",
            Kind::CacheDrive => "cache drive",
        }
    }
}

/// Objects that were created for a declaration that is not in force yet, by name.
#[derive(Default)]
pub(crate) struct Fresh {
    pub(crate) groups: Vec<String>,
    pub(crate) pools: Vec<String>,
    pub(crate) volumes: Vec<VolumeKey>,
    /// Groups that open pools got: pool, name, identity.
    pub(crate) joined: Vec<(String, String, GroupId)>,
    /// Spares and drives of caches that were labelled.
    pub(crate) labelled: Vec<Drive>,
}

impl Fresh {
    /// Leaves out what this declaration has.
    pub(crate) fn keep_undeclared(&mut self, config: &Config) {
        self.groups.retain(|name| config.groups.iter().all(|group| group.name != *name));
        self.pools.retain(|name| config.pool(name).is_none());
        let has = |pool: &String, group: &String| {
            config.pool(pool).is_some_and(|p| p.groups.contains(group) || p.leaving.contains(group))
        };
        self.joined.retain(|(pool, group, _)| !has(pool, group));
        self.volumes.retain(|(pool, name)| config.volume(name).is_none_or(|volume| volume.pool != *pool));
    }
}
