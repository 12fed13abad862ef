//! `masu load fileserver` and `masu agent`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::agent::{Agent, orders};
use super::client::{Client, plan_of};
use super::lead;
use super::outcome::{Outcome, Placed, merge};
use super::share::Address;
use super::wire::Part;
use crate::interrupt::Stop;

/// The load of file servers: workers copy every target file of a set once, from the server or to it
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  masu load files create /mnt/share --trees 16 --files 400 --targets 100     a set on the server
  masu load fileserver /mnt/share --local ./copies                           one client with 8 workers
  masu load fileserver smb://user:password@10.0.0.7/data --workers 8         by SMB, without a mount
  masu load fileserver --agents client1:7441,client2:7441                    two clients, started at one moment

A worker takes one tree after another. Of each it copies all target files, in a random order: it walks down from the top of the tree,
listing folders, until a folder holds the file; then it reads it from the server over its own copy (8 of 10), or writes its own copy over it.
There is no think time. Without --local what is read is dropped and what is written is made on the way. Target files that were
written have another content afterwards; `masu load files check` knows both.")]
pub struct FileServer {
    /// The folder of the set: a path, or smb://user:password@host[:port]/share[/folder] (the password may be in MASU_SMB_PASSWORD)
    #[arg(required_unless_present = "agents")]
    share: Option<Address>,
    /// Client machines with `masu agent`, as host:port
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["share", "local"])]
    agents: Vec<String>,
    /// The client's own copies
    #[arg(long)]
    local: Option<PathBuf>,
    /// Workers of each client
    #[arg(long, default_value_t = 8)]
    workers: u32,
    /// Of 100 files, so many are read
    #[arg(long, default_value_t = 80.0)]
    read_percent: f64,
    /// At most so long, seconds
    #[arg(long, default_value_t = 7200.0)]
    seconds: f64,
    /// At most so many files of each worker
    #[arg(long)]
    files: Option<u64>,
    /// Compare what is read with what was created
    #[arg(long)]
    verify: bool,
    /// Random seed of the steps
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// A client machine of a load: waits for `masu load fileserver --agents`
///
/// Whoever reaches its port can have it read and write below the share: listen in the laboratory's network only.
#[derive(Args, Clone, Debug)]
pub struct AgentArgs {
    /// The folder of the set as this machine sees it: a path or an smb:// address
    share: Address,
    /// This client's own copies
    #[arg(long)]
    local: Option<PathBuf>,
    /// Where leads connect
    #[arg(long, default_value = "127.0.0.1:7441")]
    listen: String,
}

/// Runs a load and prints what it did.
pub fn run(load: &FileServer) -> Result<()> {
    let part = Part {
        client: 0,
        clients: 1,
        workers: load.workers,
        seed: load.seed,
        read_share: load.read_percent / 100.0,
        verify: load.verify,
        files_max: load.files.unwrap_or(u64::MAX),
        seconds_max: load.seconds,
    };
    if let Some(fault) = part.fault() {
        anyhow::bail!("{fault}");
    }
    let outcome = match &load.share {
        Some(share) => one(share, load.local.clone(), &part)?,
        None => lead::run(&load.agents, &part)?,
    };
    if load.json {
        println!("{}", serde_json::to_string(&outcome)?)
    } else {
        println!("{outcome}")
    }
    ensure!(outcome.mismatches == 0, "{} files are not what was created", outcome.mismatches);
    Ok(())
}

/// One client, here.
fn one(share: &Address, local: Option<PathBuf>, part: &Part) -> Result<Outcome> {
    let stop = Stop::on_signals()?;
    let orders = orders(plan_of(share)?, part, local);
    let client = Client::prepare(share.clone(), orders, (0, 1), part.workers, &stop)?;
    let epoch = Instant::now();
    let outcome = client.run(epoch, epoch, &stop)?;
    let (began_ns, ended_ns) = (outcome.began_ns, outcome.ended_ns);
    Ok(merge(&[Placed { outcome, began_ns, ended_ns, clock_error_ns: 0 }], part.workers))
}

/// Runs until it is ended.
pub fn serve(args: &AgentArgs) -> Result<()> {
    let listener = TcpListener::bind(&args.listen).with_context(|| args.listen.clone())?;
    eprintln!("agent at {}", listener.local_addr()?);
    Agent { address: args.share.clone(), local: args.local.clone(), epoch: Instant::now() }.serve(&listener)
}
