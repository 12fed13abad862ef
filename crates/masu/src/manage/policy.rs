//! `masu policy`: QoS policies of volumes and images.

use std::process::ExitCode;

use admin::{Change, Limit, Policy, PolicyPart, PoolScheduler, Status, Terms};
use anyhow::Result;
use clap::{Args, Subcommand};
use config::{format_bytes, parse_bytes};

use super::nouns::{POLICY, SERVICE, services};
use super::request::{Where, change, list, show_one};
use crate::table::{ListArgs, part};

pub(super) const HELP: &str = "\
IOPS are normalised: a request counts once for each 8 KiB of it ([qos] unit in array.toml), so one of 512 KiB counts 64,
and 1000 IOPS are 8.2 MB/s. Whoever has no policy takes part in what is left with weight 100. Changes hold at once;
nothing that runs is dropped.

Example: the databases get 3000 IOPS whatever the others do, a test machine never more than 500
  masu policy create gold --minimum 3000
  masu policy create bronze --maximum 500
  masu policy attach gold db0 db1
  masu policy attach bronze test
  masu policy show gold";

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Create a policy
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        terms: TermArgs,
    },
    /// Change a policy, for all its volumes and images; options that are not given keep their values
    Set {
        /// The policy
        name: String,
        #[command(flatten)]
        terms: TermArgs,
    },
    /// List the policies
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one policy, and the service of its volumes and images
    Show {
        /// The policy
        name: String,
    },
    /// Attach volumes and images to a policy; they leave their previous one
    Attach {
        /// The policy
        name: String,
        /// The volumes and images
        #[arg(required = true)]
        volumes: Vec<String>,
    },
    /// Detach volumes and images from their policy
    Detach {
        /// The volumes and images
        #[arg(required = true)]
        volumes: Vec<String>,
    },
    /// Delete a policy
    Delete {
        /// The policy; it must have no volumes and images
        name: String,
    },
}

#[derive(Args)]
pub(crate) struct TermArgs {
    /// Minimum, in normalised IOPS; none removes it
    #[arg(long, value_parser = number)]
    minimum: Option<u64>,
    /// Maximum, in normalised IOPS; none removes it
    #[arg(long, value_parser = maximum)]
    maximum: Option<Limit>,
    /// Maximum bandwidth per second, e.g. 40MiB; none removes it
    #[arg(long, value_parser = bandwidth)]
    bandwidth: Option<Limit>,
    /// Share of the remaining capacity: 1 to 10000; a volume without a policy has 100
    #[arg(long)]
    weight: Option<u32>,
    /// Burst: units by which a volume may be ahead of the others after it was idle
    #[arg(long)]
    burst: Option<u64>,
    /// One instance of the policy per volume (dedicated), or one shared by all its volumes (aggregated)
    #[arg(long, value_parser = sharing)]
    sharing: Option<bool>,
}

fn number(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(0),
        _ => text.parse().map_err(|_| "must be a number, or none".to_owned()),
    }
}

/// Zero goes to the array, which refuses it and says why.
fn maximum(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit::None),
        _ => number(text).map(Limit::Of),
    }
}

fn bandwidth(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit::None),
        _ => parse_bytes(text).map(Limit::Of),
    }
}

fn sharing(text: &str) -> Result<bool, String> {
    match text {
        "dedicated" => Ok(false),
        "aggregated" => Ok(true),
        _ => Err("must be dedicated or aggregated".into()),
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
        PolicyCommand::List { args } => return list(at, &POLICY, args, policies),
        PolicyCommand::Show { name } => {
            return show_one(at, &POLICY, name, policies, |s, policy| {
                println!();
                part(&SERVICE, &services(s, &policy.name), at.form.look());
                s.schedulers.iter().for_each(|scheduler| {
                    print_scheduler(scheduler);
                    scheduler.parts.iter().filter(|part| part.policy == policy.name).for_each(|part| {
                        println!("{}: {}", place_of(scheduler), part_words(part));
                    });
                });
            });
        }
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

fn policies(status: Status) -> Vec<Policy> {
    status.policies
}

/// What determines the depth, unless it is the setting.
fn depth_reason(s: &PoolScheduler) -> Option<String> {
    let cost = f64::from(s.depth_cost_permille) / 10.0;
    match s.depth_limit.as_str() {
        "throughput" => {
            Some(format!("more than {} at once do not raise throughput (cost {cost:.1} %)", s.depth))
        }
        "minimums" => Some(format!("no more than {} at once, so that minimums are met", s.depth)),
        "outstanding" => {
            Some("hosts have too few requests outstanding for any to wait: weights do nothing".into())
        }
        _ => None,
    }
}

fn place_of(s: &PoolScheduler) -> String {
    match &s.pool {
        Some(pool) => format!("pool {pool}"),
        None => format!("images of controller {}", s.controller),
    }
}

/// What a scheduler has of an aggregated policy.
fn part_words(part: &PolicyPart) -> String {
    let mut words = format!("of the policy it has now: minimum {} IOPS", part.minimum_iops);
    if let Some(maximum) = part.maximum_iops {
        words += &format!(", maximum {maximum} IOPS");
    }
    if let Some(bandwidth) = part.bandwidth_bytes_per_s {
        words += &format!(", bandwidth {}/s", format_bytes(bandwidth));
    }
    words
}

/// The scheduler of a pool, or of the images of a controller.
pub(super) fn print_scheduler(s: &PoolScheduler) {
    let capacity = match (s.capacity_iops, s.capacity_is_full) {
        (0, _) => "capacity not measured yet".into(),
        (iops, true) => format!("capacity {iops} IOPS"),
        (iops, false) => format!("capacity at least {iops} IOPS"),
    };
    let place = place_of(s);
    println!(
        "\n{place}: minimums {} IOPS in total; {capacity}; depth {}, {} in flight, {} waiting",
        s.minimums_iops, s.depth, s.in_flight, s.waiting
    );
    if let Some(why) = depth_reason(s) {
        println!("{place}: {why}");
    }
    if s.scale_permille < 980 {
        let percent = f64::from(s.scale_permille) / 10.0;
        println!("{place}: the minimums are over-committed; all are scaled to {percent:.1} %");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zero removed the limit, without a word.
    #[test]
    fn zero_is_no_word_for_no_limit() {
        assert_eq!(["none", "0", "7"].map(maximum), [Limit::None, Limit::Of(0), Limit::Of(7)].map(Ok));
        assert_eq!(
            ["none", "0", "1KiB"].map(bandwidth),
            [Limit::None, Limit::Of(0), Limit::Of(1024)].map(Ok)
        );
        assert_eq!(["none", "0"].map(number), [Ok(0), Ok(0)]);
    }
}
