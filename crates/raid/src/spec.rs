//! The specification of a group, and the identities on its labels.

use std::fmt;

use crate::GroupError;

/// Most drives of a group: the label's set of drives in sync has 32 bits.
pub const DRIVES_MAX: usize = 32;
/// Longest name of a group in bytes: the label's field.
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

/// The identity of a group, generated at creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(pub [u8; 16]);

/// Who has a group open, of nodes that take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Raised with each owner.
    pub epoch: u64,
    /// Random: two owners of one epoch are of two histories.
    pub owner: u64,
}

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

/// The RAID level: the layout of data on the drives of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Stripes over one or more drives; no redundancy.
    Raid0,
    /// The same data on two or more drives; all but one may fail.
    Raid1,
    /// Stripes over pairs of mirrors; one drive of each pair may fail.
    Raid10,
    /// Rows of data units and one parity; one drive may fail.
    Raid5,
    /// Rows of data units and two parities; two drives may fail.
    Raid6,
}

impl Level {
    /// All levels.
    pub const ALL: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6];

    /// The level's number, on the label and in its name.
    pub(crate) fn code(self) -> u32 {
        match self {
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid10 => 10,
            Level::Raid5 => 5,
            Level::Raid6 => 6,
        }
    }

    pub(crate) fn from_code(code: u32) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.code() == code)
    }

    /// The fewest drives of the level.
    pub fn drives_min(self) -> usize {
        match self {
            Level::Raid0 => 1,
            Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid10 | Level::Raid6 => 4,
        }
    }

    /// Parity units in a row; 0 for mirrors and RAID 0.
    pub fn parities(self) -> u32 {
        match self {
            Level::Raid0 | Level::Raid1 | Level::Raid10 => 0,
            Level::Raid5 => 1,
            Level::Raid6 => 2,
        }
    }

    /// The number of drives with the same data: the drives of one set. 1 without mirrors.
    pub(crate) fn copies(self, width: u32) -> u32 {
        match self {
            Level::Raid1 => width,
            Level::Raid10 => 2,
            Level::Raid0 | Level::Raid5 | Level::Raid6 => 1,
        }
    }

    /// The number of drives of a row (or stripe) with distinct data.
    pub(crate) fn data_drives(self, width: u32) -> u32 {
        width / self.copies(width) - self.parities()
    }

    /// Whether a group with these drives (bits by position) has all data.
    pub(crate) fn can_serve(self, drives: u32, width: u32) -> bool {
        let copies = self.copies(width);
        let lost_sets = (0..width / copies).filter(|set| {
            let members = (u32::MAX >> (32 - copies)) << (set * copies);
            drives & members == 0
        });
        lost_sets.count() as u32 <= self.parities()
    }

    /// The fewest drives with which a group can serve.
    pub(crate) fn serving_min(self, width: u32) -> u32 {
        width / self.copies(width) - self.parities()
    }

    /// How many drives of a full group of this width may fail, in any combination.
    pub fn tolerates(self, width: usize) -> u32 {
        let width = width as u32;
        self.tolerates_beside(u32::MAX >> (32 - width), width)
    }

    /// Whether a group of this width opens when so many of its drives are missing, whichever they are. They
    /// may be found to have newer data later, unless they are too few to have served alone; `degraded`:
    /// somebody vouches that they have none.
    pub fn opens_without(self, width: usize, missing: usize, degraded: bool) -> bool {
        let (width_u32, lost) = (width as u32, missing as u32);
        missing <= self.tolerates(width) as usize && (degraded || lost < self.serving_min(width_u32))
    }

    /// How many more drives may fail, in any combination, of a group with these drives.
    pub(crate) fn tolerates_beside(self, drives: u32, width: u32) -> u32 {
        let copies = self.copies(width);
        let sets = width / copies;
        let left = |set: u32| (drives >> (set * copies) & (u32::MAX >> (32 - copies))).count_ones();
        let gone = (0..sets).filter(|set| left(*set) == 0).count() as u32;
        let fewest = (0..sets).map(left).filter(|n| *n > 0).min().unwrap_or(0);
        (fewest.saturating_sub(1)) + self.parities().saturating_sub(gone)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RAID{}", self.code())
    }
}

/// Checks the name of a group.
pub(crate) fn check_name(name: &str) -> Result<(), GroupError> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let cause = format!("invalid name: must have 1 to {NAME_LEN_MAX} bytes");
        return Err(GroupError::Spec { group: name.to_owned(), cause });
    }
    Ok(())
}

