//! `masu pool`: pools and their groups.

use std::process::ExitCode;

use admin::{Change, Pool, Status};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use config::{CRITICAL_THRESHOLD_PERCENT_DEFAULT, SOFT_THRESHOLD_PERCENT_DEFAULT, format_bytes, parse_bytes};

use super::confirm::confirm;
use super::nouns::{POOL, POOL_GROUP, VOLUME, volumes};
use super::request::{Where, begin, change, changes, list, show_one, status};
use super::{heat, policy};
use crate::table::{ListArgs, part, unknown};

pub(super) const HELP: &str = "\
Groups come and go while hosts work:
  masu pool add-group p0 g1         more space, at once
  masu pool rebalance p0            spread what is there over all groups
  masu pool remove-group p0 g0      move everything away from g0, then give it back

To another controller of the array, while hosts wait for a moment:
  masu pool move p0 --controller 1  masu status says how busy each controller is

Hot pages on fast drives, cold ones on large drives:
  masu group class g1 fast          how fast a group is beside the others
  masu pool heat p0                 what is used how often, what moved, and why

To another machine:
  masu pool export p0               here: the drives belong to nobody then
  masu pool import d0 d1 d2 d3      there: pool, groups and volumes come with the drives";

#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    /// List the pools
    List {
        #[command(flatten)]
        args: ListArgs,
    },
    /// Show one pool: its space, its groups, its volumes, and its scheduler
    Show {
        /// The pool
        name: String,
    },
    /// Create a pool on unused groups
    Create {
        /// Its name
        name: String,
        /// A group (repeatable)
        #[arg(long = "group", required = true)]
        groups: Vec<String>,
        /// The page size
        #[arg(long, value_parser = parse_bytes, default_value = "1MiB")]
        page: u64,
        /// Soft threshold: warn at this usage, in percent
        #[arg(long, default_value_t = SOFT_THRESHOLD_PERCENT_DEFAULT)]
        soft_threshold_percent: u8,
        /// Critical threshold: warn again at this usage, in percent
        #[arg(long, default_value_t = CRITICAL_THRESHOLD_PERCENT_DEFAULT)]
        critical_threshold_percent: u8,
    },
    /// Set the thresholds and the placement of a pool, online; options that are not given keep their values
    Set {
        /// The pool
        name: String,
        /// Soft threshold: warn at this usage, in percent
        #[arg(long, value_name = "PERCENT")]
        soft_threshold_percent: Option<u8>,
        /// Critical threshold: warn again at this usage, in percent
        #[arg(long, value_name = "PERCENT")]
        critical_threshold_percent: Option<u8>,
        /// Placement, on or off: moving hot pages to faster groups
        #[arg(long, value_parser = ["on", "off"])]
        placement: Option<String>,
    },
    /// Set the thresholds of a pool: short for set
    Threshold {
        /// The pool
        name: String,
        /// Soft threshold, percent used
        percent: u8,
        /// Critical threshold, percent used
        #[arg(long)]
        critical: Option<u8>,
    },
    /// Add a group to a pool
    AddGroup {
        /// The pool
        pool: String,
        /// A group without a pool
        group: String,
    },
    /// Evacuate a group, then remove it from the pool
    RemoveGroup {
        /// The pool
        pool: String,
        /// Its group
        group: String,
        /// Return at once; the evacuation continues in the array
        #[arg(long)]
        detach: bool,
    },
    /// Move a pool to another controller, while hosts use it
    ///
    /// Commands on its volumes wait while the pool is closed at one controller and opened at the other:
    /// some tenths of a second. Then the ports of the other controller are the optimized paths, and hosts are
    /// told. Reservations and mode parameters stay; ROD tokens (ODX) do not.
    Move {
        /// The pool
        name: String,
        /// The controller that is to serve it
        #[arg(long, value_name = "NUMBER")]
        controller: usize,
    },
    /// Rebalance: spread the pages evenly over the groups
    Rebalance {
        /// The pool
        name: String,
        /// Return at once; rebalancing continues in the array
        #[arg(long)]
        detach: bool,
    },
    /// Show accesses per class, pages moved between classes, and reasons
    Heat {
        /// The pool
        name: String,
    },
    /// Turn placement on or off: moving hot pages to faster groups
    ///
    /// On by default; it needs groups of more than one class (masu group class).
    Placement {
        /// The pool
        name: String,
        /// on or off
        #[arg(value_parser = ["on", "off"])]
        state: String,
    },
    /// Delete a pool that has no volumes; its groups stay
    Delete {
        /// The pool
        name: String,
    },
    /// Export a pool, so that its drives can move to another array
    ///
    /// Its volumes must not be mapped. Everything is durable when this returns.
    Export {
        /// The pool
        name: String,
    },
    /// Import an exported pool with its groups and volumes
    Import {
        /// All its drives: devices under /dev, `rbd:POOL/IMAGE[:id=USER][:conf=FILE]`, or files (relative to
        /// the data directory)
        #[arg(required = true)]
        drives: Vec<String>,
        /// Import it from an array that did not export it (that array must be gone for good), or without
        /// drives that are lost
        #[arg(long)]
        force: bool,
    },
}

