//! The array as a whole, and how its objects refer to each other.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use world::{DriveSpec, Patience, RbdImage};

use crate::{
    ArrayId, CacheSettings, DriveConfig, GroupConfig, HostConfig, ImageConfig, PolicyConfig, PoolConfig,
    PortalConfig, QosSettings, TraceSettings, VolumeConfig, schema,
};

/// The array as a whole: its iSCSI name, its controllers, and how long it waits for drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The array's identity, on the label of every drive it owns. If it is missing, masu chooses one at
    /// random at the first start, and keeps it. `masu config export` writes it.
    #[serde(default, skip_serializing_if = "ArrayId::is_default")]
    pub id: ArrayId,
    /// The iSCSI name of the target.
    #[serde(default = "target")]
    #[schemars(pattern(r"^(iqn|eui|naa)\."))]
    pub target: String,
    /// Number of controllers. A controller is one thread; it owns portals, pools and their LUs.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = CONTROLLERS_MAX))]
    pub controllers: usize,
    /// Of an array of several nodes: the node that runs each controller while it is up, by its `--node`, the
    /// first for controller 0. The owner runs those of nodes that are down, and those of `""`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub controller_nodes: Vec<String>,
    /// Whether hosts may move a pool to another controller of the array (SET TARGET PORT GROUPS): explicit
    /// ALUA.
    #[serde(default = "on", skip_serializing_if = "Clone::clone")]
    #[schemars(!skip_serializing_if)]
    pub explicit_alua: bool,
    /// Whether masu moves a pool from a controller that is over 70 % busy for a minute to one that is under
    /// 40 %.
    #[serde(default = "on", skip_serializing_if = "Clone::clone")]
    #[schemars(!skip_serializing_if)]
    pub balance: bool,
    /// Whether discovery sessions authenticate, too: a host with a `chap` secret learns the target's name and
    /// portals only after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(!skip_serializing_if)]
    pub discovery_chap: bool,
    /// A drive that has not answered for this time is slow: other drives serve its reads, where the group is
    /// redundant.
    #[serde(default = "drive_slow_ms", skip_serializing_if = "is_drive_slow_ms")]
    #[schemars(!skip_serializing_if)]
    #[schemars(range(min = *DRIVE_SLOW_MS.start(), max = *DRIVE_SLOW_MS.end()), extend("x-unit" = "ms"))]
    pub drive_slow_ms: u64,
    /// A drive that has not answered for this time fails if its group is redundant; without redundancy its
    /// operations fail. At least twice `drive_slow_ms`. Without it 10000, and 60000 for RBD images, since
    /// Ceph needs more than 20 s to go over to other OSDs. Both times are longer in a long queue of which
    /// operations end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2 * *DRIVE_SLOW_MS.start(), max = DRIVE_DROP_MS_MAX), extend("x-unit" = "ms"))]
    pub drive_drop_ms: Option<u64>,
    /// Drives in no group. One of suitable size replaces a drive that fails, in any group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::Name>", !skip_serializing_if)]
    pub spares: Vec<String>,
    /// The cache of each controller. Without this table nothing is cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSettings>,
    /// Settings of all policies.
    #[serde(default, skip_serializing_if = "QosSettings::is_default")]
    pub qos: QosSettings,
    /// Traces of a share of the commands. Without this table no command is traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<TraceSettings>,
    /// Policies: the service of volumes and images.
    #[serde(default, rename = "policy", skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyConfig>,
    /// Addresses to which hosts connect.
    #[serde(default, rename = "portal", skip_serializing_if = "Vec::is_empty")]
    pub portals: Vec<PortalConfig>,
    /// Drives: files, block devices, Ceph RBD images, and memory.
    #[serde(default, rename = "drive", skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveConfig>,
    /// RAID groups of drives.
    #[serde(default, rename = "group", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupConfig>,
    /// Pools of groups.
    #[serde(default, rename = "pool", skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolConfig>,
    /// Volumes in pools.
    #[serde(default, rename = "volume", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeConfig>,
    /// Virtual disk images in files, served as LUs.
    #[serde(default, rename = "image", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageConfig>,
    /// Hosts, and the LUs that each sees.
    #[serde(default, rename = "host", skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostConfig>,
}

