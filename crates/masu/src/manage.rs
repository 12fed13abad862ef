//! Administration of a running array: every command is a request to its API.

use std::path::PathBuf;

use admin::{Change, Client, Endpoint, Status, format_bytes, parse_bytes};
use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};

use crate::table;

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
    /// How the array stands: capacity, drives, ports, sessions, events
    Status {
        #[command(flatten)]
        at: Where,
    },
    /// RAID groups: list, create
    #[command(subcommand_required = true)]
    Group {
        #[command(subcommand)]
        what: GroupCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Pools: list, create, threshold
    #[command(subcommand_required = true)]
    Pool {
        #[command(subcommand)]
        what: PoolCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Volumes: list, create, grow, delete
    #[command(subcommand_required = true)]
    Volume {
        #[command(subcommand)]
        what: VolumeCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Snapshots: instant, writable, sharing pages with their volume
    #[command(subcommand_required = true)]
    Snapshot {
        #[command(subcommand)]
        what: SnapshotCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Hosts and what they see: list, set, delete, map, unmap
    #[command(subcommand_required = true)]
    Host {
        #[command(subcommand)]
        what: HostCommand,
        #[command(flatten)]
        at: Where,
    },
}

#[derive(Subcommand)]
pub(crate) enum GroupCommand {
    /// List the groups
    List,
    /// Create a group of drives that are not in use
    Create {
        /// Its name
        name: String,
        /// raid0 or raid1
        #[arg(long, default_value = "raid1")]
        level: String,
        /// The drives: block devices under /dev, or files (relative to the data directory)
        #[arg(long = "drive", required = true)]
        drives: Vec<String>,
        /// Size of a file drive that is to be made, as in 64GiB
        #[arg(long, value_parser = parse_bytes)]
        drive_size: Option<u64>,
    },
}

#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    /// List the pools
    List,
    /// Create a pool on groups that are not in use
    Create {
        /// Its name
        name: String,
        /// Its groups
        #[arg(long = "group", required = true)]
        groups: Vec<String>,
        /// The unit in which space is given to volumes
        #[arg(long, value_parser = parse_bytes, default_value = "1MiB")]
        page: u64,
        /// Warn hosts when this much is used
        #[arg(long, default_value_t = 80)]
        soft_threshold_percent: u8,
    },
    /// Set the soft threshold of a pool
    Threshold {
        /// The pool
        name: String,
        /// Percent used
        percent: u8,
    },
}

#[derive(Subcommand)]
pub(crate) enum VolumeCommand {
    /// List the volumes with their space and what was done with them
    List,
    /// Create a volume
    Create {
        /// Its name
        name: String,
        /// Its size, as in 10GiB
        #[arg(long, value_parser = parse_bytes)]
        size: u64,
        /// Its pool; not needed where there is one
        #[arg(long)]
        pool: Option<String>,
        /// Take all space now instead of page by page
        #[arg(long)]
        thick: bool,
        /// Logical block length that hosts see: 512 or 4096
        #[arg(long, default_value_t = 512)]
        block: u32,
    },
    /// Make a volume larger
    Grow {
        /// The volume
        name: String,
        /// The new size
        #[arg(long, value_parser = parse_bytes)]
        size: u64,
    },
    /// Delete a volume and its data
    Delete {
        /// The volume; no host may see it any more
        name: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Create a snapshot
    Create {
        /// The volume
        volume: String,
        /// The snapshot's name: a volume of its own
        name: String,
    },
    /// Delete a snapshot
    Delete {
        /// The snapshot
        name: String,
    },
}

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

/// Where the API's socket lies in a data directory.
pub(crate) fn socket_in(data: &std::path::Path) -> PathBuf {
    data.join("api.sock")
}

pub(crate) fn run(manage: &Manage) -> Result<()> {
    match manage {
        Manage::Status { at } => show(at, print_status),
        Manage::Group { what, at } => match what {
            GroupCommand::List => show(at, print_groups),
            GroupCommand::Create { name, level, drives, drive_size } => {
                let (name, level, drives) = (name.clone(), level.clone(), drives.clone());
                change(at, &Change::GroupCreate { name, level, drives, drive_bytes: *drive_size })
            }
        },
        Manage::Pool { what, at } => match what {
            PoolCommand::List => show(at, print_pools),
            PoolCommand::Create { name, groups, page, soft_threshold_percent } => {
                let (name, groups) = (name.clone(), groups.clone());
                let soft_threshold_percent = *soft_threshold_percent;
                change(at, &Change::PoolCreate { name, groups, page_bytes: *page, soft_threshold_percent })
            }
            PoolCommand::Threshold { name, percent } => {
                change(at, &Change::PoolThreshold { name: name.clone(), soft_threshold_percent: *percent })
            }
        },
        Manage::Volume { what, at } => volume(what, at),
        Manage::Snapshot { what, at } => match what {
            SnapshotCommand::Create { volume, name } => {
                change(at, &Change::SnapshotCreate { volume: volume.clone(), name: name.clone() })
            }
            SnapshotCommand::Delete { name } => change(at, &Change::VolumeDelete { name: name.clone() }),
        },
        Manage::Host { what, at } => host(what, at),
    }
}

fn volume(what: &VolumeCommand, at: &Where) -> Result<()> {
    match what {
        VolumeCommand::List => show(at, print_volumes),
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
        VolumeCommand::Delete { name } => change(at, &Change::VolumeDelete { name: name.clone() }),
    }
}

fn host(what: &HostCommand, at: &Where) -> Result<()> {
    match what {
        HostCommand::List => show(at, print_hosts),
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

fn client(at: &Where) -> Client {
    Client::new(match (&at.api, &at.token) {
        (Some(addr), Some(token)) => Endpoint::Tcp { addr: addr.clone(), token: token.clone() },
        _ => Endpoint::Unix(socket_in(&at.data)),
    })
}

fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    Ok(runtime.block_on(work))
}

fn change(at: &Where, change: &Change) -> Result<()> {
    let done = wait(client(at).change(change))??;
    match at.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&done)?),
        Output::Table if done.is_empty() => println!("nothing to do"),
        Output::Table => done.iter().for_each(|line| println!("{line}")),
    }
    Ok(())
}

fn show(at: &Where, print: fn(&Status)) -> Result<()> {
    let status = wait(client(at).status())??;
    match at.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&status)?),
        Output::Table => print(&status),
    }
    Ok(())
}

