//! `masu predict`: forecasts additional servers from the points of a run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use lab_tools::predict::{Basis, Forecast, Refusal, Validation, WhatIf, unknown};
use serde_json::json;
use verify_sanboot::POINTS;
use verify_sanboot::exchange::changes;
use verify_sanboot::ramp::{FittedOn, predicted_changed, ramp};
use verify_sanboot::results::{Layout, Pattern, Results};

use crate::table;

/// Forecast additional servers from the points of a run
///
/// Reads points.json of `masu verify sanboot`. For each pattern and layout it prints the service of
/// additional servers with a prediction interval, the limiting resource, and a validation that leaves out the
/// last points. Where the measured points do not support a forecast, it prints the reason.
#[derive(Args)]
#[command(after_help = "\
The prediction interval holds nine of ten cases: 5 % and 95 % quantiles over bootstrap samples, with the model's own error.

Exit status: 0 forecast given, 1 no forecast for some points, or the run was stopped before its end, 2 bad input.")]
pub(crate) struct Predict {
    /// The folder of the run
    #[arg(value_name = "RUN_DIR")]
    run_dir: PathBuf,
    /// Largest number of servers
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=128))]
    to: u32,
    /// Fit on points with at most this number of servers
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=128))]
    from: Option<u32>,
    /// Only this pattern, named as in points.json: random_read, sequential_mix, …
    #[arg(long)]
    pattern: Option<String>,
    /// Only this layout: raid5x4 or raid1x8
    #[arg(long)]
    layout: Option<String>,
    /// Other hardware: drives=x1.3, drives=cheetah-15k5, groups=+1, port=x2, controller=x1.5. Demands are
    /// scaled (a drive's by its modelled speed with the pattern); everything else stays as measured
    #[arg(long, value_delimiter = ',')]
    what_if: Vec<WhatIf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(predict: &Predict) -> Result<ExitCode> {
    let results = load(&predict.run_dir)?;
    let patterns = chosen(&Pattern::ALL, Pattern::name, predict.pattern.as_deref())?;
    let layouts = chosen(&Layout::ALL, Layout::name, predict.layout.as_deref())?;
    let fitted_on = FittedOn::UpTo(predict.from.unwrap_or(u32::MAX));
    let mut all = Vec::new();
    for pattern in patterns {
        for layout in &layouts {
            let measured = ramp(&results, pattern, *layout, fitted_on);
            let what_if = changes(&results, pattern, &predict.what_if)?;
            if let Some(name) = measured.as_ref().and_then(|ramp| unknown(ramp, &what_if)) {
                bail!("unknown resource {name} of {} with {}", pattern.name(), layout.name());
            }
            if let Some(forecast) =
                predicted_changed(&results, (pattern, *layout), (fitted_on, predict.to), &what_if)
            {
                all.push((pattern, *layout, forecast.map(|all| all.upto(predict.to))));
            }
        }
    }
    if let Some(from) = predict.from.filter(|from| *from > most(&results)) {
        bail!("invalid --from {from}: the run measured {} servers at most", most(&results));
    }
    if all.is_empty() {
        let stopped = if results.stopped { "; the run was stopped before its end" } else { "" };
        bail!(
            "{}: no points of these patterns and layouts share a resource{stopped}",
            predict.run_dir.display()
        );
    }
    let stopped = results.stopped;
    if predict.json {
        let all: Vec<_> = all.iter().map(|of| as_json(of, stopped)).collect();
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        if stopped {
            println!("{STOPPED}\n");
        }
        all.iter().for_each(|(pattern, layout, forecast)| print(*pattern, *layout, forecast));
    }
    Ok(ExitCode::from(exit_status(all.iter().map(|(.., forecast)| forecast), stopped)))
}

/// The most servers of a point.
fn most(results: &Results) -> u32 {
    results.points.iter().map(|point| point.servers).max().unwrap_or(0)
}

/// What is said of a run that was stopped.
const STOPPED: &str = "note: the run was stopped before its end: only the points that it had measured are used, and patterns \
                       and layouts without any are left out";

/// Whether every forecast is whole, and of a whole run.
fn exit_status<'a>(all: impl IntoIterator<Item = &'a Result<Forecast, Refusal>>, stopped: bool) -> u8 {
    let is_whole =
        |f: &Result<Forecast, Refusal>| f.as_ref().is_ok_and(|f| f.refused.is_none() && f.gaps.is_empty());
    u8::from(stopped || !all.into_iter().all(is_whole))
}

fn load(dir: &Path) -> Result<Results> {
    let path = dir.join(POINTS);
    let text = lab_core::text_file::read(&path).with_context(|| path.display().to_string())?;
    Results::read(&text).map_err(|cause| anyhow!("{}: {cause}", path.display()))
}