/// Controllers at most.
pub(crate) const CONTROLLERS_MAX: usize = 64;
/// Bounds of `drive_slow_ms`.
pub(crate) const DRIVE_SLOW_MS: std::ops::RangeInclusive<u64> = 250..=60_000;
/// The longest `drive_drop_ms`.
pub(crate) const DRIVE_DROP_MS_MAX: u64 = 600_000;
/// `drive_drop_ms` of RBD images where it is not declared. Ceph takes an OSD for failed after 20 s
/// (osd_heartbeat_grace), and its placement groups go over to others after that: an image that answers
/// nothing meanwhile is not lost, and a group that cannot do without it would fail commands that Ceph is
/// about to carry out. Hosts wait 30 to 60 s.
const RBD_DROP: Duration = Duration::from_secs(60);

fn target() -> String {
    "iqn.2026-11.net.masu:array".into()
}
fn one() -> usize {
    1
}
fn on() -> bool {
    true
}
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
fn drive_slow_ms() -> u64 {
    millis(Patience::default().slow)
}
fn is_drive_slow_ms(ms: &u64) -> bool {
    *ms == drive_slow_ms()
}

impl Config {
    /// An array with nothing in it.
    pub fn empty(target: &str) -> Config {
        Config {
            id: ArrayId::default(),
            target: target.into(),
            controllers: 1,
            controller_nodes: vec![],
            portals: vec![],
            explicit_alua: true,
            balance: true,
            discovery_chap: false,
            drive_slow_ms: drive_slow_ms(),
            drive_drop_ms: None,
            drives: vec![],
            spares: vec![],
            qos: QosSettings::default(),
            traces: None,
            policies: vec![],
            cache: None,
            groups: vec![],
            pools: vec![],
            volumes: vec![],
            images: vec![],
            hosts: vec![],
        }
    }

    /// How long a drive at this place ([`DriveSpec::name`]) may be silent.
    pub fn patience_of(&self, place: &str) -> Patience {
        let is_here = |image: &RbdImage| image.to_string() == place;
        let is_rbd = self.drives.iter().any(|d| matches!(&d.spec, DriveSpec::Rbd(image) if is_here(image)));
        let default = if is_rbd { RBD_DROP } else { Patience::default().drop };
        let slow = Duration::from_millis(self.drive_slow_ms);
        Patience { slow, drop: self.drive_drop_ms.map_or(default, Duration::from_millis) }
    }

    /// The shortest time after which any drive is unresponsive, in milliseconds.
    pub(crate) fn least_drop_ms(&self) -> u64 {
        self.drive_drop_ms.unwrap_or_else(|| millis(Patience::default().drop))
    }

    /// This declaration with another laid over it: objects of the same name become the other's, what the
    /// other does not name stays; target, controllers and portals are the other's.
    pub fn overlaid_with(self, mut other: Config) -> Config {
        other.images.iter_mut().for_each(|image| image.keep_format(self.image(&image.name)));
        // Who is declared without a policy keeps the one that it was given.
        for (kind, name, policy) in other.promised_mut().filter(|(_, _, policy)| policy.is_none()) {
            *policy = self.policy_of(kind, name).cloned();
        }
        Config {
            id: self.id,
            target: other.target,
            controllers: other.controllers,
            controller_nodes: other.controller_nodes.clone(),
            portals: if other.portals.is_empty() { self.portals } else { other.portals },
            explicit_alua: other.explicit_alua,
            balance: other.balance,
            discovery_chap: other.discovery_chap,
            drive_slow_ms: other.drive_slow_ms,
            drive_drop_ms: other.drive_drop_ms,
            drives: overlay(self.drives, other.drives, |d| &d.name),
            spares: overlay(self.spares, other.spares, |s| s),
            qos: other.qos,
            traces: other.traces,
            policies: overlay(self.policies, other.policies, |p| &p.name),
            cache: overlay_cache(self.cache, other.cache),
            groups: overlay(self.groups, other.groups, |g| &g.name),
            pools: overlay(self.pools, other.pools, |p| &p.name),
            volumes: overlay(self.volumes, other.volumes, |v| &v.name),
            images: overlay(self.images, other.images, |i| &i.name),
            hosts: overlay(self.hosts, other.hosts, |h| &h.name),
        }
    }

