//! `masu volume` and `masu snapshot`.

use std::process::ExitCode;

use admin::Change;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use config::{CachePolicy, parse_bytes};

use super::confirm::confirm;
use super::nouns::{SNAPSHOT, VOLUME, snapshots, volumes};
use super::request::{Where, begin, change, changes, list, show_one};
use crate::table::ListArgs;

#[derive(Subcommand)]
pub(crate) enum VolumeCommand {
    /// List the volumes, snapshots among them
    ///
    /// USED is the space of a volume: EXCLUSIVE, which deleting it frees, and SHARED, which other volumes
    /// also use (--columns name,used,exclusive,shared).
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one volume with everything of it
    Show {
        /// The volume
        name: String,
    },
    /// Create a volume
    Create {
        /// Its name
        name: String,
        /// Its size, as in 10GiB
        #[arg(long, value_parser = parse_bytes)]
        size: u64,
        /// Its pool; required if there are several
        #[arg(long)]
        pool: Option<String>,
        /// Thick: reserve all space now
        #[arg(long)]
        thick: bool,
        /// Logical block size: 512 or 4096
        #[arg(long, default_value_t = 512)]
        block: u32,
    },
    /// Grow a volume: short for set --size
    Grow {
        /// The volume
        name: String,
        /// The new size
        #[arg(long, value_parser = parse_bytes)]
        size: u64,
    },
    /// Set the size and the caching of a volume, online; options that are not given keep their values
    Set {
        /// The volume
        name: String,
        #[command(flatten)]
        terms: VolumeTerms,
    },
    /// Reclaim: release the pages of a volume that contain only zeros, online
    Reclaim {
        /// The volume
        name: String,
        /// Return at once; the scan continues in the array
        #[arg(long)]
        detach: bool,
    },
    /// Delete a volume and its data
    Delete {
        /// The volume; it must not be mapped
        name: String,
    },
}

/// What can be set of a volume.
#[derive(Args)]
pub(crate) struct VolumeTerms {
    /// The new size; a volume does not shrink
    #[arg(long, value_parser = parse_bytes)]
    size: Option<u64>,
    /// write-back: acknowledge writes from the cache; write-through: from the drives; off: no caching
    #[arg(long, value_parser = policy)]
    cache: Option<CachePolicy>,
    /// Cache partition; none: the default partition
    #[arg(long)]
    partition: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    /// List the snapshots
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one snapshot with everything of it
    Show {
        /// The snapshot
        name: String,
    },
    /// Create a snapshot
    Create {
        /// The volume
        volume: String,
        /// Name of the snapshot, which is a volume of its own
        name: String,
    },
    /// Set the size and the caching of a snapshot, as of any volume
    Set {
        /// The snapshot
        name: String,
        #[command(flatten)]
        terms: VolumeTerms,
    },
    /// Delete a snapshot and its data; a volume that is not a snapshot is refused
    Delete {
        /// The snapshot; it must not be mapped
        name: String,
    },
}

fn policy(text: &str) -> Result<CachePolicy, String> {
    match text {
        "write-back" => Ok(CachePolicy::WriteBack),
        "write-through" => Ok(CachePolicy::WriteThrough),
        "off" => Ok(CachePolicy::Off),
        _ => Err("must be write-back, write-through or off".into()),
    }
}

pub(super) fn run(what: &VolumeCommand, at: &Where) -> Result<ExitCode> {
    match what {
        VolumeCommand::List { args } => list(at, &VOLUME, args, volumes),
        VolumeCommand::Show { name } => show_one(at, &VOLUME, name, volumes, |_, _| ()),
        VolumeCommand::Create { name, size, pool, thick, block } => change(
            at,
            &Change::VolumeCreate {
                name: name.clone(),
                pool: pool.clone(),
                size_bytes: *size,
                thick: *thick,
                block_bytes: *block,
            },
        ),
        VolumeCommand::Grow { name, size } => {
            change(at, &Change::VolumeGrow { name: name.clone(), size_bytes: *size })
        }
        VolumeCommand::Set { name, terms } => set(name, terms, at),
        VolumeCommand::Reclaim { name, detach } => {
            begin(at, &Change::VolumeReclaim { name: name.clone() }, ("reclaim", name), *detach)
        }
        VolumeCommand::Delete { name } => {
            confirm(&format!("volume {name} and its data will be deleted"), at)?;
            change(at, &Change::VolumeDelete { name: name.clone() })
        }
    }
}

fn set(name: &str, terms: &VolumeTerms, at: &Where) -> Result<ExitCode> {
    let mut wanted = Vec::new();
    if let Some(size_bytes) = terms.size {
        wanted.push(Change::VolumeGrow { name: name.into(), size_bytes });
    }
    if terms.cache.is_some() || terms.partition.is_some() {
        let partition = terms.partition.clone();
        wanted.push(Change::VolumeSet { name: name.into(), cache: terms.cache, partition });
    }
    if wanted.is_empty() {
        bail!("volume {name:?}: nothing is to be set; give --size, --cache or --partition");
    }
    changes(at, &wanted)
}

pub(super) fn run_snapshot(what: &SnapshotCommand, at: &Where) -> Result<ExitCode> {
    match what {
        SnapshotCommand::List { args } => list(at, &SNAPSHOT, args, snapshots),
        SnapshotCommand::Show { name } => show_one(at, &SNAPSHOT, name, snapshots, |_, _| ()),
        SnapshotCommand::Create { volume, name } => {
            change(at, &Change::SnapshotCreate { volume: volume.clone(), name: name.clone() })
        }
        SnapshotCommand::Set { name, terms } => set(name, terms, at),
        SnapshotCommand::Delete { name } => {
            confirm(&format!("snapshot {name} and its data will be deleted"), at)?;
            change(at, &Change::SnapshotDelete { name: name.clone() })
        }
    }
}
