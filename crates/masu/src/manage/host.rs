//! `masu host`: hosts, their credentials and mappings.

use std::process::ExitCode;

use admin::Change;
use anyhow::Result;
use clap::Subcommand;

use super::confirm::{ask, confirm};
use super::host_connect::{self, System};
use super::request::{Where, change, show, show_one};
use super::tables;

#[derive(Subcommand)]
pub(crate) enum HostCommand {
    /// List the hosts with their mappings
    List,
    /// Declare or change a host: options that are not given keep their values. With the name alone, show it
    Set {
        /// Its name
        name: String,
        /// Its iSCSI name (iqn., eui. or naa.); '*' for any initiator that no other host names
        initiator: Option<String>,
        /// CHAP credentials of the host, as name:secret (secret of at least 12 bytes)
        #[arg(long, value_parser = name_and_secret)]
        chap: Option<(String, String)>,
        /// Mutual CHAP credentials of the array, as name:secret
        #[arg(long, value_parser = name_and_secret)]
        mutual_chap: Option<(String, String)>,
        /// Remove the host's secret: any initiator with its iSCSI name then is this host
        #[arg(long, conflicts_with_all = ["chap", "mutual_chap"])]
        no_chap: bool,
        /// Remove the mutual CHAP credentials
        #[arg(long, conflicts_with = "mutual_chap")]
        no_mutual_chap: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Print what to type on the host: discovery, login, multipathing with timers that ride out a take-over
    Connect {
        /// The host
        name: String,
        /// Its operating system; without it, all are printed
        #[arg(long, value_enum)]
        system: Option<System>,
    },
    /// Delete a host; its sessions end
    Delete {
        /// The host
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
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
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

fn name_and_secret(text: &str) -> Result<(String, String), String> {
    let (name, secret) = text.split_once(':').ok_or("must be name:secret")?;
    Ok((name.into(), secret.into()))
}

pub(super) fn run(what: &HostCommand, at: &Where) -> Result<ExitCode> {
    match what {
        HostCommand::List => show(at, tables::hosts),
        HostCommand::Set { .. } => set(what, at),
        HostCommand::Connect { name, system } => {
            let find = |s: &admin::Status| s.hosts.iter().find(|h| h.name == *name).cloned();
            show_one(at, "host", name, find, |status, host| host_connect::print(status, host, *system))
        }
        HostCommand::Delete { name, yes } => {
            ask(&format!("host {name} and its mappings will be deleted, and its sessions end"), *yes)?;
            change(at, &Change::HostDelete { name: name.clone() })
        }
        HostCommand::Map { host, volume, lun, again } => {
            let (host, volume) = (host.clone(), volume.clone());
            change(at, &Change::Map { host, volume, lun: *lun, again: *again })
        }
        HostCommand::Unmap { host, volume, yes } => {
            ask(&format!("{volume} will be unmapped from host {host}, even if it is in use"), *yes)?;
            change(at, &Change::Unmap { host: host.clone(), volume: volume.clone() })
        }
    }
}

/// Declares or changes a host; shows it if there is nothing to change.
fn set(what: &HostCommand, at: &Where) -> Result<ExitCode> {
    let HostCommand::Set { name, initiator, chap, mutual_chap, no_chap, no_mutual_chap, yes } = what else {
        unreachable!("the caller has matched it");
    };
    let is_nothing = initiator.is_none() && chap.is_none() && mutual_chap.is_none();
    if is_nothing && !no_chap && !no_mutual_chap {
        let find = |s: &admin::Status| s.hosts.iter().find(|h| h.name == *name).cloned();
        return show_one(at, "host", name, find, |_, host| tables::host(host));
    }
    if *no_chap {
        let initiator = initiator.as_deref().unwrap_or("its iSCSI name");
        confirm(
            &format!(
                "host {name} will lose its secret, and any initiator with {initiator} will be this host"
            ),
            *yes,
        )?;
    }
    let set = Change::HostSet {
        name: name.clone(),
        initiator: initiator.clone(),
        chap: chap.clone(),
        mutual_chap: mutual_chap.clone(),
        no_chap: *no_chap,
        no_mutual_chap: *no_mutual_chap,
    };
    change(at, &set)
}
