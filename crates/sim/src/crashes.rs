//! Thousands of crashes and recoveries: rounds of random stacks and seeds, on all cores, until the requested
//! number has been survived.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::ValueEnum;

use crate::forks::THREADS;
use crate::lives::How;
use crate::stacks::{Deed, Stack, run_stack};
use crate::tally::Tally;

/// The frequency of a stack: a group recovers in a millisecond, an array with its sessions takes fifty times
/// as long.
fn weight(stack: Stack) -> usize {
    match stack {
        Stack::Array | Stack::CachedArray => 1,
        Stack::Volume | Stack::Unit | Stack::ParityVolume => 4,
        _ => 12,
    }
}

/// Survives at least this many crashes, in rounds with the seeds from `seed` on.
#[expect(clippy::disallowed_methods, reason = "only the duration of the rounds, on which nothing depends")]
pub(crate) fn run(stacks: &[Stack], seed: u64, crashes: u64, how: How) {
    println!("at least {crashes} crashes, rounds from seed {seed}");
    let begun = Instant::now();
    let turns: Vec<Stack> =
        stacks.iter().flat_map(|stack| std::iter::repeat_n(*stack, weight(*stack))).collect();
    // Rounds of one length run one after the other, on any thread: which rounds run depends only on their
    // crashes.
    let (next, survived) = (AtomicU64::new(0), AtomicU64::new(0));
    let all: Mutex<BTreeMap<String, Tally>> = Mutex::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS.min(crashes as usize))
            .map(|_| {
                scope.spawn(|| {
                    while survived.load(Ordering::Relaxed) < crashes {
                        let round = next.fetch_add(1, Ordering::Relaxed);
                        let stack = turns[round as usize % turns.len()];
                        let tally = one(stack, seed.wrapping_add(round), how);
                        survived.fetch_add(tally.crashes, Ordering::Relaxed);
                        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                        all.entry(format!("{stack:?}")).or_default().add(tally);
                    }
                })
            })
            .collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                // The other thread stops after its round.
                survived.store(crashes, Ordering::Relaxed);
                std::panic::resume_unwind(panic);
            }
        }
    });
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (stack, tally) in &all {
        println!("{stack}: {} crashes survived in {} lives", tally.crashes, tally.lives);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let total: u64 = all.values().map(|t| t.crashes).sum();
    let rounds = next.load(Ordering::Relaxed);
    println!(
        "{total} crashes survived in {rounds} rounds and {seconds:.1} s: {:.0} per second",
        total as f64 / seconds
    );
}

fn one(stack: Stack, seed: u64, how: How) -> Tally {
    match std::panic::catch_unwind(|| run_stack(stack, seed, Deed::Round { how })) {
        Ok(tally) => tally.unwrap_or_default(),
        Err(panic) => {
            let name = stack.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
            eprintln!("again with: target/checked/sim --crashes 1 --stack {name} --seed {seed}");
            std::panic::resume_unwind(panic)
        }
    }
}
