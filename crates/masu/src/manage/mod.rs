//! Administration of a running array: every command is a request to its API.

mod cache;
mod config;
mod confirm;
mod doctor;
mod events;
mod follow;
mod group;
mod heat;
mod host;
mod host_connect;
mod image;
mod life;
mod node;
mod node_invite;
mod nouns;
mod observed;
mod policy;
mod pool;
mod request;
mod secret;
mod state;
mod token;
mod top;
mod volume;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use request::show;

pub(crate) use follow::{Line, percent};
pub(crate) use request::{Where, client, socket_in};

#[derive(Subcommand)]
pub(crate) enum Manage {
    /// Show the state of the array: problems first, then work, capacity, drives, ports, sessions, events
    Status {
        #[command(flatten)]
        at: Where,
    },
    /// Live view: hosts, LUs, pools, drives, and who waits for whom
    #[command(after_help = top::HELP)]
    Top {
        #[command(flatten)]
        what: top::TopCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Wait until the array serves: its API answers and its ports are open
    Wait {
        /// Give up after this time, as in 90s or 5min
        #[arg(long, value_parser = units::parse_duration, default_value = "60s")]
        timeout: Duration,
        #[command(flatten)]
        at: Where,
    },
    /// Stop the array of a data directory in order, and wait until its process has ended
    Stop {
        /// Give up after this time; the array still stops
        #[arg(long, value_parser = units::parse_duration, default_value = "5min")]
        timeout: Duration,
        #[command(flatten)]
        at: Where,
    },
    /// The declaration: check a file, show what runs, differences, export, import, reference
    #[command(subcommand_required = true, after_help = config::HELP)]
    Config {
        #[command(subcommand)]
        what: config::ConfigCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Show events: drives, groups, hosts, changes and their users; kept for 30 days
    #[command(after_help = events::HELP)]
    Events {
        #[command(flatten)]
        what: events::EventsCommand,
        #[command(flatten)]
        at: Where,
    },
    /// RAID groups: create, list, show, set, scrub, replace a drive
    #[command(subcommand_required = true, after_help = group::HELP)]
    Group {
        #[command(subcommand)]
        what: group::GroupCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Drives: list, show, create spares, delete; replay a trace on a modelled drive, fit one to a trace
    #[command(subcommand_required = true)]
    Drive {
        #[command(subcommand)]
        what: group::DriveCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Pools: create, list, show, set; add and remove groups; export and import
    #[command(subcommand_required = true, after_help = pool::HELP)]
    Pool {
        #[command(subcommand)]
        what: pool::PoolCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Volumes: list with exact space accounting, show, create, set, reclaim, delete
    #[command(subcommand_required = true)]
    Volume {
        #[command(subcommand)]
        what: volume::VolumeCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Images: virtual disk images (VHD, VHDX) as LUs: list, show, create, delete
    #[command(subcommand_required = true, after_help = image::HELP)]
    Image {
        #[command(subcommand)]
        what: image::ImageCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Caches: hit ratios, dirty data, destage, read-ahead, journals; partitions
    #[command(after_help = cache::HELP)]
    Cache {
        #[command(subcommand)]
        what: Option<cache::CacheCommand>,
        #[command(flatten)]
        at: Where,
    },
    /// Policies: minimum and maximum service of volumes and images
    #[command(subcommand_required = true, after_help = policy::HELP)]
    Policy {
        #[command(subcommand)]
        what: policy::PolicyCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Snapshots: instant, writable, sharing pages with their volume: list, show, create, set, delete
    #[command(subcommand_required = true)]
    Snapshot {
        #[command(subcommand)]
        what: volume::SnapshotCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Hosts and their mappings: list, show, create, set, delete, map, unmap
    #[command(subcommand_required = true)]
    Host {
        #[command(subcommand)]
        what: host::HostCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Tokens of the API on TCP, with roles: list, show, create, delete
    #[command(subcommand_required = true, after_help = token::HELP)]
    Token {
        #[command(subcommand)]
        what: token::TokenCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Jobs: long work that runs in the array, and how far it is
    #[command(subcommand_required = true)]
    Job {
        #[command(subcommand)]
        what: observed::ObservedCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Sessions of hosts
    #[command(subcommand_required = true)]
    Session {
        #[command(subcommand)]
        what: observed::ObservedCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Ports: iSCSI portals, with their traffic
    #[command(subcommand_required = true)]
    Port {
        #[command(subcommand)]
        what: observed::ObservedCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Events as objects: list with filters, show (masu events follows them)
    #[command(subcommand_required = true)]
    Event {
        #[command(subcommand)]
        what: observed::EventCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Examine this machine, the drives and the array: what is wrong, and what would fail next
    #[command(after_help = doctor::HELP)]
    Doctor {
        #[command(flatten)]
        what: doctor::DoctorCommand,
        #[command(flatten)]
        at: Where,
    },
    /// Nodes that share drives through a registry: list, drain, remove, test a fail-over
    #[command(subcommand_required = true)]
    Node {
        #[command(subcommand)]
        what: node::NodeCommand,
    },
}

pub(crate) fn run(manage: &Manage) -> Result<ExitCode> {
    match manage {
        Manage::Status { at } => show(at, |status| state::print(status, at.form.look())),
        Manage::Top { what, at } => top::run(what, at),
        Manage::Wait { timeout, at } => life::until_served(at, *timeout),
        Manage::Stop { timeout, at } => life::stop(at, *timeout),
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
        Manage::Token { what, at } => token::run(what, at),
        Manage::Job { what, at } => observed::run_job(what, at),
        Manage::Session { what, at } => observed::run_session(what, at),
        Manage::Port { what, at } => observed::run_port(what, at),
        Manage::Event { what, at } => observed::run_event(what, at),
        Manage::Doctor { what, at } => doctor::run(what, at),
        Manage::Node { what } => node::run(what),
    }
}
