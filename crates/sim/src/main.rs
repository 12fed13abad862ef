//! The simulation: a random workload in virtual time, life after life of the process, with power failures at
//! drawn points, compared with a shadow. The same seed gives the same run, which its digest proves.
//!
//! # Four ways to run it
//!
//! * *Lives*: one after the other on the same disks; each ends in order, dies, or loses its power at a drawn
//!   point, also while it recovers.
//! * *Every point* (`--every-point`): one workload, forked at each of its persistence points ([`forks`]): the
//!   power is cut there, alone, and with as many drives as the level bears; groups optimal, degraded and
//!   rebuilding.
//! * *Crashes* (`--crashes N`): rounds of random workloads, forked at random points: power cut or death of
//!   the process, drives lost with it, a second cut while recovering, blank drives put in and filled, disks
//!   slow, hanging, dying, with latent errors.
//! * *Histories of several nodes* (`--cluster N`): see [`cluster`].
//!
//! After each recovery: what was flushed is there, every other sector is old or new; scrubs find nothing to
//! repair; pools pass their audit, and used and free pages are all pages. What a missing drive costs (a row
//! that was being written, see docs/decisions/0002-raid-and-pools.md) is an error, and only there. Where more
//! is lost than can be borne: errors, or the right data.
//!
//! # What it leaves out
//!
//! *Lost and misdirected writes* on a drive that says they were done. Data have no checksums: a level with
//! one parity and a pair of mirrors see in a scrub that something does not agree, but not what; reads see
//! nothing. Level 6 and three mirrors repair such a block when they scrub. So these faults are in no run that
//! must pass; `--fault lost-write` shows that the shadow finds them. The same holds for flushes that lie. Of
//! an array, drives are not lost here: its groups and pools are run by themselves with that.
//!
//! `README.md` says how to replay a seed, and how to add a fault, an actor or a stack.

#![forbid(unsafe_code)]

mod actors;
mod cluster;
mod crashes;
mod faults;
mod forks;
mod lives;
mod places;
mod redundancy;
mod rounds;
mod shadow;
mod stacks;
mod stamp;
mod tally;

use clap::{Parser, ValueEnum};
use cluster::Places;
use faults::Fault;
use forks::{Phase, Points};
use lives::How;
use stacks::{Deed, Stack, run_stack};

/// Run the simulation.
#[derive(Parser)]
#[command(name = "sim")]
struct Options {
    /// Seed; drawn and printed by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Operations of the workload, over all lives.
    #[arg(long, default_value_t = 10_000)]
    steps: u64,
    /// The stack to simulate; all by default.
    #[arg(long, value_enum)]
    stack: Option<Stack>,
    /// A fault that the simulation must detect: the run fails.
    #[arg(long, value_enum, default_value_t)]
    fault: Fault,
    /// One life, forked at each of its persistence points: the power fails there, with and without the loss
    /// of drives.
    #[arg(long)]
    every_point: bool,
    /// With --every-point: only at this point.
    #[arg(long)]
    point: Option<u64>,
    /// With --every-point: at one point in N, for a quick run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    one_in: u64,
    /// About this many random crashes and recoveries, spread over all stacks.
    #[arg(long)]
    crashes: Option<u64>,
    /// So many histories of several nodes that share their drives, with faults of nodes, registry and hosts.
    #[arg(long, value_name = "HISTORIES", conflicts_with_all = ["stack", "every_point", "crashes"])]
    cluster: Option<u64>,
    /// With --cluster: where the controllers of the array run.
    #[arg(long, value_enum, default_value_t, requires = "cluster")]
    places: Places,
    /// Print every operation to standard error.
    #[arg(long)]
    verbose: bool,
}

impl Options {
    fn points(&self) -> Points {
        self.point.map_or(Points::OneIn(self.one_in), Points::Only)
    }

    fn how(&self) -> How {
        How { fault: self.fault, verbose: self.verbose }
    }
}

/// Prints one line for each stack; panics with the seed on any deviation.
fn main() {
    let options = &Options::parse();
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let stacks: Vec<Stack> = Stack::value_variants().to_vec();
    let stacks: Vec<Stack> =
        stacks.into_iter().filter(|s| options.stack.is_none_or(|only| only == *s)).collect();
    if let Some(histories) = options.cluster {
        return cluster::run(seed, histories, (options.places, options.fault), options.verbose);
    }
    if let Some(crashes) = options.crashes {
        return crashes::run(&stacks, seed, crashes, options.how());
    }
    println!("seed {seed}, {} steps", options.steps);
    for stack in stacks {
        if options.every_point {
            every_point(stack, seed, options);
            continue;
        }
        let deed = Deed::Live { steps: options.steps, how: options.how() };
        let tally = run_stack(stack, seed, deed).unwrap_or_default();
        println!(
            "{stack:?}: {} lives, {} power cuts survived, {} persistence points, digest {:016x}",
            tally.lives, tally.crashes, tally.persistence_points, tally.digest
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "how long it took is printed, nothing depends on it")]
fn every_point(stack: Stack, seed: u64, options: &Options) {
    for phase in [Phase::Optimal, Phase::Degraded, Phase::Rebuilding] {
        let begun = std::time::Instant::now();
        let deed = Deed::EveryPoint { steps: options.steps, phase, points: options.points() };
        let Some(tally) = run_stack(stack, seed, deed) else { continue };
        println!(
            "{stack:?}, {phase:?}: {} crashes at {} of {} persistence points survived, digest {:016x}, {:.1} s",
            tally.crashes,
            options.points(),
            tally.persistence_points,
            tally.digest,
            begun.elapsed().as_secs_f64()
        );
    }
}
