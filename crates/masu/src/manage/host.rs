//! `masu host`: hosts, their credentials and mappings.

use std::process::ExitCode;

use admin::{Change, Status};
use anyhow::{Result, bail};
use clap::Subcommand;

use super::confirm::{ask, confirm};
use super::host_connect::{self, System};
use super::nouns::HOST;
use super::request::{Where, change, list, show_one, status};
use super::secret::ChapArgs;
use crate::table::ListArgs;

#[derive(Subcommand)]
pub(crate) enum HostCommand {
    /// List the hosts with their mappings
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one host with everything of it
    Show {
        /// The host
        name: String,
    },
    /// Create a host
    Create {
        /// Its name
        name: String,
        /// Its iSCSI name (iqn., eui. or naa.); '*' for any initiator that no other host names
        initiator: String,
        #[command(flatten)]
        chap: ChapArgs,
    },
    /// Declare or change a host: options that are not given keep their values. With the name alone, show it
    Set {
        /// Its name
        name: String,
        /// Its iSCSI name (iqn., eui. or naa.); '*' for any initiator that no other host names
        initiator: Option<String>,
        #[command(flatten)]
        chap: ChapArgs,
        /// Remove the host's secret: any initiator with its iSCSI name then is this host
        #[arg(long, conflicts_with_all = ["chap", "chap_file", "mutual_chap", "mutual_chap_file"])]
        no_chap: bool,
        /// Remove the mutual CHAP credentials
        #[arg(long, conflicts_with_all = ["mutual_chap", "mutual_chap_file"])]
        no_mutual_chap: bool,
    },
    /// Print what to type on the host: settings, discovery, login; with several portals multipathing, too
    Connect {
        /// The host
        name: String,
        /// Its operating system; without it, all are printed
        #[arg(long, value_enum)]
        system: Option<System>,
        /// Several nodes serve the array: print multipathing with timers that ride out a take-over
        #[arg(long)]
        nodes: bool,
    },
    /// Delete a host; its sessions end
    Delete {
        /// The host
        name: String,
    },
    /// Map a volume to a host
    Map {
        /// The host
        host: String,
        /// The volume
        volume: String,
        /// The LUN, 0 to 16383; by default the first free one
        #[arg(long)]
        lun: Option<u16>,
        /// Also if the volume is already mapped to the host: adds a second LUN
        #[arg(long)]
        again: bool,
    },
    /// Unmap a volume from a host, under every LUN
    Unmap {
        /// The host
        host: String,
        /// The volume
        volume: String,
    },
}

fn hosts(status: Status) -> Vec<admin::Host> {
    status.hosts
}

pub(super) fn run(what: &HostCommand, at: &Where) -> Result<ExitCode> {
    match what {
        HostCommand::List { args } => list(at, &HOST, args, hosts),
        HostCommand::Show { name } => show_one(at, &HOST, name, hosts, |_, _| ()),
        HostCommand::Create { name, initiator, chap } => create(name, initiator, chap, at),
        HostCommand::Set { .. } => set(what, at),
        HostCommand::Connect { name, system, nodes } => {
            let status = status(at)?;
            let Some(host) = status.hosts.iter().find(|host| host.name == *name) else {
                bail!("no host {name:?}");
            };
            host_connect::print(&status, host, *system, *nodes);
            Ok(ExitCode::SUCCESS)
        }
        HostCommand::Delete { name } => {
            ask(&format!("host {name} and its mappings will be deleted, and its sessions end"), at)?;
            change(at, &Change::HostDelete { name: name.clone() })
        }
        HostCommand::Map { host, volume, lun, again } => {
            let (host, volume) = (host.clone(), volume.clone());
            change(at, &Change::Map { host, volume, lun: *lun, again: *again })
        }
        HostCommand::Unmap { host, volume } => {
            ask(&format!("{volume} will be unmapped from host {host}, even if it is in use"), at)?;
            change(at, &Change::Unmap { host: host.clone(), volume: volume.clone() })
        }
    }
}

fn create(name: &str, initiator: &str, chap: &ChapArgs, at: &Where) -> Result<ExitCode> {
    let (chap, mutual_chap) = (chap.chap()?, chap.mutual_chap()?);
    if status(at)?.hosts.iter().any(|host| host.name == name) {
        bail!("host {name:?} is there already; change it with masu host set {name}");
    }
    let (name, initiator) = (name.to_owned(), Some(initiator.to_owned()));
    let (no_chap, no_mutual_chap) = (false, false);
    change(at, &Change::HostSet { name, initiator, chap, mutual_chap, no_chap, no_mutual_chap })
}

/// Declares or changes a host; shows it if there is nothing to change.
fn set(what: &HostCommand, at: &Where) -> Result<ExitCode> {
    let HostCommand::Set { name, initiator, chap, no_chap, no_mutual_chap } = what else {
        unreachable!("the caller has matched it");
    };
    let mutual_chap = if *no_chap || *no_mutual_chap { None } else { chap.mutual_chap()? };
    let chap = if *no_chap { None } else { chap.chap()? };
    let is_nothing = initiator.is_none() && chap.is_none() && mutual_chap.is_none();
    if is_nothing && !no_chap && !no_mutual_chap {
        return show_one(at, &HOST, name, hosts, |_, _| ());
    }
    if *no_chap {
        let initiator = initiator.as_deref().unwrap_or("its iSCSI name");
        let what =
            format!("host {name} will lose its secret, and any initiator with {initiator} will be this host");
        confirm(&what, at)?;
    }
    let set = Change::HostSet {
        name: name.clone(),
        initiator: initiator.clone(),
        chap,
        mutual_chap,
        no_chap: *no_chap,
        no_mutual_chap: *no_mutual_chap,
    };
    change(at, &set)
}
