//! How drives and RAID groups are declared.

use std::path::{Path, PathBuf};

use array::DriveSpec;
use array::config::{
    Class, ConfigError, DriveConfig, FOREGROUND_SHARE_PERCENT_DEFAULT, GroupConfig, Level,
    stripe_unit_bytes_default,
};
use serde::{Deserialize, Serialize};

use super::size::Size;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drive {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    memory: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<Size>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    name: String,
    level: LevelName,
    drives: Vec<String>,
    /// What suits the level and the number of drives when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stripe_unit: Option<Size>,
    /// What of the time hosts keep while the group is rebuilt or scrubbed, in percent.
    #[serde(default = "default_foreground_share")]
    foreground_share: u8,
    /// Somebody vouches that the drives which are missing have nothing later than those that are there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    start_degraded: bool,
    /// How fast its drives are beside the other groups of its pool.
    #[serde(default, skip_serializing_if = "ClassName::is_default")]
    class: ClassName,
}

/// How fast a group is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassName {
    /// For what is used most.
    Fast,
    /// The usual one.
    #[default]
    Capacity,
    /// For what is hardly used.
    Archive,
}

impl ClassName {
    fn is_default(&self) -> bool {
        *self == ClassName::default()
    }
}

impl From<ClassName> for Class {
    fn from(name: ClassName) -> Class {
        match name {
            ClassName::Fast => Class::Fast,
            ClassName::Capacity => Class::Capacity,
            ClassName::Archive => Class::Archive,
        }
    }
}

impl From<Class> for ClassName {
    fn from(class: Class) -> ClassName {
        match class {
            Class::Fast => ClassName::Fast,
            Class::Capacity => ClassName::Capacity,
            Class::Archive => ClassName::Archive,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LevelName {
    Raid0,
    Raid1,
    Raid10,
    Raid5,
    Raid6,
}

fn default_foreground_share() -> u8 {
    FOREGROUND_SHARE_PERCENT_DEFAULT
}
impl Drive {
    pub(super) fn to_config(&self, data_dir: &Path) -> Result<DriveConfig, ConfigError> {
        let refuse =
            |cause: &str| ConfigError { place: format!("drive {:?}", self.name), cause: cause.into() };
        let len = self.size.map(|s| s.0);
        let spec = match (&self.file, &self.device, self.memory) {
            (Some(file), None, false) => DriveSpec::File { path: data_dir.join(file), create_len_bytes: len },
            (None, Some(path), false) => DriveSpec::Device { path: path.clone() },
            (None, None, true) => DriveSpec::Memory {
                name: self.name.clone(),
                len_bytes: len.ok_or_else(|| refuse("a memory drive needs a size"))?,
            },
            _ => return Err(refuse("needs exactly one of file, device and memory = true")),
        };
        Ok(DriveConfig { name: self.name.clone(), spec })
    }

    pub(super) fn of(d: &DriveConfig) -> Drive {
        let mut drive = Drive { name: d.name.clone(), file: None, device: None, memory: false, size: None };
        match &d.spec {
            // No declaration has a drive that is an image file.
            DriveSpec::Image { path, .. } | DriveSpec::ImageWithin { path, .. } => {
                drive.file = Some(path.clone())
            }
            DriveSpec::File { path, create_len_bytes } => {
                drive.file = Some(path.clone());
                drive.size = create_len_bytes.map(Size);
            }
            DriveSpec::Device { path } => drive.device = Some(path.clone()),
            DriveSpec::Memory { len_bytes, .. } => {
                drive.memory = true;
                drive.size = Some(Size(*len_bytes));
            }
            // A modelled drive is declared by a scenario, never by array.toml.
            DriveSpec::Modelled { name } => drive.name.clone_from(name),
        }
        drive
    }
}

impl Group {
    pub(super) fn to_config(&self) -> GroupConfig {
        let level = match self.level {
            LevelName::Raid0 => Level::Raid0,
            LevelName::Raid1 => Level::Raid1,
            LevelName::Raid10 => Level::Raid10,
            LevelName::Raid5 => Level::Raid5,
            LevelName::Raid6 => Level::Raid6,
        };
        GroupConfig {
            name: self.name.clone(),
            level,
            drives: self.drives.clone(),
            stripe_unit_bytes: match self.stripe_unit {
                Some(unit) => u32::try_from(unit.0).unwrap_or(u32::MAX),
                None => stripe_unit_bytes_default(level, self.drives.len()),
            },
            foreground_share_percent: self.foreground_share,
            start_degraded: self.start_degraded,
            class: self.class.into(),
        }
    }

    pub(super) fn of(g: &GroupConfig) -> Group {
        let level = match g.level {
            Level::Raid0 => LevelName::Raid0,
            Level::Raid1 => LevelName::Raid1,
            Level::Raid10 => LevelName::Raid10,
            Level::Raid5 => LevelName::Raid5,
            Level::Raid6 => LevelName::Raid6,
        };
        Group {
            name: g.name.clone(),
            level,
            drives: g.drives.clone(),
            stripe_unit: Some(Size(g.stripe_unit_bytes.into())),
            foreground_share: g.foreground_share_percent,
            start_degraded: g.start_degraded,
            class: g.class.into(),
        }
    }
}