/// A group as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// 1 to 64 bytes, unique within the array.
    pub name: String,
    /// The RAID level of its labels.
    pub level: Level,
    /// Consecutive bytes on one drive before the next drive follows: a power of two from 4 KiB to 4 MiB.
    pub stripe_unit_bytes: u32,
    /// The owner.
    pub array_id: ArrayId,
    /// The identity, if known: creation uses it, and opening refuses drives of another group with the same
    /// name.
    pub id: Option<GroupId>,
    /// The ownership under which the group is opened, where nodes take turns: labels of a later one, or of
    /// another one with this epoch, are refused. `None`: one node alone; nothing is compared, and the labels
    /// name no owner.
    pub ownership: Option<Ownership>,
}

impl GroupSpec {
    /// A group with a stripe unit of 64 KiB.
    pub fn new(name: &str, level: Level, array_id: ArrayId) -> GroupSpec {
        GroupSpec {
            name: name.to_owned(),
            level,
            stripe_unit_bytes: STRIPE_UNIT_BYTES_DEFAULT,
            array_id,
            id: None,
            ownership: None,
        }
    }

    pub(crate) fn check(&self, drives: usize) -> Result<(), GroupError> {
        let refuse = |cause: String| Err(GroupError::Spec { group: self.name.clone(), cause });
        check_name(&self.name)?;
        let unit = self.stripe_unit_bytes;
        if !unit.is_power_of_two() || !(4096..=STRIPE_UNIT_BYTES_MAX).contains(&unit) {
            return refuse(format!(
                "invalid stripe unit of {unit} bytes: must be a power of two from 4096 to \
                 {STRIPE_UNIT_BYTES_MAX}"
            ));
        }
        if drives < self.level.drives_min() || drives > DRIVES_MAX {
            let min = self.level.drives_min();
            return refuse(format!(
                "invalid number of drives: {drives}; {} requires {min} to \
                {DRIVES_MAX}",
                self.level
            ));
        }
        if self.level == Level::Raid10 && !drives.is_multiple_of(2) {
            return refuse(format!(
                "invalid number of drives: {drives}; {} requires an even \
                number",
                self.level
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_opens_without_drives_that_are_too_few_to_have_served_alone() {
        let opens = |level: Level, width, missing| {
            [false, true].map(|degraded| level.opens_without(width, missing, degraded))
        };
        for (level, width, missing, expected) in [
            (Level::Raid0, 3, 0, [true, true]),
            (Level::Raid0, 3, 1, [false, false]),
            // The other mirror may have gone on alone.
            (Level::Raid1, 2, 1, [false, true]),
            (Level::Raid1, 2, 2, [false, false]),
            (Level::Raid5, 3, 1, [true, true]),
            (Level::Raid5, 3, 2, [false, false]),
            (Level::Raid6, 4, 1, [true, true]),
            (Level::Raid6, 4, 2, [false, true]),
            (Level::Raid6, 6, 2, [true, true]),
            (Level::Raid10, 4, 1, [true, true]),
            (Level::Raid10, 4, 2, [false, false]),
        ] {
            assert_eq!(opens(level, width, missing), expected, "{level} of {width} without {missing}");
        }
    }

    #[test]
    fn levels_serve_and_tolerate_what_they_say() {
        let check = |level: Level, width, drives, serves, tolerates| {
            assert_eq!(level.can_serve(drives, width), serves, "{level} of {width} with {drives:b}");
            if serves {
                assert_eq!(
                    level.tolerates_beside(drives, width),
                    tolerates,
                    "{level} of {width} with {drives:b}"
                );
            }
        };
        check(Level::Raid0, 2, 0b11, true, 0);
        check(Level::Raid0, 2, 0b10, false, 0);
        check(Level::Raid1, 3, 0b111, true, 2);
        check(Level::Raid1, 3, 0b100, true, 0);
        check(Level::Raid10, 4, 0b1111, true, 1);
        check(Level::Raid10, 4, 0b1101, true, 0);
        check(Level::Raid10, 4, 0b0101, true, 0);
        check(Level::Raid10, 4, 0b0011, false, 0);
        check(Level::Raid5, 32, u32::MAX, true, 1);
        check(Level::Raid5, 4, 0b1011, true, 0);
        check(Level::Raid5, 4, 0b0011, false, 0);
        check(Level::Raid6, 5, 0b11111, true, 2);
        check(Level::Raid6, 5, 0b00111, true, 0);
        check(Level::Raid6, 5, 0b00011, false, 0);
    }
}
