//! `array.toml`: the declaration of an array as a person writes it, converted to [`array::Config`] at the edge.
//!
//! ```toml
//! target = "iqn.2026-11.net.example:masu"
//! discovery_chap = true    # hosts that have a secret prove it before they are told the target's name and portals
//! drive_slow_ms = 2000     # a drive that does not answer for so long is read around, where others have its data
//! drive_drop_ms = 10000    # and dropped, where its group can do without it
//! spares = ["s0"]          # any group that loses a drive takes one
//!
//! [[portal]]
//! listen = "127.0.0.1:3260"
//!
//! [[drive]]
//! name = "d0"
//! file = "d0.img"          # or device = "/dev/sdb", or memory = true
//! size = "64GiB"
//!
//! [[group]]
//! name = "g0"
//! level = "raid5"          # raid0, raid1, raid10, raid5, raid6
//! drives = ["d0", "d1", "d2", "d3"]
//! foreground_share = 70    # percent of the time that hosts keep while it is rebuilt or scrubbed
//! class = "capacity"       # or fast, or archive: in a pool with groups of several classes hot pages move to the faster ones
//!
//! [cache]                  # of each controller; without it nothing is cached
//! memory = "1GiB"
//! direct = "256KiB"        # reads and writes of this size and more pass by it
//! ssds = ["s1"]            # keeps what the memory gives up; its content is lost
//!
//! [qos]                    # what holds for all policies; these are the values when nothing is said
//! unit = "8KiB"            # a request counts as one for each such part: normalised IOPS
//! depth = 64               # requests that a pool with policies works on at once at most
//! background_minimum = 1280    # of rebuilds, evacuations and their like, in each pool
//! background_weight = 100
//!
//! [[policy]]
//! name = "gold"
//! minimum = 3000           # normalised IOPS that a volume gets when it asks for them
//! maximum = 5000           # and no more than these
//! bandwidth = "40MiB"      # in a second at most
//! weight = 200             # of what is left; 100 is that of volumes without a policy
//! burst = 0                # normalised IOPS that it may be ahead after it was idle
//! sharing = "dedicated"    # or aggregated: the volumes of a pool that have it share it
//!
//! [[cache.partition]]
//! name = "gold"
//! minimum = "256MiB"       # that others leave to its volumes when they need it
//!
//! [[pool]]
//! name = "p0"
//! groups = ["g0"]
//! journal = "j0"           # a group of its own: what hosts write is durable on it before it is in place
//! soft_threshold_percent = 80      # warnings, to hosts, too
//! critical_threshold_percent = 95
//!
//! [[volume]]
//! name = "v0"
//! pool = "p0"
//! size = "10GiB"
//! cache = "write-back"     # or write-through, or off
//! partition = "gold"       # of the cache
//! policy = "gold"
//!
//! [[image]]                # a virtual disk in a file, VHD or VHDX, which hosts see like a volume
//! name = "i0"
//! file = "i0.vhdx"         # its parents are found by what it says of them
//! format = "vhdx"          # or raw, vhd-fixed, vhd-dynamic, vhd-differencing; fixed when it is declared first
//! parents_in = ["golden"]  # directories in which its parents may lie, beside its own
//! read_only = false
//! controller = 0           # that serves it
//! policy = "gold"          # among the images of that controller
//!
//! [[host]]
//! name = "kvm1"
//! initiator = "iqn.2004-10.com.example:kvm1"
//! chap = { name = "kvm1", secret = "twelve bytes or more" }
//! luns = { 0 = "v0" }
//! ```

// The fuzz target takes this file by its path, and looks for its modules beside it.
#[path = "declaration/caching.rs"]
mod caching;
#[path = "declaration/drives.rs"]
mod drives;
#[path = "declaration/hosts.rs"]
mod hosts;
#[path = "declaration/images.rs"]
pub(crate) mod images;
#[path = "declaration/made.rs"]
mod made;
#[path = "declaration/policies.rs"]
mod policies;
#[path = "declaration/pools.rs"]
mod pools;
#[path = "declaration/size.rs"]
mod size;

use std::path::Path;
use std::time::Duration;

use array::Patience;
use array::config::{ArrayId, Config, ConfigError, Made};
use serde::{Deserialize, Serialize};

use caching::Cache;
pub use caching::CacheName;
pub use drives::ClassName;
use drives::{Drive, Group};
use hosts::{Host, Portal};
use images::Image;
use policies::{Policy, Qos};
use pools::{Pool, Volume};

