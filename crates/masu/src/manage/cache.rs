//! `masu cache`: content and activity of the caches, and their partitions.

use std::process::ExitCode;

use admin::{Cache, CacheTraffic, Change, Status};
use anyhow::{Result, bail};
use clap::Subcommand;
use config::{format_bytes, parse_bytes};

use super::nouns::{PARTITION, partitions};
use super::request::{Where, change, list, show, show_one, status};
use crate::table;
use crate::table::ListArgs;

pub(super) const HELP: &str = "\
Example: memory that the databases' volume keeps whatever others read
  masu cache partition create gold --minimum 2GiB
  masu volume set db0 --partition gold";

#[derive(Subcommand)]
pub(crate) enum CacheCommand {
    /// Partitions: shares of the memory for some volumes
    #[command(subcommand_required = true, after_help = HELP)]
    Partition {
        #[command(subcommand)]
        what: PartitionCommand,
    },
}

#[derive(Subcommand)]
pub(crate) enum PartitionCommand {
    /// List the partitions: the memory and the hits of all controllers together
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one partition with everything of it
    Show {
        /// The partition
        name: String,
    },
    /// Create a partition
    ///
    /// Other volumes borrow memory that its volumes do not use. All partitions share unreserved memory
    /// equally. The minimum applies to each controller.
    Create {
        /// The partition
        name: String,
        /// Memory reserved for its volumes, e.g. 2GiB
        #[arg(long, value_parser = parse_bytes)]
        minimum: u64,
    },
    /// Change the minimum of a partition, or create it
    Set {
        /// The partition
        name: String,
        /// Memory reserved for its volumes, e.g. 2GiB
        #[arg(long, value_parser = parse_bytes)]
        minimum: u64,
    },
    /// Delete a partition
    #[command(visible_alias = "remove")]
    Delete {
        /// The partition; it must have no volumes (masu volume set VOLUME --partition none)
        name: String,
    },
}

/// `masu cache`, with or without a command.
pub(super) fn run(what: Option<&CacheCommand>, at: &Where) -> Result<ExitCode> {
    match what {
        None => show(at, print),
        Some(CacheCommand::Partition { what }) => run_partition(what, at),
    }
}

fn run_partition(what: &PartitionCommand, at: &Where) -> Result<ExitCode> {
    match what {
        PartitionCommand::List { args } => list(at, &PARTITION, args, partitions),
        PartitionCommand::Show { name } => show_one(at, &PARTITION, name, partitions, |_, _| ()),
        PartitionCommand::Create { name, minimum } => {
            let is_there = |cache: &Cache| cache.partitions.iter().any(|p| p.name == *name);
            if status(at)?.caches.iter().any(is_there) {
                bail!("partition {name:?} is there already; change it with masu cache partition set {name}");
            }
            change(at, &Change::CachePartitionSet { name: name.clone(), minimum_bytes: *minimum })
        }
        PartitionCommand::Set { name, minimum } => {
            change(at, &Change::CachePartitionSet { name: name.clone(), minimum_bytes: *minimum })
        }
        PartitionCommand::Delete { name } => change(at, &Change::CachePartitionRemove { name: name.clone() }),
    }
}

/// A share in percent; `-` if the total is zero.
fn share(part: u64, of: u64) -> String {
    if of == 0 { "-".into() } else { format!("{:.1} %", 100.0 * part as f64 / of as f64) }
}

fn print(status: &Status) {
    if status.caches.is_empty() {
        println!("no caches; declare one in array.toml with [cache] memory = \"256MiB\"");
    }
    for (i, cache) in status.caches.iter().enumerate() {
        if i > 0 {
            println!();
        }
        print_one(cache);
    }
}

fn print_one(cache: &Cache) {
    println!(
        "controller {}: {} of memory, {} in frames, {} dirty (write pending {} %)",
        cache.controller,
        format_bytes(cache.memory_bytes),
        format_bytes(cache.used_bytes),
        format_bytes(cache.pending_bytes),
        cache.pending_percent
    );
    let all = |f: fn(&CacheTraffic) -> u64| cache.partitions.iter().map(|p| f(&p.traffic)).sum::<u64>();
    println!(
        "read hits {}, write hits {}, {} destaged",
        share(all(|t| t.read_hit_bytes), all(|t| t.read_bytes)),
        share(all(|t| t.write_hit_bytes), all(|t| t.write_bytes)),
        format_bytes(all(|t| t.destaged_bytes))
    );
    if cache.waits > 0 {
        println!("writes waited {} times at the limit of dirty data", cache.waits);
    }
    if let Some(s) = &cache.second {
        let state = if s.failed { "disabled: its drive failed" } else { "active" };
        println!(
            "second level (SSD): {state}, {} of {} used, hits {}, {} written",
            format_bytes(s.used_bytes),
            format_bytes(s.size_bytes),
            share(s.hits, s.hits + s.misses),
            format_bytes(s.written_bytes)
        );
    }
    println!();
    print_partitions(cache);
    println!();
    let row = |v: &admin::CachedVolume| {
        let known = [v.volume.clone(), v.policy.clone(), v.partition.clone()];
        let sizes = [format_bytes(v.cached_bytes), format_bytes(v.pending_bytes)];
        known.into_iter().chain(sizes).chain(traffic(&v.traffic)).collect()
    };
    let header = [&["volume", "policy", "partition", "cached", "pending"], &TRAFFIC[..]].concat();
    table::print_plain(&header, &header[3..], cache.volumes.iter().map(row).collect(), "no volumes");
    print_journals(cache);
}

const TRAFFIC: [&str; 7] = ["read", "hits", "written", "absorbed", "destaged", "read ahead", "used"];

fn traffic(t: &CacheTraffic) -> [String; 7] {
    [
        format_bytes(t.read_bytes),
        share(t.read_hit_bytes, t.read_bytes),
        format_bytes(t.write_bytes),
        share(t.write_hit_bytes, t.write_bytes),
        format_bytes(t.destaged_bytes),
        format_bytes(t.ahead_bytes),
        share(t.ahead_used_bytes, t.ahead_bytes),
    ]
}

fn print_partitions(cache: &Cache) {
    let row = |p: &admin::CachePartition| {
        let sizes = [p.minimum_bytes, p.used_bytes, p.pending_bytes].map(format_bytes);
        [p.name.clone()].into_iter().chain(sizes).chain(traffic(&p.traffic)).collect()
    };
    let header = [&["partition", "minimum", "cached", "pending"], &TRAFFIC[..]].concat();
    table::print_plain(&header, &header[1..], cache.partitions.iter().map(row).collect(), "no partitions");
}

fn print_journals(cache: &Cache) {
    if cache.journals.is_empty() {
        return;
    }
    println!();
    let row = |j: &admin::Journal| {
        let gathered =
            if j.commits == 0 { "-".into() } else { format!("{:.1}", j.records as f64 / j.commits as f64) };
        vec![
            j.pool.clone(),
            format_bytes(j.size_bytes),
            share(j.live_bytes, j.size_bytes),
            j.records.to_string(),
            j.commits.to_string(),
            gathered,
            format_bytes(j.bytes),
        ]
    };
    let header = ["journal of", "size", "full", "records", "commits", "a commit", "written"];
    table::print_plain(&header, &header[1..], cache.journals.iter().map(row).collect(), "no journals");
}
