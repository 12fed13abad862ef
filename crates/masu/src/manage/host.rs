//! `masu host`: who may log in, and what each host sees.

use std::process::ExitCode;

use admin::Change;
use anyhow::Result;
use clap::Subcommand;

use super::{Where, change, show, tables};

#[derive(Subcommand)]
pub(crate) enum HostCommand {
    /// List the hosts and what they see
    List,
    /// Declare a host, or change it
    Set {
        /// Its name here
        name: String,
        /// Its iSCSI name; '*' for any initiator that no other host names
        initiator: String,
        /// CHAP: what the host proves, as name:secret (12 bytes or more)
        #[arg(long, value_parser = name_and_secret)]
        chap: Option<(String, String)>,
        /// Mutual CHAP: what the array proves, as name:secret
        #[arg(long, value_parser = name_and_secret, requires = "chap")]
        mutual_chap: Option<(String, String)>,
    },
    /// Forget a host
    Delete {
        /// The host
        name: String,
    },
    /// Let a host see a volume
    Map {
        /// The host
        host: String,
        /// The volume
        volume: String,
        /// The LUN; the first free one when not given
        #[arg(long)]
        lun: Option<u16>,
    },
    /// Let a host see a volume no longer
    Unmap {
        /// The host
        host: String,
        /// The volume
        volume: String,
    },
}

fn name_and_secret(text: &str) -> Result<(String, String), String> {
    let (name, secret) = text.split_once(':').ok_or("write it as name:secret")?;
    Ok((name.into(), secret.into()))
}

pub(super) fn run(what: &HostCommand, at: &Where) -> Result<ExitCode> {
    match what {
        HostCommand::List => show(at, tables::hosts),
        HostCommand::Set { name, initiator, chap, mutual_chap } => change(
            at,
            &Change::HostSet {
                name: name.clone(),
                initiator: initiator.clone(),
                chap: chap.clone(),
                mutual_chap: mutual_chap.clone(),
            },
        ),
        HostCommand::Delete { name } => change(at, &Change::HostDelete { name: name.clone() }),
        HostCommand::Map { host, volume, lun } => {
            change(at, &Change::Map { host: host.clone(), volume: volume.clone(), lun: *lun })
        }
        HostCommand::Unmap { host, volume } => {
            change(at, &Change::Unmap { host: host.clone(), volume: volume.clone() })
        }
    }
}