fn pools(status: Status) -> Vec<Pool> {
    status.pools
}

/// What belongs to a pool, after its own lines.
fn print_parts(status: &Status, pool: &Pool, at: &Where) {
    println!();
    part(&POOL_GROUP, &pool.group_spaces, at.form.look());
    println!();
    let own = |s: &Status| Status { volumes: of_pool(s, pool), ..s.clone() };
    part(&VOLUME, &volumes(own(status)), at.form.look());
    println!("\n{}", sums(status, pool));
    let own = status.schedulers.iter().filter(|s| s.pool.as_ref() == Some(&pool.name));
    own.for_each(policy::print_scheduler);
}

fn of_pool(status: &Status, pool: &Pool) -> Vec<admin::Volume> {
    status.volumes.iter().filter(|v| v.pool == pool.name).cloned().collect()
}

/// The usage of a pool's volumes, whose sum is the pool's usage.
fn sums(status: &Status, pool: &Pool) -> String {
    let own = status.volumes.iter().filter(|v| v.pool == pool.name);
    let exclusive: u64 = own.map(|v| v.exclusive_bytes).sum();
    // Shared pages are in several volumes and on the drives once: what the pool uses beyond the exclusive
    // ones.
    let shared = pool.used_bytes.saturating_sub(exclusive);
    format!(
        "{} exclusive + {} shared (counted once) = {} used of {}",
        format_bytes(exclusive),
        format_bytes(shared),
        format_bytes(pool.used_bytes),
        format_bytes(pool.size_bytes)
    )
}

fn set(what: &PoolCommand, at: &Where) -> Result<ExitCode> {
    let PoolCommand::Set { name, soft_threshold_percent, critical_threshold_percent, placement } = what
    else {
        unreachable!("the caller has matched it");
    };
    let mut wanted = Vec::new();
    if soft_threshold_percent.is_some() || critical_threshold_percent.is_some() {
        let soft_threshold_percent = match soft_threshold_percent {
            Some(percent) => *percent,
            None => {
                let pools = status(at)?.pools;
                let names: Vec<String> = pools.iter().map(|p| p.name.clone()).collect();
                let pool = pools.iter().find(|p| p.name == *name);
                pool.with_context(|| unknown("pool", name, &names))?.soft_threshold_percent
            }
        };
        let critical_threshold_percent = *critical_threshold_percent;
        let name = name.clone();
        wanted.push(Change::PoolThreshold { name, soft_threshold_percent, critical_threshold_percent });
    }
    if let Some(state) = placement {
        wanted.push(Change::PoolPlacement { name: name.clone(), on: state == "on" });
    }
    if wanted.is_empty() {
        bail!(
            "pool {name:?}: nothing is to be set; give --soft-threshold-percent, --critical-threshold-percent or --placement"
        );
    }
    changes(at, &wanted)
}

pub(super) fn run(what: &PoolCommand, at: &Where) -> Result<ExitCode> {
    match what {
        PoolCommand::List { args } => list(at, &POOL, args, pools),
        PoolCommand::Show { name } => show_one(at, &POOL, name, pools, |s, pool| print_parts(s, pool, at)),
        PoolCommand::Create { name, groups, page, soft_threshold_percent, critical_threshold_percent } => {
            change(
                at,
                &Change::PoolCreate {
                    name: name.clone(),
                    groups: groups.clone(),
                    page_bytes: *page,
                    soft_threshold_percent: *soft_threshold_percent,
                    critical_threshold_percent: *critical_threshold_percent,
                },
            )
        }
        PoolCommand::Set { .. } => set(what, at),
        PoolCommand::Threshold { name, percent, critical } => change(
            at,
            &Change::PoolThreshold {
                name: name.clone(),
                soft_threshold_percent: *percent,
                critical_threshold_percent: *critical,
            },
        ),
        PoolCommand::AddGroup { pool, group } => {
            change(at, &Change::PoolAddGroup { pool: pool.clone(), group: group.clone() })
        }
        PoolCommand::RemoveGroup { pool, group, detach } => {
            let request = Change::PoolRemoveGroup { pool: pool.clone(), group: group.clone() };
            begin(at, &request, ("evacuate", group), *detach)
        }
        PoolCommand::Move { name, controller } => {
            change(at, &Change::PoolMove { name: name.clone(), controller: *controller })
        }
        PoolCommand::Rebalance { name, detach } => {
            begin(at, &Change::PoolRebalance { name: name.clone() }, ("rebalance", name), *detach)
        }
        PoolCommand::Heat { name } => heat::show(name, at),
        PoolCommand::Placement { name, state } => {
            change(at, &Change::PoolPlacement { name: name.clone(), on: state == "on" })
        }
        PoolCommand::Delete { name } => {
            confirm(&format!("pool {name} will be deleted"), at)?;
            change(at, &Change::PoolDelete { name: name.clone() })
        }
        PoolCommand::Export { name } => change(at, &Change::PoolExport { name: name.clone() }),
        PoolCommand::Import { drives, force } => {
            change(at, &Change::PoolImport { drives: drives.clone(), force: *force })
        }
    }
}