    /// The volume of that name.
    pub fn volume(&self, name: &str) -> Option<&VolumeConfig> {
        self.volumes.iter().find(|v| v.name == name)
    }

    /// The image of that name.
    pub fn image(&self, name: &str) -> Option<&ImageConfig> {
        self.images.iter().find(|i| i.name == name)
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<&PoolConfig> {
        self.pools.iter().find(|p| p.name == name)
    }

    /// The policy of that name.
    pub fn policy(&self, name: &str) -> Option<&PolicyConfig> {
        self.policies.iter().find(|p| p.name == name)
    }

    /// All that can be promised something, volumes and images: which of the two it is, in a word, its name,
    /// and the policy that is declared for it.
    pub fn promised(&self) -> impl Iterator<Item = (&'static str, &String, Option<&String>)> {
        let volumes = self.volumes.iter().map(|v| ("volume", &v.name, v.policy.as_ref()));
        volumes.chain(self.images.iter().map(|i| ("image", &i.name, i.policy.as_ref())))
    }

    /// The same, to promise them something else.
    pub fn promised_mut(&mut self) -> impl Iterator<Item = (&'static str, &String, &mut Option<String>)> {
        let volumes = self.volumes.iter_mut().map(|v| ("volume", &v.name, &mut v.policy));
        volumes.chain(self.images.iter_mut().map(|i| ("image", &i.name, &mut i.policy)))
    }

    /// The policy that is declared for the volume or image of that name.
    fn policy_of(&self, kind: &str, name: &str) -> Option<&String> {
        self.promised().find(|(what, owner, _)| *what == kind && *owner == name)?.2
    }

    /// The host that an initiator is: the one that names it, else the one declared for `*`.
    pub fn host_of(&self, initiator: &str) -> Option<&HostConfig> {
        let named = self.hosts.iter().find(|h| h.initiator == initiator);
        named.or_else(|| self.hosts.iter().find(|h| h.initiator == "*"))
    }

    /// The controller that owns a volume or an image.
    pub fn owner_of(&self, volume: &str) -> Option<usize> {
        if let Some(image) = self.image(volume) {
            return Some(image.controller);
        }
        Some(self.pool(&self.volume(volume)?.pool)?.controller)
    }

    /// What these controllers open: their pools, groups, drives and images, and nothing else.
    pub fn of_controllers(&self, controllers: &[usize]) -> Config {
        let is_its = |controller: usize| controllers.contains(&controller);
        let mut part = self.clone();
        part.groups.retain(|group| is_its(self.owner_of_group(&group.name)));
        part.pools.retain(|pool| is_its(pool.controller));
        part.volumes.retain(|volume| part.pools.iter().any(|pool| pool.name == volume.pool));
        part.images.retain(|image| is_its(image.controller));
        let ssds = self.cache.iter().flat_map(|cache| cache.ssds.iter().enumerate());
        let ssds: Vec<&String> = ssds.filter(|(index, _)| is_its(*index)).map(|(_, name)| name).collect();
        let members: Vec<&String> = part.groups.iter().flat_map(|group| &group.drives).collect();
        part.drives.retain(|drive| members.contains(&&drive.name) || ssds.contains(&&drive.name));
        part
    }

    /// The controller of the pool that a group is in or leaves; controller 0 keeps those that are in none.
    pub fn owner_of_group(&self, group: &str) -> usize {
        let of = |p: &&PoolConfig| p.all_groups().any(|g| g == group);
        self.pools.iter().find(of).map_or(0, |p| p.controller)
    }
}

fn overlay_cache(kept: Option<CacheSettings>, declared: Option<CacheSettings>) -> Option<CacheSettings> {
    let Some(mut declared) = declared else { return kept };
    let kept = kept.map(|c| c.partitions).unwrap_or_default();
    declared.partitions = overlay(kept, declared.partitions, |p| &p.name);
    Some(declared)
}

fn overlay<T>(mut kept: Vec<T>, declared: Vec<T>, name: impl Fn(&T) -> &String) -> Vec<T> {
    for new in declared {
        match kept.iter_mut().find(|old| name(old) == name(&new)) {
            Some(old) => *old = new,
            None => kept.push(new),
        }
    }
    kept
}
