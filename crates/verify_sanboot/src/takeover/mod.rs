//! Two controllers with preferred paths: system disks over one, data disks over the other, and what servers
//! see when one of them is lost, or gives its pools away.
//!
//! ```text
//!   bed (two controllers, each at a node of its own) ──> play <── server ── paths (multipath), ledger
//!                                                          └──> outcome ──> survey (claims), show
//! ```

mod bed;
mod gaps;
mod ledger;
mod outcome;
mod paths;
mod play;
pub(crate) mod scenario;
mod server;
mod show;
mod survey;

use anyhow::Result;
use lab_core::interrupt::{Stop, unless_abandoned};
use lab_core::parallel;
use lab_core::progress::Progress;

use crate::results::Pattern;
use crate::run::Plan;
use crate::scenario::Sanboot;
use crate::survey::PUBLISHED_SERVERS;
pub use outcome::{Disks, Load, Takeover, Way};
use play::TakeoverOf;
pub(crate) use show::{figures, table};
pub(crate) use survey::measures;

/// What is run. Each number of servers once, with the controller of the system disks killed; the published
/// number with either controller, in every way. The quick form leaves out what differs least.
fn all(sanboot: &Sanboot, quick: bool) -> Vec<TakeoverOf> {
    let mut all = Vec::new();
    for &pattern in &sanboot.takeover.patterns {
        for &servers in &sanboot.takeover.servers {
            let of = |goes, way| TakeoverOf { pattern, servers, goes, way };
            all.push(of(Disks::System, Way::Killed));
            if servers != PUBLISHED_SERVERS {
                continue;
            }
            all.extend(match (quick, pattern) {
                (false, _) => vec![
                    of(Disks::Data, Way::Killed),
                    of(Disks::System, Way::Silent),
                    of(Disks::Data, Way::Silent),
                    of(Disks::System, Way::Moved),
                    of(Disks::Data, Way::Moved),
                ],
                (true, Pattern::RandomMix) => {
                    vec![of(Disks::Data, Way::Silent), of(Disks::System, Way::Moved)]
                }
                (true, _) => vec![],
            });
        }
    }
    all
}

/// Runs all of them, those that were done when somebody asked to stop. Whether these are all.
pub(crate) fn run(sanboot: &Sanboot, plan: &Plan, stop: &Stop) -> Result<(Vec<Takeover>, bool)> {
    let jobs = match plan.layouts.contains(&bed::LAYOUT) {
        true => all(sanboot, plan.quick),
        false => vec![],
    };
    if jobs.is_empty() {
        return Ok((vec![], true));
    }
    let make = |n: usize, _: &dyn Fn(())| bed::make(sanboot, Disks::ALL[n], plan.seed);
    let beds = parallel::run((Disks::ALL.len(), plan.threads), stop, make, |()| ())?;
    if beds.len() < Disks::ALL.len() {
        return Ok((vec![], false));
    }
    let progress = Progress::new(jobs.len() as u64);
    let work = |n: usize, begins: &dyn Fn(usize)| {
        begins(n);
        let (_, bed) = &beds[jobs[n].goes as usize];
        unless_abandoned(play::run(sanboot, bed, jobs[n], (plan.seed, stop)))
    };
    let show = |n: usize| {
        let TakeoverOf { pattern, servers, goes, way } = jobs[n];
        let pattern = pattern.name().replace('_', " ");
        progress.step(&format!(
            "controller of {} {}, {pattern}, {servers} servers",
            goes.words(),
            way.words()
        ));
    };
    let done = parallel::run((jobs.len(), plan.threads), stop, work, show)?;
    progress.end();
    let all: Vec<Takeover> = done.into_iter().filter_map(|(_, one)| one).collect();
    let is_whole = all.len() == jobs.len();
    Ok((all, is_whole))
}

#[cfg(test)]
pub(crate) mod tests;
