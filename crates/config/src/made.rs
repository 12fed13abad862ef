//! What the array has made so far. It is kept beside the declaration and declared by nobody: what is named
//! here is only ever opened, and made again never.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use world::DriveSpec;

use crate::{Config, DriveConfig, GroupConfig, GroupId};

/// What was made, by the names of the declaration: the table `[made]` of the state. No declaration that a
/// person writes has it. Keys of other versions are passed over: the number of the state's format says which
/// version can read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Made {
    /// Drives that were opened once: the file of one is not made again when it is missing.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub drives: BTreeSet<String>,
    /// Pools. A journal is not named: the volumes of its pool say which one has acknowledged writes of
    /// theirs, and none is made in its place.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub pools: BTreeSet<String>,
    /// Names; a start never creates one of these again.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub volumes: BTreeSet<String>,
    /// The numbers of the LUs of volumes, from which their designators follow: hosts are told which one it is
    /// while its pool cannot be opened. Not known of one that was last opened by an older masu.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lu_numbers: BTreeMap<String, u64>,
    /// The files of raw images, as they were last open: nothing in such a file says whose it is.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, RawFile>,
    /// Drives whose content may be overwritten, until they are made.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub overwrite: BTreeSet<String>,
    /// Volumes that are to be deleted, or were being made when the process ended, with their pools: a start
    /// deletes what is left.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub discarded: BTreeMap<String, String>,
    /// Pools that are to be deleted: a start does not open them, and completes that.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub deleted_pools: BTreeSet<String>,
    /// Pools that are to be exported, and declared until they are: a start completes that.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub exported_pools: BTreeSet<String>,
    /// What the block devices are that drives were opened on, whatever their names are now.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, String>,
    /// Drives in whose place another device is, and how that is told: they are not opened. It is seen anew in
    /// every life, and not kept.
    #[serde(skip)]
    pub displaced: BTreeMap<String, String>,
    /// Nothing was declared before this declaration.
    #[serde(skip)]
    pub is_first: bool,
    /// Groups, from the moment before the first label is written.
    #[serde(rename = "group", skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, MadeGroup>,
    /// Groups that are declared no more, by name, until the labels of their drives are erased: a start
    /// completes that.
    #[serde(rename = "deleted_group", skip_serializing_if = "BTreeMap::is_empty")]
    pub deleted_groups: BTreeMap<String, DeletedGroup>,
    /// Pools that are being imported and not declared yet, by the path of their first drive: a start
    /// completes that.
    #[serde(rename = "importing", skip_serializing_if = "BTreeMap::is_empty")]
    pub importing: BTreeMap<String, ImportedDrives>,
}

/// The identities of what is open, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identities {
    /// As on the labels of their drives.
    pub groups: BTreeMap<String, GroupId>,
    /// The numbers of the LUs of volumes, those that are not known yet.
    pub lu_numbers: BTreeMap<String, u64>,
    /// The files of raw images.
    pub images: BTreeMap<String, RawFile>,
}

/// What is known of the file of a raw image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawFile {
    /// Its length.
    pub len_bytes: u64,
    /// What tells it from any other file under its path, where its file system has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u64>,
}

/// What to do about a raw image whose file is not the one that was served.
pub const RAW_FILE_TO_DO: &str = "put the file back as it was, then restart the array; or if this is the content \
                                  that hosts are to find, delete the image and create it anew";

impl RawFile {
    /// Why the file that is there now is not served as this one; `None`: it is. It may have grown.
    pub fn differs(&self, now: &RawFile) -> Option<String> {
        let (had, has) = (self.len_bytes, now.len_bytes);
        let what = match (self.file, now.file) {
            _ if has < had => format!("its file was cut: it has {has} bytes, and had {had}"),
            (Some(file), Some(other)) if file != other => {
                "its file is not the one that was served: it was replaced, or copied to its place".to_owned()
            }
            _ => return None,
        };
        Some(what)
    }
}

impl Identities {
    /// Adds those of another controller.
    pub fn extend(&mut self, other: Identities) {
        self.groups.extend(other.groups);
        self.lu_numbers.extend(other.lu_numbers);
        self.images.extend(other.images);
    }
}

/// What is declared and not open, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotOpen {
    /// Those whose drives are missing, or that cannot be opened or made.
    pub groups: BTreeSet<String>,
    /// Those with a group or a journal that is missing, or whose groups hold no such pool.
    pub pools: BTreeSet<String>,
    /// Those of such pools, and those that their pool does not have.
    pub volumes: BTreeSet<String>,
}

