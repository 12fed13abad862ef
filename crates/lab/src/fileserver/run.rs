//! The whole verification: runs, judgement, and what is written.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::claims::judge;
use super::figures::figures;
use super::model::{self, Ran, Said};
use super::report::{self, Finished, verdict};
use super::results::{self, Results};
use super::scenario::Fileserver;
use crate::verify::{FileserverOptions, Options, World};
use lab_core::interrupt::Stop;
use lab_core::machine::Watch;
use lab_core::parallel;
use lab_core::progress::Progress;
use lab_core::report::{DataFile, Doubt, write_report, write_results};

/// Runs the verification and writes what it found. Gives whether every check held.
pub(crate) fn verify(options: &Options, own: &FileserverOptions) -> Result<bool> {
    if own.world == World::Real {
        return super::real::verify(options, own);
    }
    let (scenario, text) = Fileserver::load(options.scenario.as_deref())?;
    let scenario = if own.quick { scenario.quick() } else { scenario };
    let stop = Stop::on_signals()?;
    let (watch, from) = (Watch::start(), Instant::now());
    let threads = parallel::cores();
    let progress = Progress::new(model::runs(&scenario) as u64);
    let ran = model::run(&scenario, (options.seed, threads), &stop, |said| match said {
        Said::Begins(text) => progress.step(&text),
        Said::Passed(text) => progress.note(&text),
    })?;
    progress.end();
    // What others did with the machine meanwhile changes no result: time is virtual.
    let (machine, _) = watch.end();
    let judged = judge(&scenario, &ran);
    write_results(&options.out, &Results::of(&scenario, (options.seed, own.quick), &ran, &judged))?;
    let finished = Finished {
        options,
        quick: own.quick,
        scenario: &scenario,
        text: &text,
        machine,
        doubts: doubts(&ran, own.quick),
        ran: &ran,
        judged: &judged,
        figures: figures(&scenario, &ran, &judged),
        files: write_series(&options.out, &ran)?,
    };
    write_report(&options.out, &report::compose(&finished))?;
    report::print(&finished);
    println!("took {:.0} s", from.elapsed().as_secs_f64());
    Ok(verdict(&judged, ran.stopped) == "pass")
}

fn doubts(ran: &Ran, quick: bool) -> Vec<Doubt> {
    let mut out = Vec::new();
    if ran.stopped {
        out.push(Doubt {
            text: "The run was stopped before its end.".into(),
            effect: Some(
                "What was counted until then is shown; runs have different lengths, or are missing.".into(),
            ),
        });
    }
    if quick {
        out.push(Doubt {
            text: "The quick form: two minutes are counted instead of thirty.".into(),
            effect: Some("Intervals are wider, and some differences are not shown.".into()),
        });
    }
    out
}

fn write_series(out: &Path, ran: &Ran) -> Result<Vec<DataFile>> {
    let put = |name: &str, about: &str, text: String| {
        let path = out.join(name);
        let rows = text.lines().count().saturating_sub(1);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        anyhow::Ok(DataFile { name: name.into(), about: about.into(), rows })
    };
    let results = "every window of every run, and the checks, for a machine";
    Ok(vec![
        DataFile { name: "results.json".into(), about: results.into(), rows: ran.courses.len() },
        put("servers.csv", "every server in every interval", results::servers_csv(&ran.courses))?,
        put("host.csv", "the host in every interval", results::host_csv(&ran.courses))?,
        put(
            "array.csv",
            "every LU, group and controller in every interval",
            results::array_csv(&ran.courses),
        )?,
        put("ramp.csv", "more and more servers, window by window", results::ramp_csv(&ran.ramp))?,
        put("growth.csv", "a pool that grows, second by second", results::growth_csv(&ran.growths))?,
    ])
}
