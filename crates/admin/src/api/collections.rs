//! The collections: which objects each has, by name, and their tags.

use config::Config;
use serde::Serialize;
use serde_json::Value;
use status::Status;

use crate::digest::sha256;

/// A collection of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collection {
    Volumes,
    Snapshots,
    Pools,
    Groups,
    Drives,
    Hosts,
    Policies,
    Images,
    Jobs,
    Nodes,
}

/// Bytes of a tag: enough that no two declarations of an object have the same.
const TAG_BYTES: usize = 12;

impl Collection {
    pub(super) const ALL: [Collection; 10] = [
        Collection::Volumes,
        Collection::Snapshots,
        Collection::Pools,
        Collection::Groups,
        Collection::Drives,
        Collection::Hosts,
        Collection::Policies,
        Collection::Images,
        Collection::Jobs,
        Collection::Nodes,
    ];

    /// The end of its path.
    pub(super) fn name(self) -> &'static str {
        match self {
            Collection::Volumes => "volumes",
            Collection::Snapshots => "snapshots",
            Collection::Pools => "pools",
            Collection::Groups => "groups",
            Collection::Drives => "drives",
            Collection::Hosts => "hosts",
            Collection::Policies => "policies",
            Collection::Images => "images",
            Collection::Jobs => "jobs",
            Collection::Nodes => "nodes",
        }
    }

    /// What one of its objects is, as messages say it.
    pub(super) fn one(self) -> &'static str {
        match self {
            Collection::Policies => "policy",
            other => other.name().trim_end_matches('s'),
        }
    }

    /// Its objects by name, in the order of their names.
    pub(super) fn objects(self, status: &Status) -> Vec<(String, Value)> {
        let is_snapshot = |v: &&status::Volume| v.snapshot_of.is_some();
        let mut all: Vec<(String, Value)> = match self {
            Collection::Volumes => named(status.volumes.iter().filter(|v| !is_snapshot(v)), |v| &v.name),
            Collection::Snapshots => named(status.volumes.iter().filter(is_snapshot), |v| &v.name),
            Collection::Pools => named(&status.pools, |p| &p.name),
            Collection::Groups => named(&status.groups, |g| &g.name),
            Collection::Drives => named(&status.drives, |d| &d.name),
            Collection::Hosts => named(&status.hosts, |h| &h.name),
            Collection::Policies => named(&status.policies, |p| &p.name),
            Collection::Images => named(&status.images, |i| &i.name),
            Collection::Jobs => {
                status.jobs.iter().map(|j| (format!("{}:{}", j.kind, j.object), value(j))).collect()
            }
            Collection::Nodes => named(&status.nodes, |n| &n.name),
        };
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// What is declared of an object: its tag is that of this text. Counters do not change it.
    pub(super) fn declared(self, config: &Config, name: &str) -> Option<String> {
        let volume = |snapshot: bool| {
            let found = config.volumes.iter().find(|v| v.name == name && v.snapshot_of.is_some() == snapshot);
            found.map(|v| format!("{v:?}"))
        };
        match self {
            Collection::Volumes => volume(false),
            Collection::Snapshots => volume(true),
            Collection::Pools => config.pool(name).map(|p| format!("{p:?}")),
            Collection::Groups => config.groups.iter().find(|g| g.name == name).map(|g| format!("{g:?}")),
            Collection::Drives => config.drives.iter().find(|d| d.name == name).map(|d| {
                let group = config.groups.iter().find(|g| g.drives.contains(&d.name)).map(|g| &g.name);
                format!("{d:?} {group:?} {}", config.spares.contains(&d.name))
            }),
            Collection::Hosts => config.hosts.iter().find(|h| h.name == name).map(|h| format!("{h:?}")),
            Collection::Policies => config.policies.iter().find(|p| p.name == name).map(|p| format!("{p:?}")),
            Collection::Images => config.image(name).map(|i| format!("{i:?}")),
            Collection::Jobs | Collection::Nodes => None,
        }
    }

    /// Whether a new object cannot have this name. Volumes, snapshots and images share theirs.
    pub(super) fn is_taken(self, config: &Config, name: &str) -> bool {
        match self {
            Collection::Volumes | Collection::Snapshots | Collection::Images => {
                config.volume(name).is_some() || config.image(name).is_some()
            }
            other => other.declared(config, name).is_some(),
        }
    }
}

/// The tag of a declared object, as in `ETag`.
pub(super) fn tag(declared: &str) -> String {
    let hex = sha256(declared.as_bytes());
    format!("\"{}\"", &hex[..2 * TAG_BYTES])
}

fn named<'a, T: Serialize + 'a>(
    all: impl IntoIterator<Item = &'a T>,
    name: impl Fn(&'a T) -> &'a String,
) -> Vec<(String, Value)> {
    all.into_iter().map(|object| (name(object).clone(), value(object))).collect()
}

fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_changes_with_the_declaration_and_names_are_shared_where_they_are() {
        let mut config = Config::empty("iqn.2026-11.net.example:x");
        let volume = |len| config::VolumeConfig::new("v".into(), "p".into(), len);
        config.volumes = vec![volume(1 << 20)];
        let before = tag(&Collection::Volumes.declared(&config, "v").expect("it is there"));
        config.volumes = vec![volume(2 << 20)];
        let after = tag(&Collection::Volumes.declared(&config, "v").expect("it is there"));
        assert_ne!(before, after);
        assert_eq!(before.len(), 2 + 2 * TAG_BYTES);
        assert!(Collection::Images.is_taken(&config, "v") && !Collection::Pools.is_taken(&config, "v"));
        assert_eq!(Collection::Snapshots.declared(&config, "v"), None);
    }
}
