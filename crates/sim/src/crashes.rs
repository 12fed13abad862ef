//! Thousands of crashes and recoveries: rounds of random stacks and seeds, on all cores, until the requested
//! number has been survived.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::ValueEnum;

use crate::lives::How;
use crate::rounds::on_all_threads;
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
    let survived = AtomicU64::new(0);
    let all: Mutex<BTreeMap<String, Tally>> = Mutex::default();
    let rounds = on_all_threads(crashes, |round| {
        let is_needed = survived.load(Ordering::Relaxed) < crashes;
        if is_needed {
            let stack = turns[round as usize % turns.len()];
            let tally = one(stack, seed.wrapping_add(round), how);
            survived.fetch_add(tally.crashes, Ordering::Relaxed);
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(format!("{stack:?}")).or_default().add(tally);
        }
        is_needed
    });
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (stack, tally) in &all {
        println!("{stack}: {} crashes survived in {} lives", tally.crashes, tally.lives);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let total: u64 = all.values().map(|t| t.crashes).sum();
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