fn print_status(s: &Status) {
    println!("{}  masu {}, up {} s, {} controller(s)\n", s.target, s.version, s.uptime_s, s.controllers);
    print_pools(s);
    println!();
    let drive = |d: &admin::Drive| {
        vec![
            d.name.clone(),
            d.medium.clone(),
            format_bytes(d.size_bytes),
            d.reads.to_string(),
            d.writes.to_string(),
            d.flushes.to_string(),
        ]
    };
    table::print(
        &["drive", "medium", "size", "reads", "writes", "flushes"],
        &["size", "reads", "writes", "flushes"],
        s.drives.iter().map(drive).collect(),
        "no drives",
    );
    println!();
    let port = |p: &admin::Port| {
        vec![
            p.listen.clone(),
            p.portal_group.to_string(),
            p.controller.to_string(),
            p.sessions.to_string(),
            p.commands.to_string(),
            format_bytes(p.bytes_in),
            format_bytes(p.bytes_out),
        ]
    };
    table::print(
        &["port", "group", "controller", "sessions", "commands", "in", "out"],
        &["group", "controller", "sessions", "commands", "in", "out"],
        s.ports.iter().map(port).collect(),
        "no ports",
    );
    println!();
    let session = |x: &admin::Session| {
        vec![
            x.host.clone(),
            x.initiator.clone(),
            x.isid.clone(),
            x.commands.to_string(),
            format_bytes(x.bytes),
        ]
    };
    table::print(
        &["host", "initiator", "isid", "commands", "bytes"],
        &["commands", "bytes"],
        s.sessions.iter().map(session).collect(),
        "no sessions",
    );
    if !s.events.is_empty() {
        println!("\nEVENTS");
        s.events.iter().for_each(|e| println!("{e}"));
    }
}

fn print_groups(s: &Status) {
    let row = |g: &admin::Group| {
        vec![g.name.clone(), g.level.clone(), g.state.clone(), format_bytes(g.size_bytes), g.drives.join(" ")]
    };
    table::print(
        &["group", "level", "state", "size", "drives"],
        &["size"],
        s.groups.iter().map(row).collect(),
        "no groups",
    );
}

fn print_pools(s: &Status) {
    let row = |p: &admin::Pool| {
        let used = 100.0 * p.used_bytes as f64 / (p.size_bytes.max(1)) as f64;
        vec![
            p.name.clone(),
            p.groups.join(" "),
            format_bytes(p.size_bytes),
            format_bytes(p.used_bytes),
            format!("{used:.1} %"),
            format_bytes(p.promised_bytes),
            format!("{} %", p.soft_threshold_percent),
            format_bytes(p.page_bytes),
        ]
    };
    table::print(
        &["pool", "groups", "size", "used", "share", "promised", "warns at", "page"],
        &["size", "used", "share", "promised", "warns at", "page"],
        s.pools.iter().map(row).collect(),
        "no pools",
    );
}

fn print_volumes(s: &Status) {
    let row = |v: &admin::Volume| {
        let hosts: Vec<String> = v.mapped_to.iter().map(|m| format!("{}:{}", m.host, m.lun)).collect();
        let c = &v.counters;
        vec![
            v.name.clone(),
            v.pool.clone(),
            v.provisioning.clone(),
            format_bytes(v.size_bytes),
            format_bytes(v.used_bytes),
            format_bytes(v.shared_bytes),
            hosts.join(" "),
            c.commands.to_string(),
            format_bytes(c.zeroed_bytes),
            format_bytes(c.shared_bytes),
            format_bytes(c.moved_bytes),
            format_bytes(c.reclaimed_bytes),
        ]
    };
    table::print(
        &[
            "volume",
            "pool",
            "type",
            "size",
            "used",
            "shared",
            "host:lun",
            "commands",
            "zeroed",
            "cloned",
            "moved",
            "reclaimed",
        ],
        &["size", "used", "shared", "commands", "zeroed", "cloned", "moved", "reclaimed"],
        s.volumes.iter().map(row).collect(),
        "no volumes: masu volume create NAME --size 10GiB",
    );
}

fn print_hosts(s: &Status) {
    let row = |h: &admin::Host| {
        let luns: Vec<String> = h.luns.iter().map(|l| format!("{}={}", l.lun, l.volume)).collect();
        vec![h.name.clone(), h.initiator.clone(), h.authentication.clone(), luns.join(" ")]
    };
    table::print(
        &["host", "initiator", "authentication", "luns"],
        &[],
        s.hosts.iter().map(row).collect(),
        "no hosts: masu host set NAME IQN",
    );
}
