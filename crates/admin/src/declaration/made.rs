//! What the array has made, as its state keeps it.

use std::collections::{BTreeMap, BTreeSet};

use array::config::{GroupId, Made as MadeObjects, MadeGroup};
use serde::{Deserialize, Serialize};

/// The table `[made]` of the state. No declaration that a person writes has it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Made {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    drives: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pools: BTreeSet<String>,
    /// Written by versions before, and not asked for: the volumes of a pool know their journal.
    #[serde(rename = "journals", skip_serializing)]
    _journals: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    volumes: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    overwrite: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    discarded: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    devices: BTreeMap<String, String>,
    #[serde(rename = "group", skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<String, Group>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// 32 hexadecimal digits; not there when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default = "yes")]
    ready: bool,
}

fn yes() -> bool {
    true
}

impl Made {
    pub(super) fn of(made: &MadeObjects) -> Made {
        let group = |group: &MadeGroup| Group { id: group.id.map(|id| id.to_string()), ready: group.ready };
        Made {
            drives: made.drives.clone(),
            pools: made.pools.clone(),
            _journals: BTreeSet::new(),
            volumes: made.volumes.clone(),
            overwrite: made.overwrite.clone(),
            discarded: made.discarded.clone(),
            devices: made.devices.clone(),
            groups: made.groups.iter().map(|(name, g)| (name.clone(), group(g))).collect(),
        }
    }

    pub(super) fn to_objects(&self) -> MadeObjects {
        let id = |text: &String| u128::from_str_radix(text, 16).ok().map(|id| GroupId(id.to_be_bytes()));
        let group = |g: &Group| MadeGroup { id: g.id.as_ref().and_then(id), ready: g.ready };
        MadeObjects {
            drives: self.drives.clone(),
            pools: self.pools.clone(),
            volumes: self.volumes.clone(),
            overwrite: self.overwrite.clone(),
            discarded: self.discarded.clone(),
            devices: self.devices.clone(),
            displaced: BTreeMap::new(),
            groups: self.groups.iter().map(|(name, g)| (name.clone(), group(g))).collect(),
        }
    }
}
