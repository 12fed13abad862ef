//! `masu policy`: the service that volumes and images are promised.

use std::process::ExitCode;

use admin::{Change, PoolScheduler, Status, Terms, VolumeQos, format_bytes, parse_bytes};
use anyhow::Result;
use clap::{Args, Subcommand};

use super::request::{Where, change, show};
use crate::table;

pub(super) const HELP: &str = "\
IOPS are normalised: a request counts once for each 8 KiB of it ([qos] unit in array.toml), so one of 512 KiB counts 64,
and 1000 IOPS are 8.2 MB/s. Whoever has no policy takes part in what is left with weight 100. Changes hold at once;
nothing that runs is dropped.

Example: the databases get 3000 IOPS whatever the others do, a test machine never more than 500
  masu policy create gold --minimum 3000
  masu policy create bronze --maximum 500
  masu policy attach gold db0 db1
  masu policy attach bronze test
  masu policy list";

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Create a policy
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        terms: TermArgs,
    },
    /// Change what a policy promises, to all volumes and images that have it; what is not given stays
    Set {
        /// The policy
        name: String,
        #[command(flatten)]
        terms: TermArgs,
    },
    /// List the policies, who has them with how they are kept, and the pools with what they were seen to do
    List,
    /// Give volumes and images a policy, instead of the one that they have
    Attach {
        /// The policy
        name: String,
        /// The volumes and images
        #[arg(required = true)]
        volumes: Vec<String>,
    },
    /// Take the policy from volumes and images
    Detach {
        /// The volumes and images
        #[arg(required = true)]
        volumes: Vec<String>,
    },
    /// Delete a policy
    Delete {
        /// The policy; nobody may have it any more
        name: String,
    },
}

#[derive(Args)]
pub(crate) struct TermArgs {
    /// Normalised IOPS that a volume gets when it asks for them; none takes it back
    #[arg(long, value_parser = number)]
    minimum: Option<u64>,
    /// Normalised IOPS that a volume gets at most; none takes it back
    #[arg(long, value_parser = number)]
    maximum: Option<u64>,
    /// What a volume gets in a second at most, as in 40MiB; none takes it back
    #[arg(long, value_parser = size)]
    bandwidth: Option<u64>,
    /// Its part of what is left: 1 to 10000, 100 is that of a volume without a policy
    #[arg(long)]
    weight: Option<u32>,
    /// Units that a volume may be ahead of the others after it was idle
    #[arg(long)]
    burst: Option<u64>,
    /// Whether each volume has the policy for itself, or those of a pool share it: dedicated or aggregated
    #[arg(long, value_parser = sharing)]
    sharing: Option<bool>,
}

