//! The simulated stacks, and the phases of each.

pub(crate) mod array;
mod group;
pub(crate) mod lu;
mod pool;
mod volumes;

use clap::ValueEnum;
use raid::Level;

use crate::forks::{self, Phase, Points};
use crate::lives::{How, Living};
use crate::tally::Tally;
use array::{ArrayLives, Between};
use group::{GroupLives, Shape};
use pool::{PoolKind, PoolLives, Through};

/// The stack to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stack {
    /// A RAID 0 group on four disks.
    Stripe,
    /// A RAID 1 group on two disks.
    Mirror,
    /// A RAID 1 group on three disks.
    Mirrors3,
    /// A RAID 10 group on four disks.
    Mirrors10,
    /// A RAID 5 group on three disks.
    Parity5x3,
    /// A RAID 5 group on four disks.
    Parity5x4,
    /// A RAID 5 group on nine disks.
    Parity5x9,
    /// A RAID 6 group on six disks.
    Parity6x6,
    /// Volumes of a thin pool on a RAID 5 group and a mirror.
    ParityVolume,
    /// Volumes of a thin pool on a mirror and a stripe.
    Volume,
    /// The same as logical units, with SCSI commands.
    Unit,
    /// The whole array: controllers, ports, and a host with iSCSI sessions.
    Array,
    /// The same with a cache at each controller, and a journal.
    CachedArray,
}

/// The phase of a stack.
#[derive(Clone, Copy)]
pub(crate) enum Deed {
    /// Life after life, for this many steps.
    Live { steps: u64, how: How },
    /// A power failure after every persistence point of a workload of this many steps.
    EveryPoint { steps: u64, phase: Phase, points: Points },
    /// One round of random crashes.
    Round { how: How },
}

/// Runs it; panics with the seed on any deviation. `None`: there is no such phase.
fn act<L: Living>(kind: L::Kind, seed: u64, deed: Deed) -> Option<Tally> {
    match deed {
        Deed::Live { steps, how } => {
            let (mut lives, living) = L::create(kind, seed, how);
            lives.live(&living, steps);
            Some(lives.tally())
        }
        Deed::EveryPoint { steps, phase, points } => {
            forks::every_point::<L>(kind, seed, steps, phase, points)
        }
        Deed::Round { how } => Some(forks::round::<L>(kind, seed, how)),
    }
}

/// The same for a stack.
pub(crate) fn run_stack(stack: Stack, seed: u64, deed: Deed) -> Option<Tally> {
    let group = |level, disks| act::<GroupLives>(Shape { level, disks }, seed, deed);
    let pool = |through, groups| act::<PoolLives>(PoolKind { through, groups }, seed, deed);
    match stack {
        Stack::Stripe => group(Level::Raid0, 4),
        Stack::Mirror => group(Level::Raid1, 2),
        Stack::Mirrors3 => group(Level::Raid1, 3),
        Stack::Mirrors10 => group(Level::Raid10, 4),
        Stack::Parity5x3 => group(Level::Raid5, 3),
        Stack::Parity5x4 => group(Level::Raid5, 4),
        Stack::Parity5x9 => group(Level::Raid5, 9),
        Stack::Parity6x6 => group(Level::Raid6, 6),
        Stack::ParityVolume => pool(Through::Volumes, PARITY_GROUPS),
        Stack::Volume => pool(Through::Volumes, GROUPS),
        Stack::Unit => pool(Through::Units, GROUPS),
        Stack::Array => act::<ArrayLives>(Between::Nothing, seed, deed),
        Stack::CachedArray => act::<ArrayLives>(Between::Caches, seed, deed),
    }
}

/// The groups of the pools.
const GROUPS: &[(&str, Level, usize)] =
    &[("mirror", Level::Raid1, 2), ("stripe", Level::Raid0, 2), ("other", Level::Raid1, 2)];

