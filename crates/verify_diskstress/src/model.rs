//! All patterns on both machines in the model world. The same seed gives the same numbers.

use anyhow::{Result, ensure};
use diskstress::Pattern;
use world::Rng;
use world_model::drives::DriveParameters;
use world_model::{DiskSpec, Model};

use super::lu;
use super::machine::{self, DRIVES};
use super::results::{Measured, On, Run};
use super::scenario::Scenario;
use lab_core::interrupt::{Abandoned, Stop, unless_abandoned};
use lab_core::progress::Progress;
use lab_tools::drives;

/// Places begin at whole MiB.
const PLACE_STEP: u64 = 1 << 20;

/// Runs everything.
pub(super) fn run(scenario: &Scenario, seed: u64, stop: &Stop) -> Result<Run> {
    let specs: Result<Vec<(String, DiskSpec)>> = scenario.run.drives.iter().map(|name| spec(name)).collect();
    let specs = specs?;
    specs.iter().try_for_each(|(name, spec)| check_room(scenario, name, spec.len_bytes))?;
    let progress = Progress::new(specs.len() as u64 * u64::from(scenario.run.repeats));
    let mut out = Run { drive: scenario.run.drives[0].clone(), ..Run::default() };
    for (drive, spec) in &specs {
        for repeat in 0..scenario.run.repeats {
            if stop.is_asked() {
                out.stopped = true;
                break;
            }
            progress.step(&format!("{drive}, repeat {}", repeat + 1));
            // The same places for all patterns and both machines.
            let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(repeat));
            let steps = scenario.run.place_spread.0 / PLACE_STEP;
            let place = scenario.run.place.0 + Rng::with_seed(seed).u64(..=steps) * PLACE_STEP;
            let judged = *drive == out.drive;
            let Some(repeat_done) =
                unless_abandoned(repeat_of(scenario, (drive, spec, judged), (place, seed), stop))?
            else {
                out.stopped = true;
                break;
            };
            out.measured.extend(repeat_done.measured);
            out.lu.extend(repeat_done.lu);
            out.kept.add(repeat_done.kept);
            out.repeats = out.repeats.max(repeat + 1);
        }
    }
    progress.end();
    // A part of a repeat is none: nothing could be judged.
    match out.measured.is_empty() && out.stopped {
        true => Err(Abandoned.into()),
        false => Ok(out),
    }
}

/// A repeat to its end.
struct Repeat {
    measured: Vec<Measured>,
    lu: Vec<lu::Cost>,
    kept: lu::Kept,
}

/// Whether the files end on this drive wherever they begin.
fn check_room(scenario: &Scenario, drive: &str, drive_bytes: u64) -> Result<()> {
    let run = &scenario.run;
    let files_bytes = diskstress::published().iter().map(Pattern::total_bytes).max().unwrap_or(0);
    let end_bytes = run.place.0 + run.place_spread.0 + files_bytes;
    ensure!(
        end_bytes <= drive_bytes,
        "run.drives: the drive {drive:?} has {} MiB, and files of {} MiB that begin up to run.place + run.place_spread end at {} MiB: \
         make these less, or name a larger drive",
        drive_bytes >> 20,
        files_bytes >> 20,
        end_bytes.div_ceil(1 << 20)
    );
    Ok(())
}

fn spec(name: &str) -> Result<(String, DiskSpec)> {
    let parameters: DriveParameters = drives::load(name)?;
    Ok((name.to_owned(), DiskSpec::drive(&parameters)?))
}

/// All patterns on both machines, once; on the drive that is judged also on a LU of the array.
fn repeat_of(
    scenario: &Scenario,
    (drive, spec, judged): (&str, &DiskSpec, bool),
    (place, seed): (u64, u64),
    stop: &Stop,
) -> Result<Repeat> {
    let mut measured = Vec::new();
    for pattern in diskstress::published() {
        for on in On::BOTH {
            let kind = match on {
                On::Physical => &scenario.physical,
                On::Virtual => &scenario.virtualized,
            };
            let model = Model::new(seed);
            for name in DRIVES {
                model.disk(name, spec.clone());
            }
            let done = model
                .run_while(
                    || !stop.is_asked(),
                    async |world| machine::run(&world, &scenario.machine, kind, &pattern, place).await,
                )
                .ok_or(Abandoned)??;
            measured.push(Measured {
                pattern: pattern.name.clone(),
                on,
                drive: drive.to_owned(),
                mb_per_s: pattern.total_bytes() as f64 / done.seconds / 1e6,
                processor_percent: done.processor_percent,
            });
        }
    }
    let (mut lu, mut kept) = (vec![], lu::Kept::default());
    if judged {
        lu = lu::cost(scenario, spec, place, (seed, stop))?;
        kept = lu::kept(scenario, drive, scenario.lu.cuts.into(), (seed, stop))?;
    }
    Ok(Repeat { measured, lu, kept })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_core::quantity::Size;
    use lab_core::scenario::ScenarioFile;

    /// The first write behind the end of a drive was a panic.
    #[test]
    fn files_that_do_not_end_on_each_drive_are_refused_before_the_run() {
        let refused = |change: fn(&mut Scenario)| {
            let mut scenario = Scenario::load(None).expect("built in").0.quick();
            scenario.run.repeats = 1;
            change(&mut scenario);
            let Err(error) = run(&scenario, 7, &Stop::default()) else { panic!("there is no room") };
            error.to_string()
        };
        let place = refused(|scenario| scenario.run.place = Size(100 << 30));
        assert!(
            place.contains("\"savvio-10k1\" has 70109 MiB") && place.contains("end at 111616 MiB"),
            "{place}"
        );
        let spread = refused(|scenario| scenario.run.place_spread = Size(1 << 40));
        assert!(spread.contains("end at 1056768 MiB"), "{spread}");
        // Of 9.1 GB, and the files are of 8 GiB.
        let small = refused(|scenario| scenario.run.drives[1] = "cheetah-9lp".into());
        assert!(small.contains("\"cheetah-9lp\" has"), "{small}");
        let room = |end_bytes| {
            let scenario = Scenario::load(None).expect("built in").0;
            check_room(&scenario, "d", end_bytes).is_ok()
        };
        assert_eq!((room(9 << 30), room((9 << 30) - 1)), (true, false));
    }

    /// The first Ctrl-C waited for the end of the repeat, which takes half a minute.
    #[test]
    fn a_repeat_ends_where_it_is_when_somebody_asks_to_stop() {
        let scenario = Scenario::load(None).expect("built in").0.quick();
        let (drive, spec) = spec(&scenario.run.drives[0]).expect("a drive");
        let stop = Stop::default();
        stop.ask();
        let repeat = repeat_of(&scenario, (&drive, &spec, true), (0, 7), &stop);
        assert!(matches!(unless_abandoned(repeat), Ok(None)));
        let cost = lu::cost(&scenario, &spec, 0, (7, &stop));
        assert!(matches!(unless_abandoned(cost), Ok(None)));
        let Err(error) = run(&scenario, 7, &stop) else { panic!("nothing was measured") };
        assert_eq!(error.to_string(), "the run was stopped before anything of it was measured");
    }
}