fn number(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(0),
        _ => text.parse().map_err(|_| "is a number, or none".to_owned()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    if text == "none" { Ok(0) } else { parse_bytes(text) }
}

fn sharing(text: &str) -> Result<bool, String> {
    match text {
        "dedicated" => Ok(false),
        "aggregated" => Ok(true),
        _ => Err("is dedicated or aggregated".into()),
    }
}

impl TermArgs {
    fn terms(&self) -> Terms {
        Terms {
            minimum_iops: self.minimum,
            maximum_iops: self.maximum,
            bandwidth_bytes_per_s: self.bandwidth,
            weight: self.weight,
            burst_units: self.burst,
            aggregated: self.sharing,
        }
    }
}

pub(super) fn run(what: &PolicyCommand, at: &Where) -> Result<ExitCode> {
    let request = match what {
        PolicyCommand::List => return show(at, print),
        PolicyCommand::Create { name, terms } => {
            Change::PolicyCreate { name: name.clone(), terms: terms.terms() }
        }
        PolicyCommand::Set { name, terms } => Change::PolicySet { name: name.clone(), terms: terms.terms() },
        PolicyCommand::Attach { name, volumes } => {
            Change::PolicyAttach { name: name.clone(), volumes: volumes.clone() }
        }
        PolicyCommand::Detach { volumes } => Change::PolicyDetach { volumes: volumes.clone() },
        PolicyCommand::Delete { name } => Change::PolicyDelete { name: name.clone() },
    };
    change(at, &request)
}

/// A limit, or nothing.
fn shown(limit: Option<u64>) -> String {
    limit.filter(|l| *l > 0).map_or_else(|| "-".into(), |l| l.to_string())
}

fn print(s: &Status) {
    let row = |p: &admin::Policy| {
        vec![
            p.name.clone(),
            shown(Some(p.minimum_iops)),
            shown(p.maximum_iops),
            p.bandwidth_bytes_per_s.map_or_else(|| "-".into(), |b| format!("{}/s", format_bytes(b))),
            p.weight.to_string(),
            p.burst_units.to_string(),
            p.sharing.clone(),
            p.volumes.join(" "),
        ]
    };
    let header =
        ["policy", "minimum", "maximum", "bandwidth", "weight", "burst", "sharing", "volumes, images"];
    let empty = "no policies: masu policy create NAME --minimum 3000";
    table::print(&header, &header[1..6], s.policies.iter().map(row).collect(), empty);
    print_volumes(s);
    s.schedulers.iter().for_each(print_scheduler);
}

fn print_volumes(s: &Status) {
    let volumes = s.volumes.iter().map(|v| (&v.name, &v.qos));
    let all = volumes.chain(s.images.iter().map(|i| (&i.name, &i.qos)));
    let with: Vec<(&String, &VolumeQos)> = all.filter(|(_, q)| q.policy.is_some()).collect();
    if with.is_empty() {
        return;
    }
    println!();
    let row = |(name, q): &(&String, &VolumeQos)| {
        let mean_us = q.waited_us.checked_div(q.waited_requests).unwrap_or(0);
        vec![
            (*name).clone(),
            q.policy.clone().unwrap_or_default(),
            state(q),
            q.minimum_requests.to_string(),
            q.weight_requests.to_string(),
            q.waited_requests.to_string(),
            format!("{:.1} ms", mean_us as f64 / 1e3),
            format_bytes(q.charged_bytes),
        ]
    };
    let header = ["volume, image", "policy", "state", "for minimum", "by weight", "waited", "for", "charged"];
    table::print(&header, &header[3..], with.iter().map(row).collect(), "no volumes");
}

/// The policy of a volume or an image, and how it is kept when it is not.
pub(super) fn of(q: &VolumeQos) -> String {
    match &q.policy {
        None => "-".into(),
        Some(policy) if q.state == "ok" => policy.clone(),
        Some(policy) => format!("{policy} ({})", state(q)),
    }
}

/// How a promise stands, in words.
fn state(q: &VolumeQos) -> String {
    match (q.state.as_str(), q.served_iops) {
        ("below_minimum", Some(served)) => format!("below minimum: {served} IOPS"),
        ("unknown_policy", _) => "unknown policy".into(),
        _ => "ok".into(),
    }
}

fn print_scheduler(s: &PoolScheduler) {
    let capacity = match (s.capacity_iops, s.capacity_is_full) {
        (0, _) => "what it can do was not seen yet".into(),
        (iops, true) => format!("{iops} IOPS are what it can do"),
        (iops, false) => format!("{iops} IOPS are the most that was asked of it"),
    };
    let place = match &s.pool {
        Some(pool) => format!("pool {pool}"),
        None => format!("images of controller {}", s.controller),
    };
    println!(
        "\n{place}: {} IOPS promised; {capacity}; {} requests at once at most, {} run, {} wait",
        s.minimums_iops, s.depth, s.in_flight, s.waiting
    );
    if s.scale_permille < 980 {
        let percent = f64::from(s.scale_permille) / 10.0;
        println!("{place}: the minimums do not fit: all are scaled to {percent:.1} %");
    }
}
