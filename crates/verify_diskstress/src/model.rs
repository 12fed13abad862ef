//! All patterns on both machines in the model world. The same seed gives the same numbers.

use anyhow::Result;
use world::Rng;
use world_model::drives::DriveParameters;
use world_model::{DiskSpec, Model};

use super::lu;
use super::machine::{self, DRIVES};
use super::results::{Measured, On, Run};
use super::scenario::Scenario;
use lab_core::interrupt::Stop;
use lab_core::progress::Progress;
use lab_tools::drives;

/// Places begin at whole MiB.
const PLACE_STEP: u64 = 1 << 20;

/// Runs everything.
pub(super) fn run(scenario: &Scenario, seed: u64, stop: &Stop) -> Result<Run> {
    let specs: Result<Vec<(String, DiskSpec)>> = scenario.run.drives.iter().map(|name| spec(name)).collect();
    let specs = specs?;
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
            out.measured.extend(repeat_of(scenario, (drive, spec), place, seed)?);
            if *drive == out.drive {
                out.lu.extend(lu::cost(scenario, spec, place, seed)?);
                out.kept.add(lu::kept(scenario, drive, scenario.lu.cuts.into(), seed)?);
            }
            out.repeats = out.repeats.max(repeat + 1);
        }
    }
    progress.end();
    Ok(out)
}

fn spec(name: &str) -> Result<(String, DiskSpec)> {
    let parameters: DriveParameters = drives::load(name)?;
    Ok((name.to_owned(), DiskSpec::drive(&parameters)?))
}

/// All patterns on both machines, once.
fn repeat_of(
    scenario: &Scenario,
    (drive, spec): (&str, &DiskSpec),
    place: u64,
    seed: u64,
) -> Result<Vec<Measured>> {
    let mut out = Vec::new();
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
                .run(async |world| machine::run(&world, &scenario.machine, kind, &pattern, place).await)?;
            out.push(Measured {
                pattern: pattern.name.clone(),
                on,
                drive: drive.to_owned(),
                mb_per_s: pattern.total_bytes() as f64 / done.seconds / 1e6,
                processor_percent: done.processor_percent,
            });
        }
    }
    Ok(out)
}
