//! From points to files: `results.json`, and the points and windows as CSV.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::results::{Layout, Pattern, Point, Results};
use super::run::{Pace, Plan, run};
use super::scenario::Sanboot;
use crate::interrupt::Stop;
use crate::stats;
use crate::verify::{Options, SanbootOptions};

/// Runs the verification and writes what it found. Gives whether every check held.
pub(crate) fn verify(options: &Options, own: &SanbootOptions) -> Result<bool> {
    let scenario = Sanboot::load(options.scenario.as_deref())?;
    let scenario = if own.quick { scenario.quick() } else { scenario };
    let stop = Stop::on_signals()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let layouts = if own.layouts.is_empty() { Layout::ALL.to_vec() } else { own.layouts.clone() };
    let plan = Plan { seed: options.seed, quick: own.quick, layouts, threads };
    let ran = run(&scenario, &plan, &stop)?;
    write(&options.out, &ran.results)?;
    print!("{}", table(&ran.results));
    println!("{}", words(&ran.pace));
    Ok(!ran.results.stopped)
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

/// I/Os per second and server, the mean of the repeats, and what worked hardest.
fn table(results: &Results) -> String {
    let mut out = String::new();
    for pattern in Pattern::ALL {
        for layout in Layout::ALL {
            let of: Vec<&Point> =
                results.points.iter().filter(|p| p.pattern == pattern && p.layout == layout).collect();
            let mut numbers: Vec<u32> = of.iter().map(|p| p.servers).collect();
            numbers.dedup();
            for servers in numbers {
                let same: Vec<&Point> = of.iter().copied().filter(|p| p.servers == servers).collect();
                let _ =
                    writeln!(out, "{:<17}{:<9}{servers:>3}  {}", pattern.name(), layout.name(), line(&same));
            }
        }
    }
    out
}

fn line(points: &[&Point]) -> String {
    let per_server: Vec<f64> = points
        .iter()
        .map(|p| p.per_server.iter().map(|s| s.iops).sum::<f64>() / p.per_server.len() as f64)
        .collect();
    let all = points.iter().flat_map(|p| &p.per_server).map(|s| s.iops);
    let (low, high) = all.fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let first = points[0];
    let mut busiest: Vec<_> = first.resources.iter().collect();
    busiest.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    let busiest: Vec<String> =
        busiest.iter().take(3).map(|r| format!("{} {:.0} %", r.name, r.utilisation * 100.0)).collect();
    let estimate = stats::mean(&per_server);
    let half =
        if points.len() > 1 { format!(" ±{:.0}", estimate.high - estimate.mean) } else { String::new() };
    format!(
        "{:>8.0}{half} IOPS per server ({low:.0} to {high:.0}), {:.2} ms, hits {:.0} %, {}{}",
        estimate.mean,
        first.per_server[0].response_ms_mean,
        first.hit_share * 100.0,
        busiest.join(", "),
        if first.settled { "" } else { ", not settled" }
    )
}
