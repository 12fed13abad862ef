//! `masu group` and `masu drive`: what redundancy is made of.

use std::process::ExitCode;

use admin::{Change, ClassName, Work, parse_bytes};
use anyhow::Result;
use clap::Subcommand;

use super::confirm::ask;
use super::request::{Where, begin, change, show, show_one};
use super::tables;

pub(super) const HELP: &str = "\
Levels:
  0    stripes, no redundancy                  1 drive or more
  1    mirrors; all drives but one may fail    2 or more
  10   stripes over pairs of mirrors           4 or more, even
  5    one parity; one drive may fail          3 or more
  6    two parities; two drives may fail       4 or more

Example: a group of four new files with one parity, and a spare
  masu group create g1 --level 5 --drive a.img --drive b.img --drive c.img --drive d.img --drive-size 64GiB
  masu drive spare s0 s0.img --size 64GiB";

#[derive(Subcommand)]
pub(crate) enum GroupCommand {
    /// List the groups with their state
    List,
    /// Show one group: its drives, what they do, how far work on it is
    Show {
        /// The group
        name: String,
    },
    /// Create a group of drives that are not in use
    #[command(after_help = HELP)]
    Create {
        /// Its name
        name: String,
        /// 0, 1, 10, 5 or 6
        #[arg(long, default_value = "1", value_parser = level)]
        level: String,
        /// A drive: a block device under /dev, or a file (relative to the data directory); once for each
        #[arg(long = "drive", required = true)]
        drives: Vec<String>,
        /// Size of the file drives that are to be made, as in 64GiB
        #[arg(long, value_parser = parse_bytes)]
        drive_size: Option<u64>,
        /// Bytes on one drive before the next drive's turn; chosen by level and number of drives when not given
        #[arg(long, value_parser = parse_bytes)]
        stripe_unit: Option<u64>,
        /// What of the time hosts keep while the group is rebuilt or scrubbed, in percent
        #[arg(long)]
        foreground_share: Option<u8>,
        /// Erase what is on drives that the array did not have before; without it, drives that are not blank are refused
        #[arg(long)]
        overwrite: bool,
    },
    /// Set what of the time hosts keep while the group is rebuilt or scrubbed
    ForegroundShare {
        /// The group
        name: String,
        /// 0 (work first) to 99 percent (hosts first)
        percent: u8,
    },
    /// Say how fast a group is beside the others of its pool: hot pages move to the faster ones (masu pool heat)
    Class {
        /// The group
        name: String,
        /// fast, capacity or archive
        #[arg(value_parser = class)]
        class: ClassName,
    },
    /// Pause the rebuild and the scrub of a group, until they are resumed or the array starts again
    Pause {
        /// The group
        name: String,
    },
    /// Resume what was paused
    Resume {
        /// The group
        name: String,
    },
    /// Read everything on the group, compare it, repair what redundancy tells
    ///
    /// Where drives differ and no redundancy tells which is right (two mirrors, RAID 5), nothing is written: status and log name the place.
    Scrub {
        /// The group
        name: String,
        /// End the scrub that runs
        #[arg(long, conflicts_with = "detach")]
        stop: bool,
        /// Return at once, and leave the scrub to the array
        #[arg(long)]
        detach: bool,
    },
    /// Give the place of a drive to another, and rebuild it
    ///
    /// A drive that still serves is taken out of service first; that needs redundancy.
    Replace {
        /// The group
        group: String,
        /// The drive that leaves (masu group show GROUP)
        old: String,
        /// The drive that comes: one that is in no group, or a path
        new: String,
        /// Size of a file drive that is to be made; that of the old one when not given
        #[arg(long, value_parser = parse_bytes)]
        drive_size: Option<u64>,
        /// Erase what is on the drive that comes; without it, a drive that is not blank is refused
        #[arg(long)]
        overwrite: bool,
        /// Return at once, and leave the rebuild to the array
        #[arg(long)]
        detach: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum DriveCommand {
    /// List the drives with group, state and use
    List,
    /// Add a spare: any group that loses a drive takes it by itself
    Spare {
        /// Its name
        name: String,
        /// A block device under /dev, or a file (relative to the data directory)
        path: String,
        /// Size of a file that is to be made, as in 64GiB
        #[arg(long, value_parser = parse_bytes)]
        size: Option<u64>,
        /// Erase what is on it when a group takes it; without it, a drive that is not blank is refused
        #[arg(long)]
        overwrite: bool,
    },
    /// Forget a spare that no group has taken
    RemoveSpare {
        /// The drive
        name: String,
    },
    /// Forget a drive that no group uses: a spare, or a drive that was replaced; it need not be there any more
    Forget {
        /// The drive (masu drive list)
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

fn class(text: &str) -> Result<ClassName, String> {
    match text {
        "fast" => Ok(ClassName::Fast),
        "capacity" => Ok(ClassName::Capacity),
        "archive" => Ok(ClassName::Archive),
        _ => Err("is fast, capacity or archive".into()),
    }
}

/// The level as the API spells it.
fn level(text: &str) -> Result<String, String> {
    let number = text.to_ascii_lowercase();
    let number = number.strip_prefix("raid").unwrap_or(&number);
    match number {
        "0" | "1" | "10" | "5" | "6" => Ok(format!("raid{number}")),
        _ => Err("levels are 0, 1, 10, 5 and 6".into()),
    }
}

pub(super) fn run(what: &GroupCommand, at: &Where) -> Result<ExitCode> {
    match what {
        GroupCommand::List => show(at, tables::groups),
        GroupCommand::Show { name } => {
            let find = |s: &admin::Status| s.groups.iter().find(|g| g.name == *name).cloned();
            show_one(at, "group", name, find, tables::group)
        }
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
        DriveCommand::List => show(at, tables::drives),
        DriveCommand::Spare { name, path, size, overwrite } => change(
            at,
            &Change::SpareAdd {
                name: name.clone(),
                path: path.clone(),
                drive_bytes: *size,
                overwrite: *overwrite,
            },
        ),
        DriveCommand::RemoveSpare { name } => change(at, &Change::SpareRemove { name: name.clone() }),
        DriveCommand::Forget { name, yes } => {
            ask(&format!("drive {name} will be removed from the array"), *yes)?;
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
