//! One run of the load, and what was counted meanwhile.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::executor::block_on;
use serde::Serialize;
use world_model::drives::Usage;

use super::super::load::{Address, Part, run_here};
use lab_core::interrupt::Stop;
use lab_tools::samplers::{self, Column, Host, HostPlan, Plan, Sample, Samplers, Series};
use lab_tools::testbed::Observer;

/// From sample to sample.
const EVERY: Duration = Duration::from_millis(250);
/// The lazy writer of the server: as that of Windows, it begins every second.
const LAZY_EVERY: Duration = Duration::from_secs(1);

/// What one run has, on average over its time; what is not there is none, and a number that was not counted
/// is no number: nothing is told of it, which is not the same as nothing.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Run {
    pub(super) configuration: String,
    pub(super) round: u32,
    /// In which place of its round it was.
    pub(super) place: usize,
    /// From the first file to the moment when all that was written was on the disk.
    pub(super) seconds: f64,
    pub(super) files: u64,
    pub(super) tool_mb_per_s: f64,
    pub(super) mismatches: u64,
    pub(super) disk: Option<Disk>,
    pub(super) array: Option<Array>,
    pub(super) processors_percent: f64,
    pub(super) available_gib: f64,
    /// Every sample: seconds from the start of the run.
    #[serde(skip)]
    pub(super) series: Vec<Series>,
}

/// The disk that the server sees.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Disk {
    pub(super) read_ms: f64,
    pub(super) write_ms: f64,
    pub(super) queue: f64,
    pub(super) reads_per_s: f64,
    pub(super) writes_per_s: f64,
}

/// The LU, its controller and its drives.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Array {
    pub(super) read_mb_per_s: f64,
    pub(super) write_mb_per_s: f64,
    pub(super) read_iops: f64,
    pub(super) write_iops: f64,
    pub(super) write_kib: f64,
    pub(super) controller_percent: f64,
    pub(super) pending_percent: f64,
    pub(super) write_hit_percent: f64,
    pub(super) drives_percent: f64,
    /// Commands in the drives of the group.
    pub(super) group_queue: f64,
}

/// Where a run is done.
pub(super) struct Place<'a> {
    pub(super) set: &'a Path,
    /// As /proc/diskstats names the server's disk; none: it is not known.
    pub(super) disk: Option<&'a str>,
    /// The LU and its drives, and who tells of them.
    pub(super) lu: Option<(String, Vec<String>, Arc<Observer>)>,
}

/// What is done in a run.
pub(super) struct Load {
    pub(super) workers: u32,
    pub(super) read_share: f64,
    pub(super) seed: u64,
    pub(super) seconds_max: f64,
}

impl Place<'_> {
    fn samplers(&self, clock: Instant) -> Result<Samplers> {
        let host = Host::new(HostPlan {
            drives: self.disk.map(str::to_owned).into_iter().collect(),
            ..HostPlan::default()
        });
        let mut plans =
            vec![Plan { name: "host".into(), interval: EVERY, source: Box::new(move || host.read()) }];
        if let Some((_, _, observer)) = &self.lu {
            let observer = observer.clone();
            let source = Box::new(move || match block_on(observer.status()) {
                Ok(status) => Ok(samplers::array::counters(&status)),
                Err(error) => Err(error.to_string()),
            });
            plans.push(Plan { name: "array".into(), interval: EVERY, source });
        }
        Ok(Samplers::start(clock, plans)?)
    }

    fn usage(&self) -> Result<BTreeMap<String, Usage>> {
        match &self.lu {
            Some((_, _, observer)) => block_on(observer.usage()),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Does it. Only what is in the file system below the set counts as written.
    pub(super) fn run(&self, load: &Load, stop: &Stop) -> Result<Run> {
        let address = Address::Folder(self.set.to_owned());
        let part = Part {
            client: 0,
            clients: 1,
            workers: load.workers,
            seed: load.seed,
            read_share: load.read_share,
            verify: false,
            files_max: u64::MAX,
            seconds_max: load.seconds_max,
        };
        let top = File::open(self.set).with_context(|| self.set.display().to_string())?;
        let before = self.usage()?;
        let begun = Instant::now();
        let samplers = self.samplers(begun)?;
        let writer = LazyWriter::start(top.try_clone()?)?;
        let outcome = run_here(&address, None, &part, stop);
        writer.end();
        rustix::fs::syncfs(&top)?;
        let seconds = begun.elapsed().as_secs_f64();
        let series = samplers.end();
        let after = self.usage()?;
        let outcome = outcome?;
        let bytes = outcome.reads.bytes + outcome.writes.bytes;
        let host = series.first();
        Ok(Run {
            seconds,
            files: outcome.reads.files + outcome.writes.files,
            tool_mb_per_s: bytes as f64 / seconds / 1e6,
            mismatches: outcome.mismatches,
            disk: self.disk.zip(host).map(|(disk, host)| server_disk(host, disk)),
            array: self.lu.as_ref().zip(series.get(1)).map(|((lu, drives, _), series)| {
                let worked = worked(drives, &before, &after);
                let of_time = |of: fn((u64, u64)) -> u64| {
                    worked.map_or(f64::NAN, |worked| of(worked) as f64 / 1e9 / seconds)
                };
                Array {
                    drives_percent: 100.0 * of_time(|(busy, _)| busy) / drives.len().max(1) as f64,
                    group_queue: of_time(|(_, held)| held),
                    ..of_array(series, lu)
                }
            }),
            processors_percent: host.map_or(f64::NAN, |host| mean(host, "cpu", "busy")),
            available_gib: host.map_or(f64::NAN, |host| mean(host, "memory", "available")),
            series,
            ..Run::default()
        })
    }
}

/// Time that these drives worked, and that requests were in them; none: one of them does not tell.
fn worked(
    drives: &[String],
    before: &BTreeMap<String, Usage>,
    after: &BTreeMap<String, Usage>,
) -> Option<(u64, u64)> {
    drives.iter().try_fold((0, 0), |(busy, held), name| {
        let (was, is) = (before.get(name)?, after.get(name)?);
        Some((busy + is.busy_ns.saturating_sub(was.busy_ns), held + is.held_ns.saturating_sub(was.held_ns)))
    })
}

/// The mean of a counter over all samples, by their length; no number where none has it.
pub(super) fn mean(series: &Series, resource: &str, metric: &str) -> f64 {
    weighted(series, resource, metric, |sample| sample.to_s - sample.from_s)
}

fn weighted(series: &Series, resource: &str, metric: &str, weight: impl Fn(&Sample) -> f64) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for sample in &series.samples {
        if let Some(value) = value(sample, resource, metric) {
            let weight = weight(sample);
            (sum, weights) = (sum + value * weight, weights + weight);
        }
    }
    if weights > 0.0 { sum / weights } else { f64::NAN }
}

