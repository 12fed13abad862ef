//! Drives and RAID groups.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use world::{DriveSpec, RbdImage};

use crate::{schema, size};

/// What hosts keep of the drives' time during a rebuild.
pub const FOREGROUND_SHARE_PERCENT_DEFAULT: u8 = 70;
/// Bounds of it.
pub(crate) const FOREGROUND_SHARE_PERCENT: std::ops::RangeInclusive<u8> = 1..=99;

/// A drive: exactly one of `file`, `device`, `rbd` and `memory = true`. masu refuses a drive that has data of
/// others, unless `--overwrite` names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written", into = "Written")]
pub struct DriveConfig {
    /// Its name in the array.
    pub name: String,
    /// What to open.
    pub spec: DriveSpec,
}

/// A drive as a person writes it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Unique among drives; groups, spares and the cache refer to it.
    #[schemars(with = "schema::Name")]
    name: String,
    /// A file, relative to the data directory; created sparse, with `size`, when the array is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    /// A block device, used as a whole. masu remembers its identity, and finds it under a new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<PathBuf>,
    /// A Ceph RBD image, as `POOL/IMAGE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rbd: Option<String>,
    /// The Ceph user of `rbd`. Without it librbd chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rbd_user: Option<String>,
    /// The Ceph configuration file of `rbd`, relative to the data directory. Without it librbd chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rbd_conf: Option<PathBuf>,
    /// A drive in memory, for experiments: its content ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(!skip_serializing_if)]
    memory: bool,
    /// Size of a new `file`, or of a drive in memory, which requires it.
    #[serde(default, deserialize_with = "size::some_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Size>")]
    size: Option<u64>,
}

impl TryFrom<Written> for DriveConfig {
    type Error = String;

    fn try_from(written: Written) -> Result<DriveConfig, String> {
        let Written { name, file, device, rbd, rbd_user, rbd_conf, memory, size } = written;
        let refuse = |cause: &str| format!("drive {name:?}: {cause}");
        if rbd.is_none() && (rbd_user.is_some() || rbd_conf.is_some()) {
            return Err(refuse("rbd_user and rbd_conf need rbd = \"POOL/IMAGE\""));
        }
        let spec = match (file, device, rbd, memory) {
            (Some(path), None, None, false) => DriveSpec::File { path, create_len_bytes: size },
            (None, Some(path), None, false) => DriveSpec::Device { path },
            (None, None, Some(image), false) => {
                let image = RbdImage::named(&image).map_err(|cause| refuse(&cause))?;
                DriveSpec::Rbd(RbdImage { user: rbd_user, conf: rbd_conf, ..image })
            }
            (None, None, None, true) => DriveSpec::Memory {
                name: name.clone(),
                len_bytes: size.ok_or_else(|| refuse("a memory drive needs a size"))?,
            },
            _ => return Err(refuse("needs exactly one of file, device, rbd and memory = true")),
        };
        Ok(DriveConfig { name, spec })
    }
}

impl From<DriveConfig> for Written {
    fn from(DriveConfig { name, spec }: DriveConfig) -> Written {
        let written = Written {
            name,
            file: None,
            device: None,
            rbd: None,
            rbd_user: None,
            rbd_conf: None,
            memory: false,
            size: None,
        };
        match spec {
            DriveSpec::File { path, create_len_bytes } => {
                Written { file: Some(path), size: create_len_bytes, ..written }
            }
            DriveSpec::Device { path } => Written { device: Some(path), ..written },
            DriveSpec::Rbd(image) => {
                Written { rbd: Some(image.path()), rbd_user: image.user, rbd_conf: image.conf, ..written }
            }
            DriveSpec::Memory { len_bytes, .. } => Written { memory: true, size: Some(len_bytes), ..written },
            // No declaration has a drive that is an image file, or one that is read-only.
            DriveSpec::Image { path, .. }
            | DriveSpec::ImageWithin { path, .. }
            | DriveSpec::ReadOnly { path } => Written { file: Some(path), ..written },
            // A modelled drive is declared by a scenario, never by array.toml.
            DriveSpec::Modelled { name } => Written { name, ..written },
        }
    }
}

/// A RAID group of drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// Unique among groups; pools refer to it.
    #[schemars(with = "schema::Name")]
    pub name: String,
    /// RAID level.
    pub level: Level,
    /// Names of its drives, in order. A drive is in one group only.
    #[schemars(with = "Vec<schema::Name>")]
    pub drives: Vec<String>,
    /// Stripe unit; 0: masu chooses from 8KiB to 64KiB by level and number of drives.
    #[serde(default, rename = "stripe_unit", deserialize_with = "size::bytes")]
    #[schemars(with = "schema::Size")]
    pub stripe_unit_bytes: u32,
    /// Share of the drives' time that hosts keep while the group is rebuilt or scrubbed.
    #[serde(default = "foreground_share", rename = "foreground_share")]
    #[schemars(range(min = *FOREGROUND_SHARE_PERCENT.start(), max = *FOREGROUND_SHARE_PERCENT.end()))]
    #[schemars(extend("x-unit" = "%"))]
    pub foreground_share_percent: u8,
    /// Open the group although drives are missing that may hold later writes. The operator states that they
    /// do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(!skip_serializing_if)]
    pub start_degraded: bool,
    /// Speed of its drives, relative to other groups of its pool: hot pages move to faster groups.
    #[serde(default, skip_serializing_if = "Class::is_default")]
    #[schemars(!skip_serializing_if)]
    pub class: Class,
}

