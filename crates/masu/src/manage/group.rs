//! `masu group` and `masu drive`.

use std::process::ExitCode;

use admin::{Change, Drive, Group, Status, Work};
use anyhow::{Result, bail};
use clap::Subcommand;
use config::{Class, parse_bytes};

use super::confirm::{ask, confirm};
use super::nouns::{DRIVE, GROUP, MEMBER, members};
use super::request::{Where, begin, change, changes, list, show_one};
use crate::table::{ListArgs, part};

pub(super) const HELP: &str = "\
Levels:
  0    stripes, no redundancy                  1 drive or more
  1    mirrors; all drives but one may fail    2 or more
  10   stripes over pairs of mirrors           4 or more, even
  5    one parity; one drive may fail          3 or more
  6    two parities; two drives may fail       4 or more

Example: a group of four new files with one parity, and a spare
  masu group create g1 --level 5 --drive a.img --drive b.img --drive c.img --drive d.img --drive-size 64GiB
  masu drive create s0 s0.img --size 64GiB";

#[derive(Subcommand)]
pub(crate) enum GroupCommand {
    /// List the groups with their state
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one group: its drives, their state, progress of work on it
    Show {
        /// The group
        name: String,
    },
    /// Create a group of unused drives
    #[command(after_help = HELP)]
    Create {
        /// Its name
        name: String,
        /// 0, 1, 10, 5 or 6
        #[arg(long, default_value = "1", value_parser = level)]
        level: String,
        /// A drive: a block device under /dev, `rbd:POOL/IMAGE[:id=USER][:conf=FILE]`, or a file (relative to
        /// the data directory); repeatable
        #[arg(long = "drive", required = true)]
        drives: Vec<String>,
        /// Size of new file drives, e.g. 64GiB
        #[arg(long, value_parser = parse_bytes)]
        drive_size: Option<u64>,
        /// Stripe unit; by default chosen by level and number of drives
        #[arg(long, value_parser = parse_bytes)]
        stripe_unit: Option<u64>,
        /// Share of the time that hosts keep during a rebuild or scrub, in percent
        #[arg(long)]
        foreground_share: Option<u8>,
        /// Erase data on drives that are new to the array; without it, drives that are not blank are refused
        #[arg(long)]
        overwrite: bool,
    },
    /// Set class and foreground share of a group, online; options that are not given keep their values
    Set {
        /// The group
        name: String,
        /// fast, capacity or archive: its speed relative to the others of its pool (masu pool heat)
        #[arg(long, value_parser = class)]
        class: Option<Class>,
        /// Share of the time that hosts keep during a rebuild or scrub, 0 (work first) to 99 percent
        #[arg(long, value_name = "PERCENT")]
        foreground_share: Option<u8>,
    },
    /// Set the share of the time that hosts keep during a rebuild or scrub: short for set --foreground-share
    ForegroundShare {
        /// The group
        name: String,
        /// 0 (work first) to 99 percent (hosts first)
        percent: u8,
    },
    /// Set the class of a group, its speed relative to the others of its pool: short for set --class
    ///
    /// Hot pages move to faster groups (masu pool heat).
    Class {
        /// The group
        name: String,
        /// fast, capacity or archive
        #[arg(value_parser = class)]
        class: Class,
    },
    /// Pause the rebuild, the scrub and the evacuation of a group, until resumed or until the array restarts
    Pause {
        /// The group
        name: String,
    },
    /// Resume paused work
    Resume {
        /// The group
        name: String,
    },
    /// Read everything on the group, compare it, and repair what redundancy can decide
    ///
    /// Where drives differ and redundancy cannot decide (two mirrors, RAID 5), nothing is written: status and
    /// log report the addresses.
    Scrub {
        /// The group
        name: String,
        /// Stop the running scrub
        #[arg(long, conflicts_with = "detach")]
        stop: bool,
        /// Return at once; the scrub continues in the array
        #[arg(long)]
        detach: bool,
    },
    /// Delete a group that no pool uses, and erase its drives
    ///
    /// The drives are no longer part of the array. Files stay, and are blank. Of a block device that has no
    /// command for zeros only the first 64 MiB are erased. This is no secure erasure.
    Delete {
        /// The group
        name: String,
    },
    /// Replace a drive of a group, and rebuild it
    ///
    /// A drive that is still in service is dropped first; that requires redundancy.
    Replace {
        /// The group
        group: String,
        /// The drive to replace (masu group show GROUP)
        old: String,
        /// The new drive: a drive without a group, or a path
        new: String,
        /// Size of a new file drive; by default that of the old one
        #[arg(long, value_parser = parse_bytes)]
        drive_size: Option<u64>,
        /// Erase data on the new drive; without it, a drive that is not blank is refused
        #[arg(long)]
        overwrite: bool,
        /// Return at once; the rebuild continues in the array
        #[arg(long)]
        detach: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum DriveCommand {
    #[command(flatten)]
    Model(crate::drive::DriveModel),
    /// List the drives with group, state and use
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one drive with everything of it
    Show {
        /// The drive
        name: String,
    },
    /// Add a spare: any group that loses a drive takes it automatically
    ///
    /// The drive gets a label of this array; masu examines it every minute.
    #[command(visible_alias = "spare")]
    Create {
        /// Its name
        name: String,
        /// A block device under /dev, `rbd:POOL/IMAGE[:id=USER][:conf=FILE]`, or a file (relative to the data
        /// directory)
        path: String,
        /// Size of a new file, e.g. 64GiB
        #[arg(long, value_parser = parse_bytes)]
        size: Option<u64>,
        /// Erase data on it; without it, a drive that is not blank is refused
        #[arg(long)]
        overwrite: bool,
    },
    /// Remove a spare that no group has taken, and erase its label
    RemoveSpare {
        /// The drive
        name: String,
    },
    /// Remove an unused drive from the array: a spare or a replaced drive, even if it is missing
    #[command(visible_alias = "forget")]
    Delete {
        /// The drive (masu drive list)
        name: String,
    },
}

fn class(text: &str) -> Result<Class, String> {
    match text {
        "fast" => Ok(Class::Fast),
        "capacity" => Ok(Class::Capacity),
        "archive" => Ok(Class::Archive),
        _ => Err("must be fast, capacity or archive".into()),
    }
}

/// The level as the API spells it.
fn level(text: &str) -> Result<String, String> {
    let number = text.to_ascii_lowercase();
    let number = number.strip_prefix("raid").unwrap_or(&number);
    match number {
        "0" | "1" | "10" | "5" | "6" => Ok(format!("raid{number}")),
        _ => Err("must be 0, 1, 10, 5 or 6".into()),
    }
}

fn groups(status: Status) -> Vec<Group> {
    status.groups
}

fn drives(status: Status) -> Vec<Drive> {
    status.drives
}

fn set(name: &str, class: Option<Class>, percent: Option<u8>, at: &Where) -> Result<ExitCode> {
    let class = class.map(|class| Change::GroupClass { name: name.into(), class });
    let share = percent.map(|percent| Change::GroupForegroundShare { name: name.into(), percent });
    let wanted: Vec<Change> = class.into_iter().chain(share).collect();
    if wanted.is_empty() {
        bail!("group {name:?}: nothing is to be set; give --class or --foreground-share");
    }
    changes(at, &wanted)
}

pub(super) fn run(what: &GroupCommand, at: &Where) -> Result<ExitCode> {
    match what {
        GroupCommand::List { args } => list(at, &GROUP, args, groups),
        GroupCommand::Show { name } => show_one(at, &GROUP, name, groups, |s, group| {
            println!();
            part(&MEMBER, &members(s, group), at.form.look());
        }),
        GroupCommand::Create {
            name,
            level,
            drives,
            drive_size,
            stripe_unit,
            foreground_share,
            overwrite,
        } => change(
            at,
            &Change::GroupCreate {
                name: name.clone(),
                level: level.clone(),
                drives: drives.clone(),
                drive_bytes: *drive_size,
                stripe_unit_bytes: *stripe_unit,
                foreground_share_percent: *foreground_share,
                overwrite: *overwrite,
            },
        ),
        GroupCommand::Set { name, class, foreground_share } => set(name, *class, *foreground_share, at),
        GroupCommand::ForegroundShare { name, percent } => {
            change(at, &Change::GroupForegroundShare { name: name.clone(), percent: *percent })
        }
        GroupCommand::Class { name, class } => {
            change(at, &Change::GroupClass { name: name.clone(), class: *class })
        }
        GroupCommand::Pause { name } => {
            change(at, &Change::GroupWork { name: name.clone(), work: Work::Pause })
        }
        GroupCommand::Resume { name } => {
            change(at, &Change::GroupWork { name: name.clone(), work: Work::Resume })
        }
        GroupCommand::Scrub { name, stop: true, .. } => {
            change(at, &Change::GroupWork { name: name.clone(), work: Work::StopScrub })
        }
        GroupCommand::Scrub { name, detach, .. } => {
            begin(at, &Change::GroupScrub { name: name.clone() }, ("scrub", name), *detach)
        }
        GroupCommand::Delete { name } => {
            confirm(&format!("group {name} will be deleted, and its drives erased"), at)?;
            change(at, &Change::GroupDelete { name: name.clone() })
        }
        GroupCommand::Replace { group, old, new, drive_size, overwrite, detach } => {
            let request = Change::DriveReplace {
                group: group.clone(),
                old: old.clone(),
                new: new.clone(),
                drive_bytes: *drive_size,
                overwrite: *overwrite,
            };
            begin(at, &request, ("rebuild", group), *detach)
        }
    }
}

pub(super) fn run_drive(what: &DriveCommand, at: &Where) -> Result<ExitCode> {
    match what {
        DriveCommand::Model(model) => {
            at.refuse_dry_run(model.command())?;
            crate::drive::run(model, at.form.look().output)
        }
        DriveCommand::List { args } => list(at, &DRIVE, args, drives),
        DriveCommand::Show { name } => show_one(at, &DRIVE, name, drives, |_, _| ()),
        DriveCommand::Create { name, path, size, overwrite } => change(
            at,
            &Change::SpareAdd {
                name: name.clone(),
                path: path.clone(),
                drive_bytes: *size,
                overwrite: *overwrite,
            },
        ),
        DriveCommand::RemoveSpare { name } => change(at, &Change::SpareRemove { name: name.clone() }),
        DriveCommand::Delete { name } => {
            ask(&format!("drive {name} will be removed from the array"), at)?;
            change(at, &Change::DriveForget { name: name.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn levels_are_written_in_either_way() {
        assert_eq!(level("5").as_deref(), Ok("raid5"));
        assert_eq!(level("RAID10").as_deref(), Ok("raid10"));
        assert!(level("7").is_err() && level("raid").is_err());
    }
}
