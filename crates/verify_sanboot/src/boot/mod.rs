//! Boot as a load: what a real guest read while it booted, replayed for 1 to 64 servers that are switched on
//! at once.
//!
//! ```text
//!   trace (scenarios/sanboot_boot.txt) ──> storm <── bed (copies, or clones of a golden image)
//!                                            └──> results ──> claims, show
//! ```

mod bed;
mod show;
mod storm;
mod survey;
mod trace;

use anyhow::Result;
use lab_core::interrupt::{Stop, unless_abandoned};
use lab_core::parallel;
use lab_core::progress::Progress;
use lab_tools::testbed::Testbed;

use crate::results::{Form, Layout, Storm};
use crate::run::Plan;
use crate::scenario::Sanboot;
pub(crate) use show::{figure, table};
use storm::StormOf;
pub(crate) use survey::measures;
pub(crate) use trace::Trace;

/// Runs all storms, those that were done when somebody asked to stop. Whether these are all.
pub(crate) fn run(sanboot: &Sanboot, plan: &Plan, stop: &Stop) -> Result<(Vec<Storm>, bool)> {
    let shared = |layout: &&Layout| matches!(layout, Layout::Raid5x4 | Layout::Raid1x8);
    let layouts: Vec<Layout> = plan.layouts.iter().filter(shared).copied().collect();
    let Some(most) = sanboot.boot.servers.iter().copied().max() else { return Ok((vec![], true)) };
    let trace = Trace::load(&sanboot.boot.trace)?;
    let places: Vec<(Layout, Form)> =
        layouts.into_iter().flat_map(|layout| Form::ALL.map(|form| (layout, form))).collect();
    let make = |n: usize, _: &dyn Fn(())| bed::make(sanboot, places[n], most, plan.seed);
    let beds = parallel::run((places.len(), plan.threads), stop, make, |()| ())?;
    let mut jobs: Vec<(&Testbed, StormOf)> = Vec::new();
    for (n, bed) in &beds {
        let (layout, form) = places[*n];
        for &servers in &sanboot.boot.servers {
            let of = |repeat| StormOf { layout, form, servers, repeat };
            jobs.extend((0..sanboot.boot.repeats).map(|repeat| (bed, of(repeat))));
        }
    }
    let progress = Progress::new(jobs.iter().filter(|(_, which)| which.repeat == 0).count() as u64);
    let work = |n: usize, begins: &dyn Fn(usize)| {
        begins(n);
        let (bed, which) = jobs[n];
        unless_abandoned(storm::run(sanboot, bed, &trace, which, (plan.seed, stop)))
    };
    let show = |n: usize| {
        let which = jobs[n].1;
        if which.repeat == 0 {
            let (layout, form) = (which.layout.name(), which.form.words());
            progress.step(&format!("boot storm, {layout}, {form}, {} servers", which.servers));
        }
    };
    let done = parallel::run((jobs.len(), plan.threads), stop, work, show)?;
    progress.end();
    let storms: Vec<Storm> = done.into_iter().filter_map(|(_, storm)| storm).collect();
    let is_whole = beds.len() == places.len() && storms.len() == jobs.len();
    Ok((storms, is_whole))
}

#[cfg(test)]
mod tests {
    use lab_core::scenario::ScenarioFile;

    use super::*;

    /// Two layouts, three forms, few servers with small disks.
    fn small(servers: &[u32]) -> Vec<Storm> {
        let (mut small, _) = Sanboot::load(None).expect("built in");
        small.boot.servers = servers.to_vec();
        (small.boot.repeats, small.boot.lu.0, small.array.cache.0) = (1, 128 << 20, 256 << 20);
        let plan = Plan { seed: 1, quick: true, layouts: Layout::MODELLED.to_vec(), threads: 2 };
        let (storms, is_whole) = run(&small, &plan, &Stop::default()).expect("storms");
        assert!(is_whole);
        storms
    }

    #[test]
    fn a_server_alone_takes_what_its_guest_took_and_what_the_drives_add() {
        let storms = small(&[1, 4]);
        assert_eq!(storms.len(), 2 * 3 * 2);
        let own_s = Trace::load("guest").expect("built in").own_time().as_secs_f64();
        for storm in &storms {
            assert_eq!(storm.up_s.len(), storm.servers as usize);
            assert_eq!(storm.commands, 420 * u64::from(storm.servers));
            // Each time of its own varies by 5 %.
            let is_near = |s: &f64| (0.95 * own_s..1.05 * own_s + 3.0).contains(s);
            assert!(storm.up_s.iter().all(is_near), "{own_s} {storm:?}");
            // The drives read what the servers did, each from an empty cache, and read ahead.
            assert!(storm.drive_read_bytes >= storm.read_bytes, "{storm:?}");
        }
        let read = |form| {
            let of = |s: &&Storm| s.form == form && s.layout == Layout::Raid1x8 && s.servers == 1;
            storms.iter().find(of).expect("run").drive_read_bytes
        };
        // The file system is mounted to write: the page with its superblock is copied.
        let more = |form| (read(form) as f64 - read(Form::Copies) as f64) / f64::from(1 << 20);
        assert!((15.0..17.5).contains(&more(Form::LargePageClones)), "{}", more(Form::LargePageClones));
        assert!((0.5..2.0).contains(&more(Form::Clones)), "{}", more(Form::Clones));
    }
}