fn foreground_share() -> u8 {
    FOREGROUND_SHARE_PERCENT_DEFAULT
}

impl GroupConfig {
    /// A group of these drives, with the stripe unit that suits their number.
    pub fn new(name: String, level: Level, drives: Vec<String>) -> GroupConfig {
        GroupConfig {
            name,
            level,
            stripe_unit_bytes: stripe_unit_bytes_default(level, drives.len()),
            drives,
            foreground_share_percent: FOREGROUND_SHARE_PERCENT_DEFAULT,
            start_degraded: false,
            class: Class::default(),
        }
    }

    pub(crate) fn complete(&mut self) {
        if self.stripe_unit_bytes == 0 {
            self.stripe_unit_bytes = stripe_unit_bytes_default(self.level, self.drives.len());
        }
    }
}

/// How fast the drives of a group are, in the operator's words; the fastest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// For hot pages.
    Fast,
    /// The usual class.
    #[default]
    Capacity,
    /// For cold pages.
    Archive,
}

impl Class {
    fn is_default(&self) -> bool {
        *self == Class::default()
    }
}

/// How data lies on the drives of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", try_from = "LevelName")]
#[schemars(inline, !try_from)]
pub enum Level {
    /// Stripes, no redundancy; 1 drive or more.
    Raid0,
    /// Mirrors; all drives but one may fail; 2 or more.
    Raid1,
    /// Stripes over pairs of mirrors; one drive of each pair may fail; 4 or more, an even number.
    Raid10,
    /// One parity; one drive may fail; 3 or more.
    Raid5,
    /// Two parities; two drives may fail; 4 or more.
    Raid6,
}

impl Level {
    /// All levels.
    pub const ALL: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6];

    /// The level of a name: `raid5` or `5`, in any case.
    ///
    /// # Errors
    /// The name, and those that are known.
    pub fn named(name: &str) -> Result<Level, String> {
        let is = |level: &Level| {
            let known = level.to_string();
            known.eq_ignore_ascii_case(name) || known.strip_prefix("RAID") == Some(name)
        };
        let known = Level::ALL.into_iter().find(is);
        known.ok_or_else(|| {
            format!("unknown RAID level {name:?}: must be raid0, raid1, raid10, raid5 or raid6")
        })
    }

    /// The fewest drives that make sense.
    pub fn drives_min(self) -> usize {
        match self {
            Level::Raid0 => 1,
            Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid10 | Level::Raid6 => 4,
        }
    }
}

/// How a declaration names a level: `"raid5"`, `"5"` or `5`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a RAID level: must be raid0, raid1, raid10, raid5 or raid6")]
enum LevelName {
    Number(u64),
    Text(String),
}

impl TryFrom<LevelName> for Level {
    type Error = String;

    fn try_from(name: LevelName) -> Result<Level, String> {
        match name {
            LevelName::Number(number) => Level::named(&number.to_string()),
            LevelName::Text(text) => Level::named(&text),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_uppercase())
    }
}

/// The largest stripe unit that is chosen: a 64 KiB request stays on one drive, a 1 MiB request uses 16.
const STRIPE_UNIT_BYTES_MAX: u32 = 64 << 10;
/// The smallest one.
const STRIPE_UNIT_BYTES_MIN: u32 = 8 << 10;
/// Pages of this size should lose little to whole rows.
const PAGE_BYTES: u64 = 1 << 20;

/// The stripe unit of a group for which nobody chose one: the largest from 64 KiB down to 8 KiB with which
/// pages of 1 MiB that take whole rows waste at most a tenth; where none does, the one that wastes least.
pub fn stripe_unit_bytes_default(level: Level, width: usize) -> u32 {
    let parities = match level {
        Level::Raid0 | Level::Raid1 | Level::Raid10 => return STRIPE_UNIT_BYTES_MAX,
        Level::Raid5 => 1,
        Level::Raid6 => 2,
    };
    let data_drives = width.saturating_sub(parities).max(1) as u64;
    let waste = |unit: u32| PAGE_BYTES.next_multiple_of(u64::from(unit) * data_drives) - PAGE_BYTES;
    let units = std::iter::successors(Some(STRIPE_UNIT_BYTES_MAX), |unit| Some(unit / 2))
        .take_while(|unit| *unit >= STRIPE_UNIT_BYTES_MIN);
    let counts = |waste: u64| if waste * 10 <= PAGE_BYTES { 0 } else { waste };
    units.min_by_key(|unit| counts(waste(*unit))).unwrap_or(STRIPE_UNIT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_stripe_unit_suits_pages() {
        let check = |level, width, unit: u32| assert_eq!(stripe_unit_bytes_default(level, width), unit << 10);
        check(Level::Raid1, 2, 64);
        check(Level::Raid5, 9, 64);
        check(Level::Raid5, 4, 32);
        check(Level::Raid5, 8, 32);
        check(Level::Raid6, 6, 64);
        check(Level::Raid6, 8, 16);
        check(Level::Raid6, 32, 8);
    }
}