pub(super) fn value(sample: &Sample, resource: &str, metric: &str) -> Option<f64> {
    let is = |column: &Column| column.resource == resource && column.metric == metric;
    sample.values.iter().find(|(column, _)| is(column)).map(|(_, value)| *value)
}

fn server_disk(host: &Series, disk: &str) -> Disk {
    let disk = format!("disk {disk}");
    // What each of them took, by how many there were.
    let each = |metric, count: &'static str| {
        weighted(host, &disk, metric, |s| value(s, &disk, count).unwrap_or(0.0) * (s.to_s - s.from_s))
    };
    Disk {
        read_ms: each("read await", "reads"),
        write_ms: each("write await", "writes"),
        queue: mean(host, &disk, "queue"),
        reads_per_s: mean(host, &disk, "reads"),
        writes_per_s: mean(host, &disk, "writes"),
    }
}

fn of_array(series: &Series, lu: &str) -> Array {
    let lu = format!("lu {lu}");
    let of = |metric| mean(series, &lu, metric);
    let (write_mb_per_s, write_iops) = (of("written"), of("writes"));
    Array {
        read_mb_per_s: of("read"),
        write_mb_per_s,
        read_iops: of("reads"),
        write_iops,
        write_kib: if write_iops > 0.0 { write_mb_per_s * 1e6 / 1024.0 / write_iops } else { f64::NAN },
        controller_percent: mean(series, "controller 0", "busy"),
        pending_percent: mean(series, "cache 0", "write pending"),
        write_hit_percent: mean(series, "cache 0", "write hits"),
        ..Array::default()
    }
}

/// Has what was written go to the disk while the load runs.
struct LazyWriter {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl LazyWriter {
    fn start(top: File) -> Result<LazyWriter> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::Builder::new().name("lazy-writer".into()).spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                std::thread::park_timeout(LAZY_EVERY);
                // What fails here fails at the end of the run, too, and is told there.
                let _ = rustix::fs::syncfs(&top);
            }
        })?;
        Ok(LazyWriter { stop, thread })
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that was not there made a claim of nothing: no time of a read, drives that never worked.
    #[test]
    fn a_counter_that_is_missing_is_no_number() {
        let column = |metric: &'static str| Column { resource: "disk sda".into(), metric, unit: "" };
        let sample = |values| Sample { from_s: 0.0, to_s: 1.0, values };
        let busy =
            [("reads", 4.0), ("read await", 5.0), ("queue", 0.0)].map(|(metric, v)| (column(metric), v));
        let samples = vec![sample(BTreeMap::new()), sample(busy.into())];
        let series = Series { name: "host".into(), samples, failed: None };
        let disk = server_disk(&series, "sda");
        assert_eq!((disk.read_ms, disk.queue, disk.reads_per_s), (5.0, 0.0, 4.0));
        assert!(disk.write_ms.is_nan() && disk.writes_per_s.is_nan(), "{disk:?}");
        assert!(server_disk(&series, "sdb").queue.is_nan());
        assert!(of_array(&series, "lu").read_iops.is_nan() && of_array(&series, "lu").write_kib.is_nan());
        let usage = |busy_ns| BTreeMap::from([("d0".to_owned(), Usage { busy_ns, ..Usage::default() })]);
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            worked(&names, &usage(3), &usage(10))
        };
        assert_eq!((of(&["d0"]), of(&["d0", "d1"])), (Some((7, 0)), None));
    }
}
