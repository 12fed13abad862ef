//! `masu load fileserver` and `masu agent`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::agent::Agent;
use super::client::run_here;
use super::lead;
use super::secret::Secret;
use super::share::Address;
use super::wire::Part;
use lab_core::interrupt::Stop;

/// The load of file servers: workers copy every target file of a set once, from the server or to it
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  masu load files create /mnt/share --trees 16 --files 400 --targets 100     a set on the server
  masu load fileserver /mnt/share --local ./copies                           one client with 8 workers
  masu load fileserver smb://user:password@10.0.0.7/data --workers 8         by SMB, without a mount
  masu load fileserver --agents client1:7441,client2:7441 --secret-file s    two clients, started at one moment

A worker takes one tree after another. Of each it copies all target files, in a random order: it walks down from the top of the tree,
listing folders, until a folder holds the file; then it reads it from the server over its own copy (8 of 10), or writes its own copy over it.
Workers have zero think time. Without --local, data read are dropped and data to write are generated. Target files that were
written have another content afterwards; `masu load files check` knows both.")]
pub struct FileServer {
    /// The folder of the set: a path, or smb://user:password@host[:port]/share[/folder] (the password may be
    /// in MASU_SMB_PASSWORD)
    #[arg(required_unless_present = "agents")]
    share: Option<Address>,
    /// Client machines with `masu agent`, as host:port
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["share", "local"])]
    agents: Vec<String>,
    /// The secret that the agents have, too: a file that only its owner reads
    #[arg(long, requires = "agents")]
    secret_file: Option<PathBuf>,
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
/// A lead can have it read and write below the share, and must prove that it has the secret. What is said
/// then is not encrypted: listen in the laboratory's network only. Without a secret an agent listens on
/// loopback addresses only.
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
    /// The secret that leads must have, too: a file of 16 bytes or more that only its owner reads
    #[arg(long)]
    secret_file: Option<PathBuf>,
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
        Some(share) => run_here(share, load.local.clone(), &part, &Stop::on_signals()?)?,
        None => lead::run(&load.agents, secret_of(load.secret_file.as_deref())?.as_ref(), &part)?,
    };
    if load.json {
        lab_core::console::print(&serde_json::to_string(&outcome)?)
    } else {
        lab_core::console::print(&outcome.to_string())
    }
    ensure!(outcome.mismatches == 0, "{} files differ from what was created", outcome.mismatches);
    Ok(())
}

/// Runs until it is ended.
pub fn serve(args: &AgentArgs) -> Result<()> {
    let secret = secret_of(args.secret_file.as_deref())?;
    let listener = TcpListener::bind(&args.listen).with_context(|| args.listen.clone())?;
    let at = listener.local_addr()?;
    ensure!(
        secret.is_some() || at.ip().is_loopback(),
        "{at} is reachable from other machines: --secret-file is required"
    );
    lab_core::console::note(&format!("agent at {at}"));
    Agent { address: args.share.clone(), local: args.local.clone(), secret, epoch: Instant::now() }
        .serve(&listener)
}

fn secret_of(path: Option<&Path>) -> Result<Option<Secret>> {
    path.map(Secret::read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_others_reach_needs_a_secret() {
        let args = AgentArgs {
            share: Address::Folder("/nowhere".into()),
            local: None,
            listen: "0.0.0.0:0".into(),
            secret_file: None,
        };
        let refused = serve(&args).expect_err("no secret").to_string();
        assert!(refused.contains("--secret-file is required"), "{refused}");
    }
}