impl NotOpen {
    /// Adds what another controller has not open.
    pub fn extend(&mut self, other: NotOpen) {
        self.groups.extend(other.groups);
        self.pools.extend(other.pools);
        self.volumes.extend(other.volumes);
    }
}

/// A group that was made, or is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeGroup {
    /// The identity on its labels; not known of one that an older masu made, until it is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<GroupId>,
    /// Whether it was made whole. Until then no host has written to it, and creation goes on where it was
    /// interrupted.
    #[serde(default = "yes")]
    pub ready: bool,
}

/// A group that is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedGroup {
    /// The identity on its labels. Without it, array and name on a label say whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<GroupId>,
    /// Its drives, which are declared no more, by name. A list would be a table that older versions do not
    /// pass over.
    pub drives: BTreeMap<String, DriveConfig>,
}

/// The drives of a pool that is being imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedDrives {
    /// By their paths, which are their names here.
    pub drives: BTreeMap<String, DriveConfig>,
}

fn yes() -> bool {
    true
}

impl Made {
    /// All of a declaration that an older masu kept: it did not say what was made, and made everything at
    /// once.
    pub fn all_of(config: &Config) -> Made {
        let mut made = Made::default();
        made.finish(config, &Identities::default(), &NotOpen::default());
        made
    }

    /// Whether the group was made whole.
    pub fn has_group(&self, name: &str) -> bool {
        self.groups.get(name).is_some_and(|group| group.ready)
    }

    /// Notes that everything in the declaration was made but for what is not open, and forgets what is in it
    /// no more. What was made before stays so, open or not. `ids` are those of what is open.
    /// What lies in memory is never noted: it ends with the process, and every start makes it.
    pub fn finish(&mut self, config: &Config, ids: &Identities, not_open: &NotOpen) {
        let ssds = config.cache.iter().flat_map(|c| &c.ssds);
        let open = config.groups.iter().filter(|g| !not_open.groups.contains(&g.name));
        let used = open.flat_map(|g| &g.drives).chain(&config.spares).chain(ssds);
        self.drives.extend(used.cloned());
        self.drives.retain(|name| config.drives.iter().any(|d| d.name == *name));
        self.devices.retain(|name, _| self.drives.contains(name));
        self.displaced.retain(|name, _| self.drives.contains(name));
        let known = std::mem::take(&mut self.groups);
        let id_of = |name: &str| ids.groups.get(name).copied().or_else(|| known.get(name)?.id);
        let of = |name: &String| {
            let before = known.get(name);
            let ready = !not_open.groups.contains(name) || before.is_some_and(|group| group.ready);
            (ready || before.is_some()).then(|| (name.clone(), MadeGroup { id: id_of(name), ready }))
        };
        self.groups = config.groups.iter().filter(|g| lasts(config, g)).filter_map(|g| of(&g.name)).collect();
        let lasting = |name: &String| self.groups.contains_key(name);
        let was_made = std::mem::take(&mut self.pools);
        let is_made = |name: &String| !not_open.pools.contains(name) || was_made.contains(name);
        let pools = config.pools.iter().filter(|p| p.groups.iter().chain(&p.leaving).any(lasting));
        self.pools = pools.map(|p| &p.name).filter(|name| is_made(name)).cloned().collect();
        let was_made = std::mem::take(&mut self.volumes);
        let is_made = |name: &String| !not_open.volumes.contains(name) || was_made.contains(name);
        let volumes = config.volumes.iter().filter(|v| self.pools.contains(&v.pool));
        self.volumes = volumes.map(|v| &v.name).filter(|name| is_made(name)).cloned().collect();
        self.lu_numbers.extend(ids.lu_numbers.clone());
        self.lu_numbers.retain(|name, _| self.volumes.contains(name));
        self.images.extend(ids.images.clone());
        self.images.retain(|name, _| config.image(name).is_some());
        self.discarded.retain(|name, _| config.volume(name).is_none());
        self.deleted_pools.retain(|name| config.pool(name).is_some());
        self.exported_pools.retain(|name| config.pool(name).is_some());
        self.overwrite.clear();
        self.is_first = false;
    }
}

/// Whether a group outlives the process.
fn lasts(config: &Config, group: &GroupConfig) -> bool {
    let in_memory = |spec: &DriveSpec| matches!(spec, DriveSpec::Memory { .. });
    let own = config.drives.iter().filter(|d| group.drives.contains(&d.name));
    own.into_iter().any(|d| !in_memory(&d.spec))
}
