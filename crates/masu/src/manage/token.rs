//! `masu token`: who may use the API on TCP, and for what.

use std::process::ExitCode;
use std::time::Duration;

use admin::{Role, TokenCreate};
use anyhow::Result;
use clap::{Subcommand, ValueEnum};

use super::confirm::ask;
use super::nouns::TOKEN;
use super::request::{Where, client, wait};
use crate::table::moment::time;
use crate::table::{self, ListArgs};

pub(super) const HELP: &str = "\
Roles, each with what those before it may do:
  viewer    read everything but secrets: status, metrics, events
  operator  change storage: drives, groups, pools, volumes, snapshots, images, policies
  admin     decide who sees what: hosts, mappings, secrets, declarations, tokens

Example: Prometheus reads the metrics for a year
  masu token create prometheus --role viewer --expires 365d
  curl -H \"Authorization: Bearer $TOKEN\" https://10.0.0.1:8443/metrics";

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token, and print it: it is said this once, and only its hash is kept
    Create {
        /// Its name, as events show it
        name: String,
        /// What it may do
        #[arg(long, value_enum)]
        role: RoleArg,
        /// Refuse it after this time, as in 12h or 30d; without it, it does not expire
        #[arg(long, value_parser = units::parse_duration)]
        expires: Option<Duration>,
    },
    /// List the tokens
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one token with everything of it but the token itself
    Show {
        /// The token
        name: String,
    },
    /// Delete a token: it is refused from now on
    Delete {
        /// The token
        name: String,
    },
}

/// What a token may do.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RoleArg {
    /// Read everything but secrets
    Viewer,
    /// Change storage
    Operator,
    /// Everything
    Admin,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Role {
        match role {
            RoleArg::Viewer => Role::Viewer,
            RoleArg::Operator => Role::Operator,
            RoleArg::Admin => Role::Admin,
        }
    }
}

pub(super) fn run(what: &TokenCommand, at: &Where) -> Result<ExitCode> {
    match what {
        TokenCommand::List { args } => {
            return table::list(&TOKEN, args, at.form.look(), || Ok(wait(client(at).tokens())??));
        }
        TokenCommand::Show { name } => {
            return table::show(&TOKEN, name, at.form.look(), wait(client(at).tokens())??, |_| ());
        }
        TokenCommand::Create { name, role, expires } => {
            let is_json = at.form.is_json()?;
            let expires_s = expires.map(|time| time.as_secs());
            let wanted = TokenCreate { name: name.clone(), role: (*role).into(), expires_s };
            if at.dry_run {
                println!("token {name:?} would be created, role {}", wanted.role.name());
                return Ok(ExitCode::SUCCESS);
            }
            let made = wait(client(at).create_token(&wanted))??;
            if is_json {
                println!("{}", serde_json::to_string_pretty(&made)?);
                return Ok(ExitCode::SUCCESS);
            }
            let until =
                made.expires_ms.map_or("it does not expire".into(), |at| format!("until {}", time(at)));
            // What a script takes is on standard output, alone.
            eprintln!("token {name:?} created, role {}, {until}; it is not shown again:", made.role.name());
            println!("{}", made.token);
        }
        TokenCommand::Delete { name } => {
            ask(&format!("token {name:?} will be refused from now on"), at)?;
            if at.dry_run {
                println!("token {name:?} would be deleted");
                return Ok(ExitCode::SUCCESS);
            }
            wait(client(at).delete_token(name))??;
            println!("token {name:?} deleted");
        }
    }
    Ok(ExitCode::SUCCESS)
}
