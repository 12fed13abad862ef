//! `masu load`: one load alone, for a look at an array and as the client of the benchmarks.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::load::{self, Plan};
use crate::scenario::parse_size;

/// One load alone, against an iscsi:// URL; one that writes overwrites the LU
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// The LU, as iscsi://host:port/target/lun
    url: String,
    /// What to do
    #[arg(long, value_enum, default_value_t = Pattern::Randread)]
    pattern: Pattern,
    /// Bytes of one read or write
    #[arg(long, default_value = "4KiB", value_parser = parse_size)]
    size: u64,
    /// Commands in flight, per connection
    #[arg(long, default_value_t = 32)]
    depth: u16,
    /// How long
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Before that, without measuring
    #[arg(long, default_value_t = 1.0)]
    warm_up_seconds: f64,
    /// Sessions, each on a thread of its own
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Run connection N on processor CPU + N
    #[arg(long)]
    cpu: Option<usize>,
    /// Use only the first part of the LU
    #[arg(long, value_parser = parse_size)]
    span: Option<u64>,
    /// Write content that tells its place, and compare what is read with what a writing load with the same seed wrote
    #[arg(long)]
    verify: bool,
    /// Agree that the LU is overwritten: a load that writes needs it
    #[arg(long)]
    destroy_data: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// What a load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// Random reads
    Randread,
    /// Random writes
    Randwrite,
    /// Sequential reads
    Seqread,
    /// Sequential writes
    Seqwrite,
}

impl Pattern {
    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(self, Pattern::Randwrite | Pattern::Seqwrite)
    }

    /// Whether it jumps.
    pub fn is_random(self) -> bool {
        matches!(self, Pattern::Randread | Pattern::Randwrite)
    }
}

/// Runs a load and prints what it did.
pub fn run_load(load: &Load) -> Result<()> {
    if load.pattern.writes() && !load.destroy_data {
        anyhow::bail!("{}: this load overwrites the LU; say --destroy-data to agree", load.url);
    }
    let outcome = load::run(&Plan {
        url: load.url.clone(),
        pattern: load.pattern,
        size: load.size,
        depth: load.depth,
        seconds: load.seconds,
        warm_up_seconds: load.warm_up_seconds,
        connections: load.connections,
        cpu: load.cpu,
        span: load.span,
        verify: load.verify,
        seed: load.seed,
    })?;
    if load.json {
        println!("{}", serde_json::to_string(&outcome)?)
    } else {
        println!("{outcome}")
    }
    anyhow::ensure!(
        outcome.mismatches == 0,
        "{}: {} blocks of 4 KiB are not what was written",
        load.url,
        outcome.mismatches
    );
    anyhow::ensure!(outcome.failed == 0, "{}: {} commands failed", load.url, outcome.failed);
    Ok(())
}
