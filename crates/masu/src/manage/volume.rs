//! `masu volume` and `masu snapshot`.

use std::process::ExitCode;

use admin::Change;
use anyhow::Result;
use clap::Subcommand;
use config::{CachePolicy, parse_bytes};

use super::confirm::confirm;
use super::request::{Where, begin, change, show};
use super::tables;

#[derive(Subcommand)]
pub(crate) enum VolumeCommand {
    /// List the volumes with their space and counters
    ///
    /// USED is the space of a volume: EXCLUSIVE, which deleting it frees, and SHARED, which other volumes
    /// also use.
    List,
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
    /// Grow a volume
    Grow {
        /// The volume
        name: String,
        /// The new size
        #[arg(long, value_parser = parse_bytes)]
        size: u64,
    },
    /// Set the caching of a volume, online; options that are not given keep their values (masu cache shows
    /// them)
    Set {
        /// The volume
        name: String,
        /// write-back: acknowledge writes from the cache; write-through: from the drives; off: no caching
        #[arg(long, value_parser = policy)]
        cache: Option<CachePolicy>,
        /// Cache partition; none: the default partition
        #[arg(long)]
        partition: Option<String>,
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
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Create a snapshot
    Create {
        /// The volume
        volume: String,
        /// Name of the snapshot, which is a volume of its own
        name: String,
    },
    /// Delete a snapshot and its data; a volume that is not a snapshot is refused
    Delete {
        /// The snapshot; it must not be mapped
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
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
        VolumeCommand::List => show(at, tables::volumes),
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
        VolumeCommand::Set { name, cache, partition } => {
            change(at, &Change::VolumeSet { name: name.clone(), cache: *cache, partition: partition.clone() })
        }
        VolumeCommand::Reclaim { name, detach } => {
            begin(at, &Change::VolumeReclaim { name: name.clone() }, ("reclaim", name), *detach)
        }
        VolumeCommand::Delete { name, yes } => {
            confirm(&format!("volume {name} and its data will be deleted"), *yes)?;
            change(at, &Change::VolumeDelete { name: name.clone() })
        }
    }
}

pub(super) fn run_snapshot(what: &SnapshotCommand, at: &Where) -> Result<ExitCode> {
    match what {
        SnapshotCommand::Create { volume, name } => {
            change(at, &Change::SnapshotCreate { volume: volume.clone(), name: name.clone() })
        }
        SnapshotCommand::Delete { name, yes } => {
            confirm(&format!("snapshot {name} and its data will be deleted"), *yes)?;
            change(at, &Change::SnapshotDelete { name: name.clone() })
        }
    }
}