/// What is wrong with a declaration, with file, line and key.
#[derive(Debug, thiserror::Error)]
pub enum DeclarationError {
    /// The file cannot be read.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        cause: String,
    },
    /// The text is no such TOML.
    #[error("{path}:{line}: {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        cause: String,
    },
    /// The declaration does not hold together.
    #[error("{place}: {cause}")]
    Wrong {
        /// The file, and the line of the object where there is one.
        place: String,
        /// What is wrong and where.
        cause: ConfigError,
    },
}

/// The declaration as TOML.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// The array's identity on its drives' labels, 32 hexadecimal digits; chosen at random when it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// iSCSI name of the target.
    #[serde(default = "default_target")]
    pub target: String,
    /// Controllers (threads).
    #[serde(default = "one")]
    pub controllers: usize,
    /// Whether a host that has a secret must prove it before it is told the target's name and portals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    discovery_chap: bool,
    /// A drive that does not answer for so long is read around, where others have its data.
    #[serde(default = "drive_slow_ms", skip_serializing_if = "is_drive_slow_ms")]
    drive_slow_ms: u64,
    /// A drive that does not answer for so long is dropped, where its group can do without it; operations on others fail.
    #[serde(default = "drive_drop_ms", skip_serializing_if = "is_drive_drop_ms")]
    drive_drop_ms: u64,
    /// Drives that any group takes by itself when it loses one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spares: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache: Option<Cache>,
    #[serde(default, skip_serializing_if = "Qos::is_default")]
    qos: Qos,
    #[serde(default, rename = "policy", skip_serializing_if = "Vec::is_empty")]
    policies: Vec<Policy>,
    #[serde(default, rename = "portal", skip_serializing_if = "Vec::is_empty")]
    portals: Vec<Portal>,
    #[serde(default, rename = "drive", skip_serializing_if = "Vec::is_empty")]
    drives: Vec<Drive>,
    #[serde(default, rename = "group", skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Group>,
    #[serde(default, rename = "pool", skip_serializing_if = "Vec::is_empty")]
    pools: Vec<Pool>,
    #[serde(default, rename = "volume", skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<Volume>,
    #[serde(default, rename = "image", skip_serializing_if = "Vec::is_empty")]
    images: Vec<Image>,
    #[serde(default, rename = "host", skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<Host>,
    /// What the array has made: only its own state has this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<made::Made>,
}

