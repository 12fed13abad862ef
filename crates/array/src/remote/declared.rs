//! Declarations, and what was made of them: all of it, also what a state does not keep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::drives::Drives;
use crate::config::{
    Config, DeletedGroup, DriveConfig, GroupId, Identities, ImportedDrives, Made, NotOpen, RawFile,
};

/// A declaration; its drives apart, of whatever kind they are.
#[derive(Serialize, Deserialize)]
pub(super) struct Declared {
    config: Config,
    drives: Drives,
}

impl From<Arc<Config>> for Declared {
    fn from(config: Arc<Config>) -> Declared {
        let mut config = Arc::unwrap_or_clone(config);
        let drives = Drives(std::mem::take(&mut config.drives));
        Declared { config, drives }
    }
}

impl From<Declared> for Arc<Config> {
    fn from(Declared { mut config, drives }: Declared) -> Arc<Config> {
        config.drives = drives.0;
        Arc::new(config)
    }
}

/// What was made, and what is known in this life only.
#[derive(Serialize, Deserialize)]
pub(super) struct Recorded {
    made: Made,
    displaced: BTreeMap<String, String>,
    is_first: bool,
    deleted_groups: Vec<(String, Deleted)>,
    importing: Vec<(String, Drives)>,
}

impl From<Arc<Made>> for Recorded {
    fn from(made: Arc<Made>) -> Recorded {
        let mut made = Arc::unwrap_or_clone(made);
        let deleted = std::mem::take(&mut made.deleted_groups).into_iter();
        let importing = std::mem::take(&mut made.importing).into_iter();
        Recorded {
            displaced: std::mem::take(&mut made.displaced),
            is_first: made.is_first,
            deleted_groups: deleted.map(|(name, group)| (name, group.into())).collect(),
            importing: importing.map(|(path, pool)| (path, listed(pool.drives))).collect(),
            made,
        }
    }
}

impl From<Recorded> for Arc<Made> {
    fn from(recorded: Recorded) -> Arc<Made> {
        let Recorded { mut made, displaced, is_first, deleted_groups, importing } = recorded;
        (made.displaced, made.is_first) = (displaced, is_first);
        made.deleted_groups = deleted_groups.into_iter().map(|(name, group)| (name, group.into())).collect();
        let pool = |drives| ImportedDrives { drives: by_name(drives) };
        made.importing = importing.into_iter().map(|(path, drives)| (path, pool(drives))).collect();
        Arc::new(made)
    }
}

fn listed(drives: BTreeMap<String, DriveConfig>) -> Drives {
    // The key is the name, in a pool that is imported, and in a group that is deleted.
    Drives(drives.into_iter().map(|(name, drive)| DriveConfig { name, ..drive }).collect())
}

fn by_name(Drives(drives): Drives) -> BTreeMap<String, DriveConfig> {
    drives.into_iter().map(|drive| (drive.name.clone(), drive)).collect()
}

/// A [`DeletedGroup`].
#[derive(Serialize, Deserialize)]
pub(super) struct Deleted {
    id: Option<GroupId>,
    drives: Drives,
}

impl From<DeletedGroup> for Deleted {
    fn from(DeletedGroup { id, drives }: DeletedGroup) -> Deleted {
        Deleted { id, drives: listed(drives) }
    }
}

impl From<Deleted> for DeletedGroup {
    fn from(Deleted { id, drives }: Deleted) -> DeletedGroup {
        DeletedGroup { id, drives: by_name(drives) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Identities")]
pub(super) struct Known {
    groups: BTreeMap<String, GroupId>,
    lu_numbers: BTreeMap<String, u64>,
    images: BTreeMap<String, RawFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NotOpen")]
pub(super) struct Closed {
    groups: BTreeSet<String>,
    pools: BTreeSet<String>,
    volumes: BTreeSet<String>,
}
