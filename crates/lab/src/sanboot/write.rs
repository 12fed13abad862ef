//! From points to files: `results.json`, and the points and windows as CSV.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use iscsi::initiator::Url;

use super::real;
use super::report::{self, Finished};
use super::results::{Layout, Point, Results};
use super::run::{Pace, Plan, run};
use super::scenario::Sanboot;
use super::sweep::{self, Row};
use crate::verify::{Options, SanbootOptions, World};
use lab_core::interrupt::Stop;
use lab_core::machine::Watch;
use lab_core::parallel;
use lab_core::report::DataFile;

/// Runs the verification and writes what it found. Gives whether every check held.
pub(crate) fn verify(options: &Options, own: &SanbootOptions) -> Result<bool> {
    let (scenario, scenario_text) = Sanboot::load(options.scenario.as_deref())?;
    let scenario = match (own.world, own.quick) {
        (World::Real, quick) => scenario.real(quick, options.scale)?,
        (World::Model, true) => scenario.quick(),
        (World::Model, false) => scenario,
    };
    let stop = Stop::on_signals()?;
    let watch = Watch::start();
    let threads = parallel::cores();
    let given = options.targets.iter().map(|text| Url::parse(text)).collect::<Result<Vec<Url>, _>>()?;
    let layouts = match (given.is_empty(), own.layouts.is_empty()) {
        (false, _) => vec![Layout::Given],
        (true, true) => Layout::MODELLED.to_vec(),
        (true, false) => own.layouts.clone(),
    };
    let plan = Plan { seed: options.seed, quick: own.quick, layouts, threads };
    let ran = match own.world {
        World::Model => run(&scenario, &plan, &stop)?,
        World::Real => real::run(&scenario, &plan, &given, &stop)?,
    };
    write(&options.out, &ran.results)?;
    let (machine, contaminated) = watch.end();
    // Virtual time does not see what others did with the machine.
    let doubts = if own.world == World::Real { contaminated } else { vec![] };
    let sweep = match own.sweep && own.world == World::Model {
        true => swept(&scenario, &plan, &options.out, &stop)?,
        false => vec![],
    };
    let held = report::write(Finished {
        options,
        results: &ran.results,
        question: &scenario.question,
        scenario_text: &scenario_text,
        machine,
        doubts,
        files: files(&ran.results),
        sweep: &sweep,
    })?;
    match own.world {
        World::Model => println!("{}", words(&ran.pace)),
        World::Real => println!("{} I/Os took {:.0} s", ran.pace.ios, ran.pace.wall.as_secs_f64()),
    }
    Ok(held)
}

/// Runs the sweep, in the quick form, and writes what each choice of the inputs breaks.
fn swept(scenario: &Sanboot, plan: &Plan, out: &Path, stop: &Stop) -> Result<Vec<Row>> {
    let rows = sweep::sweep(&scenario.clone().quick(), (plan.seed, plan.threads), stop)?;
    let text = sweep::lines(&rows).join("\n") + "\n";
    let path = out.join("sweep.txt");
    std::fs::write(&path, &text).with_context(|| path.display().to_string())?;
    println!("{}\n{text}", sweep::summary(&rows));
    Ok(rows)
}

fn words(pace: &Pace) -> String {
    format!(
        "{} I/Os in {:.0} virtual seconds took {:.1} s: {:.0} I/Os per second of one core",
        pace.ios,
        pace.virtual_s,
        pace.wall.as_secs_f64(),
        pace.ios_per_s()
    )
}

fn write(out: &Path, results: &Results) -> Result<()> {
    let put = |name: &str, text: String| {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    };
    put("results.json", serde_json::to_string_pretty(results)? + "\n")?;
    put("points.csv", points_csv(results))?;
    put("windows.csv", windows_csv(results))
}

/// What lies beside the report.
fn files(results: &Results) -> Vec<DataFile> {
    let servers = results.points.iter().map(|p| p.per_server.len()).sum();
    let windows = results.points.iter().map(|p| p.windows.len()).sum();
    let file = |name: &str, about: &str, rows| DataFile { name: name.into(), about: about.into(), rows };
    vec![
        file(
            "results.json",
            "every point with its windows and resources, for a machine",
            results.points.len(),
        ),
        file("points.csv", "what each server of each point got", servers),
        file("windows.csv", "every window of every point", windows),
    ]
}

fn key(point: &Point) -> String {
    format!("{},{},{},{}", point.pattern.name(), point.layout.name(), point.servers, point.repeat)
}

/// A line for each server of each point.
fn points_csv(results: &Results) -> String {
    let mut out = String::from(
        "pattern,layout,servers,repeat,server,iops,mb_per_s,response_ms_mean,response_ms_p99,hit_share,settled\n",
    );
    for point in &results.points {
        for (server, rate) in point.per_server.iter().enumerate() {
            let (key, hits) = (key(point), point.hit_share);
            let _ = writeln!(
                out,
                "{key},{server},{:.3},{:.4},{:.4},{:.4},{hits:.4},{}",
                rate.iops, rate.mb_per_s, rate.response_ms_mean, rate.response_ms_p99, point.settled
            );
        }
    }
    out
}

/// A line for each window of each point.
fn windows_csv(results: &Results) -> String {
    let mut out = String::from(
        "pattern,layout,servers,repeat,window,seconds,iops,controller_busy,port_busy,port_mb_per_s,drive_busy_mean,drive_queue_mean,hit_share,write_pending\n",
    );
    for point in &results.points {
        for (number, w) in point.windows.iter().enumerate() {
            let first = |list: &[f64]| list.first().copied().unwrap_or_default();
            let drives = w.drive_busy.iter().sum::<f64>() / w.drive_busy.len().max(1) as f64;
            let _ = writeln!(
                out,
                "{},{number},{:.4},{:.3},{:.4},{:.4},{:.3},{drives:.4},{:.4},{:.4},{:.4}",
                key(point),
                w.seconds,
                w.iops,
                first(&w.controller_busy),
                first(&w.port_busy),
                w.port_mb_per_s,
                w.drive_queue_mean,
                w.hit_share,
                w.write_pending
            );
        }
    }
    out
}