fn default_target() -> String {
    "iqn.2026-11.net.masu:array".into()
}
fn one() -> usize {
    1
}
impl Declaration {
    /// Reads a file. Relative drive files are taken from `data_dir`.
    pub fn read(path: &Path, data_dir: &Path) -> Result<Config, DeclarationError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| DeclarationError::Read { path: shown.clone(), cause: e.to_string() })?;
        Declaration::parse(&text, &shown, data_dir)
    }

    /// Reads a text; `path` is how it is called in messages.
    pub fn parse(text: &str, path: &str, data_dir: &Path) -> Result<Config, DeclarationError> {
        let (config, made) = Declaration::parse_state(text, path, data_dir)?;
        match made {
            None => Ok(config),
            Some(_) => {
                let cause = "masu keeps this table by itself: remove it from the declaration";
                let cause = ConfigError { place: "made".into(), cause: cause.into() };
                let line = line_of(text, "made").map_or(String::new(), |line| format!(":{line}"));
                Err(DeclarationError::Wrong { place: format!("{path}{line}"), cause })
            }
        }
    }

    /// Reads the state of an array: its declaration, and what it has made, unless an older masu kept it.
    pub(crate) fn parse_state(
        text: &str,
        path: &str,
        data_dir: &Path,
    ) -> Result<(Config, Option<Made>), DeclarationError> {
        let declaration: Declaration = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
            let cause = e.message().replace('\n', " ");
            DeclarationError::Syntax { path: path.into(), line, cause }
        })?;
        let config = declaration.to_config(data_dir);
        let config = config.and_then(|c| c.check().map(|()| c));
        let config = config.map_err(|cause| {
            let line = line_of(text, &cause.place).map_or(String::new(), |line| format!(":{line}"));
            DeclarationError::Wrong { place: format!("{path}{line}"), cause }
        })?;
        Ok((config, declaration.made.as_ref().map(made::Made::to_objects)))
    }

    /// Where a file declares what a place names, as in `array.toml:12`; the file alone where it does not, or is gone.
    pub fn place_in(path: &Path, place: &str) -> String {
        let line = std::fs::read_to_string(path).ok().and_then(|text| line_of(&text, place));
        line.map_or(path.display().to_string(), |line| format!("{}:{line}", path.display()))
    }

    /// The declaration of a configuration, to be kept or shown.
    pub fn of(config: &Config) -> Declaration {
        Declaration {
            id: (config.id != ArrayId::default()).then(|| config.id.to_string()),
            target: config.target.clone(),
            controllers: config.controllers,
            discovery_chap: config.discovery_chap,
            drive_slow_ms: millis(config.patience.slow),
            drive_drop_ms: millis(config.patience.drop),
            spares: config.spares.clone(),
            cache: config.cache.as_ref().map(Cache::of),
            qos: Qos::of(&config.qos),
            policies: config.policies.iter().map(Policy::of).collect(),
            portals: config.portals.iter().map(Portal::of).collect(),
            drives: config.drives.iter().map(Drive::of).collect(),
            groups: config.groups.iter().map(Group::of).collect(),
            pools: config.pools.iter().map(Pool::of).collect(),
            volumes: config.volumes.iter().map(Volume::of).collect(),
            images: config.images.iter().map(Image::of).collect(),
            hosts: config.hosts.iter().map(Host::of).collect(),
            made: None,
        }
    }

    /// The state of an array: its declaration, and what it has made.
    pub(crate) fn of_state(config: &Config, made: &Made) -> Declaration {
        Declaration { made: Some(made::Made::of(made)), ..Declaration::of(config) }
    }

    /// The TOML text.
    pub fn to_text(&self) -> String {
        toml::to_string_pretty(self).expect("a declaration has only plain values")
    }

    fn to_config(&self, data_dir: &Path) -> Result<Config, ConfigError> {
        Ok(Config {
            id: self.id.as_deref().map(parse_id).transpose()?.unwrap_or_default(),
            target: self.target.clone(),
            controllers: self.controllers,
            portals: self.portals.iter().map(Portal::to_config).collect(),
            discovery_chap: self.discovery_chap,
            patience: Patience {
                slow: Duration::from_millis(self.drive_slow_ms),
                drop: Duration::from_millis(self.drive_drop_ms),
            },
            drives: self.drives.iter().map(|d| d.to_config(data_dir)).collect::<Result<_, _>>()?,
            spares: self.spares.clone(),
            cache: self.cache.as_ref().map(Cache::to_config),
            qos: self.qos.to_config(),
            policies: self.policies.iter().map(Policy::to_config).collect(),
            groups: self.groups.iter().map(Group::to_config).collect(),
            pools: self.pools.iter().map(Pool::to_config).collect(),
            volumes: self.volumes.iter().map(Volume::to_config).collect(),
            images: self.images.iter().map(|i| i.to_config(data_dir)).collect(),
            hosts: self.hosts.iter().map(Host::to_config).collect::<Result<_, _>>()?,
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn drive_slow_ms() -> u64 {
    millis(Patience::default().slow)
}

fn drive_drop_ms() -> u64 {
    millis(Patience::default().drop)
}

fn is_drive_slow_ms(ms: &u64) -> bool {
    *ms == drive_slow_ms()
}

fn is_drive_drop_ms(ms: &u64) -> bool {
    *ms == drive_drop_ms()
}

/// The line, from 1, of the object or key that a place names: `group "g0": drives` is where `[[group]]` has the name g0.
fn line_of(text: &str, place: &str) -> Option<usize> {
    let (kind, rest) = place.split_once(' ').unwrap_or((place, ""));
    let kind = kind.trim_end_matches(':');
    let name = rest.split('"').nth(1);
    let mut table = "";
    for (line, content) in (1..).zip(text.lines().map(str::trim)) {
        if content.starts_with('[') {
            // A partition is a `[[cache.partition]]`.
            table = content.trim_matches(['[', ']']).rsplit('.').next().unwrap_or_default();
            continue;
        }
        let Some((key, value)) = content.split_once('=') else { continue };
        let found = match name {
            Some(name) => table == kind && key.trim() == "name" && value.split('"').nth(1) == Some(name),
            None => table == kind || table.is_empty() && key.trim() == kind,
        };
        // A spare is a name in a list of the top level.
        let spare = kind == "spare" && table.is_empty() && key.trim() == "spares";
        if found || spare {
            return Some(line);
        }
    }
    None
}

fn parse_id(text: &str) -> Result<ArrayId, ConfigError> {
    let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let value = u128::from_str_radix(text, 16).ok().filter(|_| digits);
    let value =
        value.ok_or(ConfigError { place: "id".into(), cause: "32 hexadecimal digits are needed".into() })?;
    Ok(ArrayId(value.to_be_bytes()))
}

#[cfg(test)]
#[path = "declaration/tests.rs"]
mod tests;