/// Those of the pools with parity.
const PARITY_GROUPS: &[(&str, Level, usize)] =
    &[("parity", Level::Raid5, 4), ("mirror", Level::Raid1, 2), ("other", Level::Raid6, 5)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Fault;
    use crate::lives::Life;

    fn live(stack: Stack, seed: u64, steps: u64, fault: Fault) -> Tally {
        run_stack(stack, seed, Deed::Live { steps, how: How { fault, verbose: false } }).expect("lived")
    }

    #[test]
    fn the_same_seed_twice_gives_the_same_digest() {
        for &stack in Stack::value_variants() {
            for seed in 1..=2 {
                let run = || live(stack, seed, 1000, Fault::None);
                let (one, two) = (run(), run());
                assert_eq!(one, two, "{stack:?}, seed {seed}");
                assert!(one.crashes > 0, "{stack:?}, seed {seed}: no crash");
            }
            let of = |seed| live(stack, seed, 300, Fault::None).digest;
            assert_ne!(of(1), of(2));
        }
    }

    /// Rounds in which the simulation found bugs of the levels with parity.
    #[test]
    fn what_was_found_once_is_not_found_again() {
        let survives = |stack, seed| {
            let all = run_stack(stack, seed, Deed::Round { how: How::default() }).expect("a round");
            assert!(all.crashes > 0, "{stack:?}, seed {seed}");
        };
        // A process died with frames in the drives' caches; they were replayed, and the power was cut before
        // anybody flushed them: what had been replayed was there, and the frames were not.
        survives(Stack::Parity5x4, 66);
        survives(Stack::Parity5x9, 81);
        // Zeros of whole rows were journaled for a drive that was being filled, behind its mark: a replay put
        // them over what it had been filled with later.
        survives(Stack::Parity6x6, 94);
        // A drive died between the journal and the places of a write of full rows, which was then made anew,
        // later; what the journal had of the rows at its ends was not put in place, and a recovery put it
        // below what had been written there meanwhile.
        survives(Stack::Parity5x3, 427);
        survives(Stack::Parity6x6, 347);
    }

    #[test]
    fn a_round_of_crashes_twice_gives_the_same_digest() {
        for &stack in Stack::value_variants() {
            let run = || run_stack(stack, 1, Deed::Round { how: How::default() });
            assert_eq!(run(), run(), "{stack:?}");
        }
    }

    #[test]
    fn power_cuts_after_persistence_points_are_survived() {
        // `make sim`, a part of `make test`, looks at more of them on every stack, `make soak` at all.
        const ONE_IN: u64 = 64;
        for stack in [Stack::Mirror, Stack::Parity5x4, Stack::Volume, Stack::CachedArray] {
            for phase in [Phase::Optimal, Phase::Degraded, Phase::Rebuilding] {
                let Some(all) =
                    run_stack(stack, 1, Deed::EveryPoint { steps: 30, phase, points: Points::OneIn(ONE_IN) })
                else {
                    continue;
                };
                assert!(all.persistence_points > 20, "{stack:?}, {phase:?}");
                assert!(all.crashes >= all.persistence_points / ONE_IN * 2, "{stack:?}, {phase:?}");
            }
        }
    }

    /// Parity that does not agree with its data is found, wherever it lies; level 6 and a third mirror tell
    /// which block is wrong.
    #[test]
    fn a_block_that_nobody_wrote_is_found_by_the_scrub() {
        for (level, disks) in [(Level::Raid5, 4), (Level::Raid6, 6), (Level::Raid10, 4), (Level::Raid1, 3)] {
            let (mut lives, living) = GroupLives::create(Shape { level, disks }, 1, How::default());
            lives.one_life(&living, &Life { closes: true, ..Life::of(50) });
            let disk = lives.model.disks().get("d1").expect("the second disk");
            disk.poke(3 << 20, &[0xa5; 512]);
            let look = || lives.one_life(&living, &Life { thorough: true, ..Life::of(0) });
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).is_err(), "{level}");
        }
    }

    /// The simulation must be able to fail.
    #[test]
    fn disks_that_lie_are_found() {
        for &stack in Stack::value_variants() {
            for fault in [Fault::FlushLies, Fault::LostWrite] {
                let found =
                    (1..=3).any(|seed| std::panic::catch_unwind(|| live(stack, seed, 3000, fault)).is_err());
                assert!(found, "{stack:?} with {fault:?} looked well");
            }
        }
    }
}
