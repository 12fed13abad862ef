//! Two write caches, and what a power cut takes: the cache that the server's system allows its disk (WCE),
//! and that of the array, with a journal or without.
//!
//! ```text
//!   run ──> for each configuration: bed ──> cuts (application, file system, virtual disk, LU) ──> losses
//!    └────> report (claims, figures)
//! ```
//!
//! An application writes files and pages and records what it was told of each: that it is in memory, that
//! the disk has it, that it is durable. Then the power of host, array or both is cut, everything is started
//! again, and what is there is compared. Data travel through the code that serves: `vdisk::Image`, the array,
//! its cache, journal, pool and RAID group.

mod application;
mod bed;
mod configuration;
mod cuts;
mod file_system;
mod layout;
mod losses;
mod report;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result};
use lab_core::interrupt::Stop;
use lab_core::parallel;

use super::scenario::WriteCache;
use bed::{Bed, Format};
use configuration::Configuration;
use cuts::Cut;
use file_system::Barriers;
use losses::Losses;
pub(super) use report::{figures, measures, section, table};

/// What was found in one configuration.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    configuration: Configuration,
    /// By whose power was cut.
    losses: Vec<(Cut, Losses)>,
    /// Acknowledged per second without a cut, of each format: MB, and writes that are durable.
    speeds: Vec<(f64, f64)>,
}

impl Outcome {
    /// Of all cuts that a host heeds.
    fn heeded(&self) -> Losses {
        self.sum(|cut| cut != Cut::ArrayUnheeded)
    }

    fn sum(&self, of: impl Fn(Cut) -> bool) -> Losses {
        let mut all = Losses::default();
        self.losses.iter().filter(|(cut, _)| of(*cut)).for_each(|(_, losses)| all.add(*losses));
        all
    }
}

/// Of 100 cuts of a configuration so many are of each kind; those that the host does not heed come on top.
const SHARES: [(Cut, u64); 4] =
    [(Cut::Both, 60), (Cut::Host, 20), (Cut::Array, 20), (Cut::ArrayUnheeded, 10)];
/// Seeds of one piece of work are far from those of the next.
const SEEDS_APART: u64 = 1_000_003;

/// Runs all four configurations on so many threads; `tell` hears which begins.
pub(super) fn run(
    (settings, drive): (&WriteCache, &str),
    (seed, threads): (u64, usize),
    stop: &Stop,
    tell: impl Fn(String),
) -> Result<Vec<Outcome>> {
    let pieces: Vec<(Configuration, Format)> =
        Configuration::ALL.iter().flat_map(|c| Format::ALL.map(|format| (*c, format))).collect();
    let work = |index: usize, say: &dyn Fn(String)| {
        let (configuration, format) = pieces[index];
        say(format!("power cuts, {}", configuration.name()));
        let seed = seed + index as u64 * SEEDS_APART;
        one(settings, drive, (configuration, format), seed).with_context(|| configuration.name())
    };
    let done = parallel::run((pieces.len(), threads), stop, work, tell)?;
    let mut all: Vec<Outcome> = Vec::new();
    for (_, outcome) in done {
        match all.last_mut().filter(|last| last.configuration == outcome.configuration) {
            Some(last) => last.join(outcome),
            None => all.push(outcome),
        }
    }
    Ok(all)
}

impl Outcome {
    /// With the same of the other format.
    fn join(&mut self, other: Outcome) {
        self.losses.iter_mut().zip(other.losses).for_each(|((_, all), (_, more))| all.add(more));
        self.speeds.extend(other.speeds);
    }
}

/// Half of the cuts of a configuration, on one format.
fn one(
    settings: &WriteCache,
    drive: &str,
    (configuration, format): (Configuration, Format),
    seed: u64,
) -> Result<Outcome> {
    let bed = Bed::make(configuration, format, drive, seed)?;
    let formats = Format::ALL.len() as u64;
    let losses = SHARES.map(|(cut, share)| {
        let count = (settings.cuts * share / 100 / formats).max(1);
        Ok((cut, cuts::run(&bed, cut, Barriers::On, (count, seed))?))
    });
    Ok(Outcome {
        configuration,
        losses: losses.into_iter().collect::<Result<_>>()?,
        speeds: vec![cuts::speed(&bed, seed, settings.seconds)?],
    })
}
