//! The simulation: a random workload in virtual time, life after life of the process, with power cuts at drawn points,
//! everything held against a shadow. The same seed gives the same run; its digest says so.

mod array;
mod group;
mod lives;
mod lu;
mod pool;
mod sessions;
mod shadow;
mod stamp;
mod workload;

use clap::{Args, ValueEnum};
use pool::Through;
use raid::Level;

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stack {
    /// A RAID 0 group on four disks.
    Stripe,
    /// A RAID 1 group on two disks.
    Mirror,
    /// Volumes of a thin pool on a mirror and a stripe.
    Volume,
    /// The same as logical units, with SCSI commands.
    Unit,
    /// The whole array: controllers, ports, and a host with iSCSI sessions.
    Array,
}

/// A fault that no array on such disks can survive: to see that the simulation finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// Only what must be survived.
    #[default]
    None,
    /// Flushes complete and make nothing durable.
    FlushLies,
    /// In every life every disk loses a write.
    LostWrite,
}

/// How a run is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    fault: Fault,
    verbose: bool,
}

/// A run of the simulation.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The seed; without one, a new one is drawn and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// How many operations the workload does, over all lives.
    #[arg(long, default_value_t = 10_000)]
    steps: u64,
    /// What is simulated; without it, everything.
    #[arg(long, value_enum)]
    stack: Option<Stack>,
    /// A fault that must be found: the run fails.
    #[arg(long, value_enum, default_value_t)]
    fault: Fault,
    /// Instead of lives that end at drawn points: one short life, replayed with a power cut after each of its
    /// persistence points.
    #[arg(long)]
    every_point: bool,
    /// Tells every operation on standard error.
    #[arg(long)]
    verbose: bool,
}

impl Options {
    fn how(&self) -> How {
        How { fault: self.fault, verbose: self.verbose }
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    lives: u64,
    crashes: u64,
    persistence_points: u64,
    digest: u64,
}

/// Runs and prints one line for each stack.
pub(crate) fn run(options: &Options) {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("seed {seed}, {} steps", options.steps);
    for &stack in Stack::value_variants().iter().filter(|s| options.stack.is_none_or(|only| only == **s)) {
        if options.every_point {
            let points = every_point(stack, seed, options.steps);
            println!("{stack:?}: a power cut after each of {points} persistence points survived");
            continue;
        }
        let tally = simulate(stack, seed, options.steps, options.how());
        println!(
            "{stack:?}: {} lives, {} power cuts survived, {} persistence points, digest {:016x}",
            tally.lives, tally.crashes, tally.persistence_points, tally.digest
        );
    }
}

/// One run. Panics, naming the seed, when anything is not as it must be.
fn simulate(stack: Stack, seed: u64, steps: u64, how: How) -> Tally {
    match stack {
        Stack::Stripe => group::simulate(Level::Raid0, 4, seed, steps, how),
        Stack::Mirror => group::simulate(Level::Raid1, 2, seed, steps, how),
        Stack::Volume => pool::simulate(Through::Volumes, seed, steps, how),
        Stack::Unit => pool::simulate(Through::Units, seed, steps, how),
        Stack::Array => array::simulate(seed, steps, how),
    }
}

/// Cuts the power after each persistence point of one life in turn; their number.
fn every_point(stack: Stack, seed: u64, steps: u64) -> u64 {
    match stack {
        Stack::Stripe => group::every_point(Level::Raid0, 4, seed, steps),
        Stack::Mirror => group::every_point(Level::Raid1, 2, seed, steps),
        Stack::Volume => pool::every_point(Through::Volumes, seed, steps),
        Stack::Unit => pool::every_point(Through::Units, seed, steps),
        Stack::Array => array::every_point(seed, steps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_twice_gives_the_same_digest() {
        for &stack in Stack::value_variants() {
            for seed in 1..=3 {
                let run = || simulate(stack, seed, 1500, How::default());
                let (one, two) = (run(), run());
                assert_eq!(one, two, "{stack:?}, seed {seed}");
                assert!(one.crashes > 0, "{stack:?}, seed {seed}: no crash");
            }
            let of = |seed| simulate(stack, seed, 300, How::default()).digest;
            assert_ne!(of(1), of(2));
        }
    }

    #[test]
    fn a_power_cut_after_every_persistence_point_is_survived() {
        for &stack in Stack::value_variants() {
            assert!(every_point(stack, 1, 40) > 20, "{stack:?}");
        }
    }

    /// The simulation must be able to fail.
    #[test]
    fn disks_that_lie_are_found() {
        for &stack in Stack::value_variants() {
            for fault in [Fault::FlushLies, Fault::LostWrite] {
                let found = (1..=3).any(|seed| {
                    std::panic::catch_unwind(|| simulate(stack, seed, 3000, How { fault, verbose: false }))
                        .is_err()
                });
                assert!(found, "{stack:?} with {fault:?} looked well");
            }
        }
    }
}
