//! What a group is declared as, and the identities on its labels.

use std::fmt;

use crate::GroupError;

/// The most drives of one group: the label's set of drives in sync is 32 bits wide.
pub const DRIVES_MAX: usize = 32;
/// The longest name of a group in bytes: the label's field.
pub const NAME_LEN_MAX: usize = 64;
/// The default stripe unit: a 64 KiB request stays on one drive, a 1 MiB request uses 16.
pub const STRIPE_UNIT_BYTES_DEFAULT: u32 = 64 << 10;
/// The largest stripe unit.
const STRIPE_UNIT_BYTES_MAX: u32 = 4 << 20;

fn hex(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
}

/// The identity of the array that owns a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArrayId(pub [u8; 16]);

/// The identity of a group, made when it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(pub [u8; 16]);

impl fmt::Display for ArrayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

/// How data lies on the drives of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Stripes over one or more drives; no redundancy.
    Raid0,
    /// The same on two or more drives; all but one may fail.
    Raid1,
}

impl Level {
    /// The level's number on the label.
    pub(crate) fn code(self) -> u32 {
        match self {
            Level::Raid0 => 0,
            Level::Raid1 => 1,
        }
    }

    pub(crate) fn from_code(code: u32) -> Option<Level> {
        match code {
            0 => Some(Level::Raid0),
            1 => Some(Level::Raid1),
            _ => None,
        }
    }

    /// The fewest drives that make sense.
    pub fn drives_min(self) -> usize {
        match self {
            Level::Raid0 => 1,
            Level::Raid1 => 2,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RAID{}", self.code())
    }
}

/// A group as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its name, 1 to 64 bytes, unique within the array.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// Bytes that follow each other on one drive before the next drive's turn: a power of two from 4 KiB to 4 MiB.
    pub stripe_unit_bytes: u32,
    /// The array that owns it.
    pub array_id: ArrayId,
}

impl GroupSpec {
    /// A group with the default stripe unit.
    pub fn new(name: &str, level: Level, array_id: ArrayId) -> GroupSpec {
        GroupSpec { name: name.to_owned(), level, stripe_unit_bytes: STRIPE_UNIT_BYTES_DEFAULT, array_id }
    }

    pub(crate) fn check(&self, drives: usize) -> Result<(), GroupError> {
        let refuse = |cause: String| Err(GroupError::Spec { group: self.name.clone(), cause });
        if self.name.is_empty() || self.name.len() > NAME_LEN_MAX {
            return refuse(format!("its name must have 1 to {NAME_LEN_MAX} bytes"));
        }
        let unit = self.stripe_unit_bytes;
        if !unit.is_power_of_two() || !(4096..=STRIPE_UNIT_BYTES_MAX).contains(&unit) {
            return refuse(format!(
                "stripe unit {unit} must be a power of two from 4096 to {STRIPE_UNIT_BYTES_MAX} bytes"
            ));
        }
        if drives < self.level.drives_min() || drives > DRIVES_MAX {
            let min = self.level.drives_min();
            return refuse(format!("{} takes {min} to {DRIVES_MAX} drives, not {drives}", self.level));
        }
        Ok(())
    }
}
