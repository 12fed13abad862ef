//! `masu sample`: counters of this machine, and of an array, over time, on one clock.

#![expect(clippy::disallowed_methods, reason = "samples are taken in the system's time")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use admin::{Client, Status};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use lab_core::outputs;
use lab_tools::samplers::array::{Traffic, cache, controller, pool, port, traffic};
use lab_tools::samplers::{Counter, Host, HostPlan, Plan, Samplers, Series, Window};

use crate::manage::{Where, client};
use crate::table;

/// Record counters of this machine and of an array over time, on one clock, as CSV
///
/// Writes host.csv (processors, memory, drives with queue and response times, network, processes) and, with
/// --with-array, array.csv (controllers, ports, drives, groups, LUs, caches, pools), one line per interval.
/// Prints means at the end.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu sample --for 31m                           as file servers are sampled: every 10 s, means from 1 minute on
  masu sample --for 31m --with-array              and the array of ./data, every 60 s
  masu sample --every 1s --drive sda --pid 4711   until Ctrl-C, one drive and a process")]
pub(crate) struct Sample {
    /// Interval for this machine
    #[arg(long, default_value = "10s", value_parser = units::parse_duration)]
    every: Duration,
    /// Also sample the array of --data, or of --api
    #[arg(long)]
    with_array: bool,
    /// Interval for the array
    #[arg(long, default_value = "60s", value_parser = units::parse_duration)]
    array_every: Duration,
    /// Duration; by default until Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = units::parse_duration)]
    time: Option<Duration>,
    /// Exclude this time at the beginning from the means; by default 60 s of a longer run
    #[arg(long, value_parser = units::parse_duration)]
    skip: Option<Duration>,
    /// Only this drive, named as in /proc/diskstats (repeatable)
    #[arg(long = "drive")]
    drives: Vec<String>,
    /// Only this network interface
    #[arg(long = "network")]
    networks: Vec<String>,
    /// Also sample the processor time of this process
    #[arg(long = "pid")]
    processes: Vec<u32>,
    /// Output folder for host.csv and array.csv
    #[arg(long, default_value = ".")]
    out: PathBuf,
    #[command(flatten)]
    at: Where,
}

/// Left out of the means where nobody says how much.
const SKIP_DEFAULT: Duration = Duration::from_secs(60);

impl Sample {
    /// Refuses what would measure nothing, before anything is written.
    fn check(&self, host: &Host) -> Result<()> {
        if let (Some(skip), Some(time)) = (self.skip, self.time) {
            ensure!(
                skip < time,
                "invalid --skip {} s: must be shorter than --for, {} s",
                skip.as_secs_f64(),
                time.as_secs_f64()
            );
        }
        if let Some((what, place)) = host.missing().map_err(|cause| anyhow!(cause))? {
            bail!("--{what}: this machine has none of that name; {place} shows what it has");
        }
        Ok(())
    }
}

