//! `masu host`: who may log in, and what each host sees.

use std::process::ExitCode;

use admin::Change;
use anyhow::Result;
use clap::Subcommand;

use super::confirm::{ask, confirm};
use super::request::{Where, change, show, show_one};
use super::tables;

#[derive(Subcommand)]
pub(crate) enum HostCommand {
    /// List the hosts and what they see
    List,
    /// Declare a host, or change it: what is not given stays. With the name alone, show it
    Set {
        /// Its name here
        name: String,
        /// Its iSCSI name (iqn., eui. or naa.); '*' for any initiator that no other host names
        initiator: Option<String>,
        /// CHAP: what the host proves, as name:secret (12 bytes or more)
        #[arg(long, value_parser = name_and_secret)]
        chap: Option<(String, String)>,
        /// Mutual CHAP: what the array proves, as name:secret
        #[arg(long, value_parser = name_and_secret)]
        mutual_chap: Option<(String, String)>,
        /// Take the host's secret away: whoever gives its iSCSI name is this host then
        #[arg(long, conflicts_with_all = ["chap", "mutual_chap"])]
        no_chap: bool,
        /// The array proves nothing to the host any more
        #[arg(long, conflicts_with = "mutual_chap")]
        no_mutual_chap: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Forget a host; its sessions end
    Delete {
        /// The host
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Let a host see a volume
    Map {
        /// The host
        host: String,
        /// The volume
        volume: String,
        /// The LUN, 0 to 16383; the first free one when not given
        #[arg(long)]
        lun: Option<u16>,
        /// Also when the host sees the volume already: it gets a second LUN
        #[arg(long)]
        again: bool,
    },
    /// Let a host see a volume no longer, under any LUN
    Unmap {
        /// The host
        host: String,
        /// The volume
        volume: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

fn name_and_secret(text: &str) -> Result<(String, String), String> {
    let (name, secret) = text.split_once(':').ok_or("write it as name:secret")?;
    Ok((name.into(), secret.into()))
}

pub(super) fn run(what: &HostCommand, at: &Where) -> Result<ExitCode> {
    match what {
        HostCommand::List => show(at, tables::hosts),
        HostCommand::Set { .. } => set(what, at),
        HostCommand::Delete { name, yes } => {
            ask(&format!("host {name} will be forgotten with its mappings, and its sessions end"), *yes)?;
            change(at, &Change::HostDelete { name: name.clone() })
        }
        HostCommand::Map { host, volume, lun, again } => {
            let (host, volume) = (host.clone(), volume.clone());
            change(at, &Change::Map { host, volume, lun: *lun, again: *again })
        }
        HostCommand::Unmap { host, volume, yes } => {
            ask(&format!("host {host} will see {volume} no longer, also if it uses it now"), *yes)?;
            change(at, &Change::Unmap { host: host.clone(), volume: volume.clone() })
        }
    }
}

/// Declares or changes a host; shows it when nothing is to be changed.
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
        confirm(&format!("host {name} loses its secret: whoever gives {initiator} is this host"), *yes)?;
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
