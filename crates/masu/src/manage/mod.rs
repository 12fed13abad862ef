//! Administration of a running array: every command is a request to its API.

mod cache;
mod config;
mod confirm;
mod events;
mod follow;
mod group;
mod heat;
mod host;
mod image;
mod policy;
mod pool;
mod state;
mod tables;
mod volume;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use admin::{Change, Client, Endpoint, Status};
use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};

pub(crate) use follow::Line;

/// Which array, and how answers are printed.
#[derive(Args)]
pub(crate) struct Where {
    /// The data directory of the running array
    #[arg(long, default_value = "./data", env = "MASU_DATA", global = true)]
    data: PathBuf,
    /// The array's API on TCP instead, as host:port; needs --token
    #[arg(long, requires = "token", global = true)]
    api: Option<String>,
    /// The token for the API on TCP
    #[arg(long, env = "MASU_TOKEN", hide_env_values = true, global = true)]
    token: Option<String>,
    /// Print tables or JSON
    #[arg(long, value_enum, default_value_t = Output::Table, global = true)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}

#[derive(Subcommand)]
pub(crate) enum Manage {
    /// How the array stands: trouble first, then work, capacity, drives, ports, sessions, events
    Status {
        #[command(flatten)]
        at: Where,
    },
    /// The declaration: how the array differs from it, export, import
    #[command(subcommand_required = true, after_help = config::HELP)]
    Config {
        #[command(subcommand)]
        what: config::ConfigCommand,
        #[command(flatten)]
        at: Where,
    },
    /// What happened: drives, groups, hosts, changes and who made them; kept for 30 days
    #[command(after_help = events::HELP)]
    Events {
        #[command(flatten)]
        what: events::EventsCommand,
        #[command(flatten)]
        at: Where,
    },
    /// RAID groups: create, list, show, scrub, replace a drive
    #[command(subcommand_required = true, after_help = group::HELP)]
    Group {
        #[command(subcommand)]
        what: group::GroupCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Drives: list them with what each does; spares
    #[command(subcommand_required = true)]
    Drive {
        #[command(subcommand)]
        what: group::DriveCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Pools: create, list, show; groups come and go; export and import
    #[command(subcommand_required = true, after_help = pool::HELP)]
    Pool {
        #[command(subcommand)]
        what: pool::PoolCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Volumes: list with space that adds up, create, grow, reclaim, delete
    #[command(subcommand_required = true)]
    Volume {
        #[command(subcommand)]
        what: volume::VolumeCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Images: virtual disks in files (VHD, VHDX) that hosts see like volumes; list, add, remove
    #[command(subcommand_required = true, after_help = image::HELP)]
    Image {
        #[command(subcommand)]
        what: image::ImageCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Caches: hit ratios, what is pending, what is destaged and read ahead, journals; partitions
    #[command(after_help = cache::HELP)]
    Cache {
        #[command(subcommand)]
        what: Option<cache::CacheCommand>,
        #[command(flatten)]
        at: Where,
    },
    /// Policies: the service that volumes are promised, with minimum and maximum
    #[command(subcommand_required = true, after_help = policy::HELP)]
    Policy {
        #[command(subcommand)]
        what: policy::PolicyCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Snapshots: instant, writable, sharing pages with their volume
    #[command(subcommand_required = true)]
    Snapshot {
        #[command(subcommand)]
        what: volume::SnapshotCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Hosts and what they see: list, set, delete, map, unmap
    #[command(subcommand_required = true)]
    Host {
        #[command(subcommand)]
        what: host::HostCommand,
        #[command(flatten)]
        at: Where,
    },
}

/// Where the API's socket lies in a data directory.
pub(crate) fn socket_in(data: &Path) -> PathBuf {
    data.join("api.sock")
}

pub(crate) fn run(manage: &Manage) -> Result<ExitCode> {
    match manage {
        Manage::Status { at } => show(at, state::print),
        Manage::Config { what, at } => config::run(what, at),
        Manage::Events { what, at } => events::run(what, at),
        Manage::Cache { what, at } => cache::run(what.as_ref(), at),
        Manage::Group { what, at } => group::run(what, at),
        Manage::Drive { what, at } => group::run_drive(what, at),
        Manage::Pool { what, at } => pool::run(what, at),
        Manage::Volume { what, at } => volume::run(what, at),
        Manage::Image { what, at } => image::run(what, at),
        Manage::Policy { what, at } => policy::run(what, at),
        Manage::Snapshot { what, at } => volume::run_snapshot(what, at),
        Manage::Host { what, at } => host::run(what, at),
    }
}

pub(crate) fn client(at: &Where) -> Client {
    Client::new(match (&at.api, &at.token) {
        (Some(addr), Some(token)) => Endpoint::Tcp { addr: addr.clone(), token: token.clone() },
        _ => Endpoint::Unix(socket_in(&at.data)),
    })
}

fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    Ok(runtime.block_on(work))
}

/// Makes a change, and says what was done.
fn change(at: &Where, change: &Change) -> Result<ExitCode> {
    let done = wait(client(at).change(change))??;
    match at.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&done)?),
        Output::Table if done.is_empty() => println!("nothing to do"),
        Output::Table => done.iter().for_each(|line| println!("{line}")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Begins long work, and follows it to its end unless that is not wanted.
fn begin(at: &Where, request: &Change, job: (&str, &str), detach: bool) -> Result<ExitCode> {
    let events_before = wait(client(at).status())??.events.len();
    change(at, request)?;
    if detach || at.output == Output::Json {
        return Ok(ExitCode::SUCCESS);
    }
    wait(follow::follow(&client(at), job, events_before))?
}

/// Prints a part of the status.
fn show(at: &Where, print: impl FnOnce(&Status)) -> Result<ExitCode> {
    let status = wait(client(at).status())??;
    match at.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&status)?),
        Output::Table => print(&status),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints one object of the status; an error when there is none of that name.
fn show_one<T: serde::Serialize>(
    at: &Where,
    kind: &str,
    name: &str,
    find: impl Fn(&Status) -> Option<T>,
    print: impl FnOnce(&Status, &T),
) -> Result<ExitCode> {
    let status = wait(client(at).status())??;
    let found = find(&status).with_context(|| format!("there is no {kind} {name:?}"))?;
    match at.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&found)?),
        Output::Table => print(&status, &found),
    }
    Ok(ExitCode::SUCCESS)
}