pub(crate) fn run(sample: &Sample) -> Result<ExitCode> {
    sample.at.refuse_dry_run("sample")?;
    let host = host(sample);
    sample.check(&host)?;
    std::fs::create_dir_all(&sample.out).with_context(|| sample.out.display().to_string())?;
    for name in ["host.csv", "array.csv"].iter().take(1 + usize::from(sample.with_array)) {
        let is_own = |text: &str| text.starts_with("time_s,seconds");
        let advice = "name another folder with --out";
        outputs::file(&sample.out.join(name), advice, "file of samples", is_own)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let source = Box::new(move || host.read());
    let mut plans = vec![Plan { name: "host".into(), interval: sample.every, source }];
    if sample.with_array {
        let array = client(&sample.at);
        // Said at once, and not in a minute.
        runtime.block_on(array.status())?;
        plans.push(array_plan(array, sample.array_every)?);
    }
    let samplers = Samplers::start(Instant::now(), plans)?;
    runtime.block_on(async {
        let end = async {
            match sample.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { () = end => {}, _ = tokio::signal::ctrl_c() => {} }
    });
    let to_s = samplers.now_s();
    let all = samplers.end();
    let skipped = sample.skip.unwrap_or(SKIP_DEFAULT).as_secs_f64();
    let window = Window { from_s: if skipped < to_s { skipped } else { 0.0 }, to_s };
    for series in &all {
        let path = sample.out.join(format!("{}.csv", series.name));
        let rows = series.write_csv(&path)?;
        print(series, &window);
        println!("\n{rows} samples: {}", path.display());
        if let Some((times, why)) = &series.failed {
            println!("{times} readings failed; the last error: {why}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn host(sample: &Sample) -> Host {
    Host::new(HostPlan {
        drives: sample.drives.clone(),
        networks: sample.networks.clone(),
        processes: sample.processes.clone(),
    })
}

fn array_plan(array: Client, interval: Duration) -> Result<Plan> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let source = move || match runtime.block_on(array.status()) {
        Ok(status) => Ok(counters(&status)),
        Err(error) => Err(error.to_string()),
    };
    Ok(Plan { name: "array".into(), interval, source: Box::new(source) })
}

/// Counters of an array, through its API.
fn counters(status: &Status) -> Vec<Counter> {
    let mut out: Vec<Counter> =
        status.loads.iter().map(|l| controller(l.controller, l.busy_ms, l.up_ms)).collect();
    for one in &status.ports {
        out.extend(port(&format!("port {}", one.listen), one.commands, one.bytes_in, one.bytes_out));
    }
    let of = |drive: &admin::Drive| Traffic {
        reads: drive.reads,
        writes: drive.writes,
        read_bytes: drive.read_bytes,
        write_bytes: drive.write_bytes,
    };
    for drive in &status.drives {
        out.extend(traffic(&format!("drive {}", drive.name), of(drive)));
    }
    for group in &status.groups {
        let members = status.drives.iter().filter(|d| d.group.as_ref() == Some(&group.name));
        let sum = members.map(of).fold(Traffic::default(), Traffic::plus);
        out.extend(traffic(&format!("group {}", group.name), sum));
    }
    for volume in &status.volumes {
        let c = &volume.counters;
        let (reads, writes, read_bytes, write_bytes) = (c.reads, c.writes, c.read_bytes, c.write_bytes);
        let lu = Traffic { reads, writes, read_bytes, write_bytes };
        out.extend(traffic(&format!("lu {}", volume.name), lu));
    }
    out.extend(status.pools.iter().flat_map(|p| pool(&p.name, p.used_bytes, p.size_bytes)));
    for one in &status.caches {
        let sum = |of: fn(&admin::CacheTraffic) -> u64| one.volumes.iter().map(|v| of(&v.traffic)).sum();
        let reads = (sum(|t| t.read_bytes), sum(|t| t.read_hit_bytes));
        let writes = (sum(|t| t.write_bytes), sum(|t| t.write_hit_bytes));
        out.extend(cache(one.controller, one.pending_percent, reads, writes));
    }
    out
}

/// Means and maximums of the counters that are not always zero.
fn print(series: &Series, window: &Window) {
    let rows = series.columns().into_iter().filter_map(|column| {
        let (mean, max) = series.mean_and_max(column, window)?;
        let cells = [
            column.resource.clone(),
            column.metric.into(),
            format!("{mean:.2}"),
            format!("{max:.2}"),
            column.unit.into(),
        ];
        (max > 0.0).then_some(cells.to_vec())
    });
    println!("\n{}, {:.0} s to {:.0} s", series.name, window.from_s, window.to_s);
    let header = ["resource", "counter", "mean", "most", "unit"];
    table::print_plain(&header, &["mean", "most"], rows.collect(), "no samples in this window");
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sample: Sample,
    }

    /// It ended with exit status 0 and had measured nothing.
    #[test]
    fn what_would_measure_nothing_is_refused() {
        let own = std::process::id().to_string();
        for (line, expected) in [
            (&["--for", "4s", "--skip", "10s"][..], "invalid --skip 10 s: must be shorter than --for, 4 s"),
            (&["--for", "4s", "--skip", "4s"], "invalid --skip 4 s: must be shorter than --for, 4 s"),
            (&["--drive", "nosuch"], "--drive nosuch: this machine has none of that name"),
            (&["--network", "nosuch"], "--network nosuch: this machine has none of that name"),
            (&["--pid", "4294967295"], "--pid 4294967295: this machine has none of that name; /proc shows"),
            (&["--for", "4s", "--pid", &own], ""),
            (&["--skip", "10s"], ""),
        ] {
            let sample = Line::try_parse_from([&["masu"][..], line].concat()).expect("parses").sample;
            let said = sample.check(&host(&sample)).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.starts_with(expected) && said.is_empty() == expected.is_empty(), "{line:?}: {said}");
        }
    }
}
