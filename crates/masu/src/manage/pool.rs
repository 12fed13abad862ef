//! `masu pool`: pools and their groups.

use std::process::ExitCode;

use admin::Change;
use anyhow::Result;
use clap::Subcommand;
use config::parse_bytes;
use config::{CRITICAL_THRESHOLD_PERCENT_DEFAULT, SOFT_THRESHOLD_PERCENT_DEFAULT};

use super::request::{Where, begin, change, show, show_one};
use super::{heat, tables};

pub(super) const HELP: &str = "\
Groups come and go while hosts work:
  masu pool add-group p0 g1         more space, at once
  masu pool rebalance p0            spread what is there over all groups
  masu pool remove-group p0 g0      move everything away from g0, then give it back

Hot pages on fast drives, cold ones on large drives:
  masu group class g1 fast          how fast a group is beside the others
  masu pool heat p0                 what is used how often, what moved, and why

To another machine:
  masu pool export p0               here: the drives belong to nobody then
  masu pool import d0 d1 d2 d3      there: pool, groups and volumes come with the drives";

#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    /// List the pools
    List,
    /// Show one pool: the space of each group, the usage of its volumes
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
    /// Set the thresholds of a pool
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
        /// Import it from an array that did not export it: that array must be gone for good
        #[arg(long)]
        force: bool,
    },
}

pub(super) fn run(what: &PoolCommand, at: &Where) -> Result<ExitCode> {
    match what {
        PoolCommand::List => show(at, tables::pools),
        PoolCommand::Show { name } => {
            let find = |s: &admin::Status| s.pools.iter().find(|p| p.name == *name).cloned();
            show_one(at, "pool", name, find, tables::pool)
        }
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
        PoolCommand::Rebalance { name, detach } => {
            begin(at, &Change::PoolRebalance { name: name.clone() }, ("rebalance", name), *detach)
        }
        PoolCommand::Heat { name } => {
            let find = |s: &admin::Status| s.pools.iter().find(|p| p.name == *name).map(|p| p.heat.clone());
            show_one(at, "pool", name, find, |_, heat| heat::print(name, heat))
        }
        PoolCommand::Placement { name, state } => {
            change(at, &Change::PoolPlacement { name: name.clone(), on: state == "on" })
        }
        PoolCommand::Export { name } => change(at, &Change::PoolExport { name: name.clone() }),
        PoolCommand::Import { drives, force } => {
            change(at, &Change::PoolImport { drives: drives.clone(), force: *force })
        }
    }
}
