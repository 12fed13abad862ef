//! `masu compare`: the differences between two runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use lab_core::outputs;
use lab_core::words::{shown, visible};
use lab_tools::compare::{Compared, Comparison, Verdict};
use serde_json::json;

use crate::table;

/// Compare two runs: every metric of both, with the ratio and its confidence interval
///
/// A and B are folders of runs (of any verification), or files with the output of a load with --json. If the
/// interval of a ratio contains 1, the metric is undecided; a metric with one value has no interval.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu compare verify-monday verify-friday
  masu load diskstress /mnt/a --repeats 5 --json >a.json; masu load diskstress /mnt/b --repeats 5 --json >b.json; masu compare a.json b.json

Exit status: 0 compared, 2 bad input.")]
pub(crate) struct Compare {
    /// The reference run
    a: PathBuf,
    /// The run to compare with it
    b: PathBuf,
    /// Also write a report into this folder
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print every metric, not only the largest differences
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Rows of the short form: a terminal page, with answer and legend.
const ROWS: usize = 20;

pub(crate) fn run(compare: &Compare) -> Result<ExitCode> {
    let out = compare.out.as_deref().map(outputs::folder).transpose()?;
    let comparison = Comparison::of(&compare.a, &compare.b)?;
    let command = lab_core::command_line::of_process();
    let page = out.as_ref().map(|out| comparison.write(out, &command)).transpose()?;
    if compare.json {
        println!("{}", serde_json::to_string_pretty(&as_json(&comparison))?);
        return Ok(ExitCode::SUCCESS);
    }
    print(&comparison, compare);
    if let Some(page) = page {
        println!("\nreport: {}", shown(&page));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(comparison: &Comparison, compare: &Compare) {
    println!("{}\n", visible(&comparison.answer()));
    for (letter, path, what) in
        [("A", &compare.a, &comparison.runs()[0]), ("B", &compare.b, &comparison.runs()[1])]
    {
        let what = if what.is_empty() { String::new() } else { format!(" ({})", visible(what)) };
        println!("{letter}  {}{what}", shown(path));
    }
    println!();
    let rows = if compare.all { comparison.both.len() } else { ROWS };
    let header = ["metric", "A", "B", "B / A", "95 % interval", ""];
    let shown = comparison.both.iter().take(rows).map(row);
    table::print_plain(&header, &header[1..5], shown.collect(), "");
    let more = comparison.both.len().saturating_sub(rows);
    if more > 0 {
        println!("{more} more (--all shows them)");
    }
    for (run, only) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        let some: Vec<String> =
            only.iter().take(if compare.all { only.len() } else { 3 }).map(|name| visible(name)).collect();
        let rest = if some.len() < only.len() { ", …" } else { "" };
        match only.len() {
            0 => {}
            n => println!("only in {run}: {n}: {}{rest}", some.join("; ")),
        }
    }
    comparison.doubts().iter().for_each(|doubt| println!("doubt: {}", visible(doubt)));
}

/// Five digits exceed the precision of a measurement.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 || (v > 0.0 && v < 1e-3) => format!("{value:.3e}"),
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn row(c: &Compared) -> Vec<String> {
    let ratio = c.ratio.map_or("–".into(), |r| format!("{:.3}", r.mean));
    let ends = c.ratio.filter(|r| r.low.is_finite() && r.low < r.high);
    let ends = ends.map_or("–".into(), |r| format!("{:.3} to {:.3}", r.low, r.high));
    let mark = match c.verdict {
        Verdict::Differs if c.b > c.a => "B is more",
        Verdict::Differs => "B is less",
        other => other.words(),
    };
    vec![visible(&c.name), number(c.a), number(c.b), ratio, ends, mark.into()]
}

fn as_json(comparison: &Comparison) -> serde_json::Value {
    let metric = |c: &Compared| {
        let end = |of: fn(lab_core::stats::Estimate) -> f64| c.ratio.map(of).filter(|v| v.is_finite());
        json!({
            "name": c.name, "a": c.a, "b": c.b, "samples": [c.samples.0, c.samples.1], "ratio": end(|r| r.mean),
            "low": end(|r| r.low), "high": end(|r| r.high), "verdict": c.verdict.words(),
        })
    };
    json!({
        "answer": comparison.answer(),
        "metrics": comparison.both.iter().map(metric).collect::<Vec<_>>(),
        "only_a": comparison.only_a,
        "only_b": comparison.only_b,
        "apart": comparison.apart,
        "inputs": comparison.inputs,
        "doubts": comparison.doubts(),
    })
}