/// All, or the one with this name.
fn chosen<T: Copy>(all: &[T], name: fn(T) -> &'static str, wanted: Option<&str>) -> Result<Vec<T>> {
    let Some(wanted) = wanted else { return Ok(all.to_vec()) };
    match all.iter().find(|one| name(**one) == wanted) {
        Some(one) => Ok(vec![*one]),
        None => {
            let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
            bail!("invalid {wanted}: must be one of {}", names.join(", "))
        }
    }
}

fn as_json(
    (pattern, layout, forecast): &(Pattern, Layout, Result<Forecast, Refusal>),
    stopped: bool,
) -> serde_json::Value {
    let (pattern, layout) = (pattern.name(), layout.name());
    let mut told = match forecast {
        Ok(forecast) => json!({ "pattern": pattern, "layout": layout, "forecast": forecast }),
        Err(refusal) => json!({ "pattern": pattern, "layout": layout, "refused": refusal.to_string() }),
    };
    if stopped {
        told["stopped"] = true.into();
    }
    told
}

fn print(pattern: Pattern, layout: Layout, forecast: &Result<Forecast, Refusal>) {
    println!("{}, {}", pattern.name(), layout.name());
    match forecast {
        Ok(forecast) => print_forecast(forecast),
        Err(refusal) => println!("  refused: {refusal}"),
    }
    println!();
}

fn print_forecast(forecast: &Forecast) {
    let rows = forecast.points.iter().map(|point| {
        vec![
            format!("{}{}", point.servers, basis_words(point.basis)),
            format!("{:.0}", point.iops.median),
            format!("{:.0}", point.iops.low),
            format!("{:.0}", point.iops.high),
            format!("{:.0}", point.iops.median / f64::from(point.servers)),
            format!("{} {:.0} %", point.resource, 100.0 * point.used),
        ]
    });
    let header = ["servers", "iops", "5 %", "95 %", "per server", "most used"];
    table::print_plain(&header, &header[1..5], rows.collect(), "");
    for (servers, why) in forecast.points.iter().filter_map(|p| Some((p.servers, p.why_outside.as_ref()?))) {
        println!("note:       {servers} servers: outside of what was measured around it: {why}");
    }
    for (servers, why) in &forecast.gaps {
        println!("refused:    {servers} servers: {why}");
    }
    if let Some(end) = &forecast.ends {
        println!(
            "limit:      {} with {} servers; now at {:.0} % of its capacity",
            end.resource,
            end.servers,
            100.0 * end.used
        );
    }
    if let Some((from, why)) = &forecast.refused {
        println!("refused:    from {from} servers on: {why}");
    }
    for demand in forecast.demands.iter().filter(|demand| demand.rejected.is_some()) {
        println!("left out:   {}: {}", demand.resource, demand.rejected.as_deref().unwrap_or_default());
    }
    for note in &forecast.notes {
        println!("note:       {note}");
    }
    match &forecast.validation {
        Some(validation) => print_validation(validation),
        None => println!("validation: too few points"),
    }
}

/// Where a row comes from, behind its number of servers.
fn basis_words(basis: Basis) -> String {
    match basis {
        Basis::Measured => " (measured)".into(),
        Basis::Between { low, high } => format!(" (between {low} and {high})"),
        Basis::Beyond => String::new(),
    }
}

fn print_validation(validation: &Validation) {
    let point = |p: &lab_tools::predict::Checked| {
        let within = if p.is_within() { "in the interval" } else { "outside the interval" };
        format!("{} servers {:+.1} % ({within})", p.servers, 100.0 * p.error())
    };
    let points: Vec<String> = validation.points.iter().map(point).collect();
    let why = validation.refused.as_deref().map(|why| format!("refused: {why}"));
    let all: Vec<String> = points.into_iter().chain(why).collect();
    println!("validation: from 1 to {} servers: {}", validation.fitted_to, all.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that was stopped has fewer points than it says: its forecast ended with exit status 0, without a
    /// word.
    #[test]
    fn a_forecast_from_a_run_that_was_stopped_says_so_and_is_not_whole() {
        let refused = || Err::<Forecast, _>(Refusal::TooFew { servers: 1, least: 3 });
        assert_eq!((exit_status([], false), exit_status([], true)), (0, 1));
        assert_eq!((exit_status([&refused()], false), exit_status([&refused()], true)), (1, 1));
        let told = |stopped| as_json(&(Pattern::ALL[0], Layout::ALL[0], refused()), stopped);
        assert_eq!((told(true)["stopped"].clone(), told(false).get("stopped")), (json!(true), None));
    }
}
