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
    use crate::results::Pattern;

    /// Temporary.
    #[test]
    fn look() {
        let (sanboot, _) = Sanboot::load(None).expect("built in");
        let _ = Pattern::ALL;
        let from = std::time::Instant::now();
        let plan = Plan { seed: 1, quick: false, layouts: Layout::MODELLED.to_vec(), threads: 2 };
        let mut sanboot = sanboot;
        sanboot.boot.repeats = 1;
        let (storms, whole) = run(&sanboot, &plan, &Stop::default()).expect("storms");
        println!("{:?} {whole}", from.elapsed());
        for s in storms {
            println!(
                "{:?} {:?} {} last {:.2} median {:.2} port {:.2} ctrl {:.2} drives {:.2} read {} MB drives {} MB in {} wrote {} commands {}",
                s.layout,
                s.form,
                s.servers,
                survey::last_s(&s),
                survey::median_s(&s),
                s.port_busy,
                s.controller_busy,
                s.drive_busy,
                s.read_bytes / 1_000_000,
                s.drive_read_bytes / 1_000_000,
                s.drive_reads,
                s.drive_write_bytes / 1_000_000,
                s.commands
            );
        }
    }
}
