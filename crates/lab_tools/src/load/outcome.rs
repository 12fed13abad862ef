//! What a load did, for a person and as JSON.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::job::{Job, Plan};
use super::lane::LaneOutcome;
use super::window::Late;
use lab_core::words::counted;

/// What a load did within its window. Its jobs follow one by one when there are several.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Outcome {
    pub target: String,
    /// Everything together.
    #[serde(flatten)]
    pub total: JobOutcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobOutcome>,
}

/// What a job did.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct JobOutcome {
    pub name: String,
    /// What was done, in words.
    pub load: String,
    /// Workers.
    pub connections: usize,
    /// Length of the window.
    pub seconds: f64,
    /// I/Os that ended.
    pub ios: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// I/Os that ended otherwise than well.
    pub failed: u64,
    /// Blocks of 4 KiB that were not as written.
    pub mismatches: u64,
    /// Of an open loop: I/Os that were due and that the target left no time to send.
    pub unsent: u64,
    /// I/Os that ended after the window, and are in none of these numbers.
    pub late: u64,
    /// Of these: I/Os that ended otherwise than well.
    pub late_failed: u64,
    /// The longest of these, in nanoseconds.
    pub late_ns_max: u64,
    /// I/Os per second.
    pub iops: f64,
    /// 10⁶ bytes per second.
    pub mb_per_s: f64,
    /// CPU time of the client per I/O, µs.
    pub client_cpu_us_per_io: f64,
    pub latency_ns: Latency,
}

/// Percentiles of the latency in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Latency {
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Latency {
    fn of(h: &Histogram<u64>) -> Latency {
        Latency {
            mean: if h.is_empty() { 0.0 } else { h.mean() },
            p50: h.value_at_quantile(0.5),
            p90: h.value_at_quantile(0.9),
            p99: h.value_at_quantile(0.99),
            p999: h.value_at_quantile(0.999),
            max: h.max(),
        }
    }
}

impl Outcome {
    /// Of all workers.
    pub(super) fn of(plan: &Plan, lanes: Vec<LaneOutcome>) -> Outcome {
        let all: Vec<&LaneOutcome> = lanes.iter().collect();
        let words = plan.jobs.iter().map(Job::words).collect::<Vec<_>>().join("; ");
        let name = plan.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>().join(", ");
        let total = JobOutcome::of(plan, (name, words), &all);
        let job = |(number, job): (usize, &Job)| {
            let own: Vec<&LaneOutcome> = lanes.iter().filter(|lane| lane.job == number).collect();
            JobOutcome::of(plan, (job.name.clone(), job.words()), &own)
        };
        let jobs = if plan.jobs.len() > 1 { plan.jobs.iter().enumerate().map(job).collect() } else { vec![] };
        Outcome { target: plan.target.clone(), total, jobs }
    }
}

impl JobOutcome {
    fn of(plan: &Plan, (name, load): (String, String), lanes: &[&LaneOutcome]) -> JobOutcome {
        let sum = |of: fn(&LaneOutcome) -> u64| lanes.iter().map(|lane| of(lane)).sum::<u64>();
        let mut histogram: Option<Histogram<u64>> = None;
        for lane in lanes {
            match &mut histogram {
                Some(all) => all.add(&lane.window.latency).expect("histograms with the same bounds"),
                None => histogram = Some(lane.window.latency.clone()),
            }
        }
        let late = lanes.iter().fold(Late::default(), |late, lane| late.and(lane.window.late));
        let (ios, bytes) = (sum(|l| l.window.ios), sum(|l| l.window.bytes));
        // The CPU clocks also ran during the warm-up, at the same rate.
        let share = plan.seconds / (plan.seconds + plan.warm_up_seconds);
        let cpu: Duration = lanes.iter().map(|lane| lane.cpu).sum();
        JobOutcome {
            name,
            load,
            connections: lanes.len(),
            seconds: plan.seconds,
            ios,
            bytes,
            failed: sum(|l| l.window.failed),
            mismatches: sum(|l| l.window.mismatches),
            unsent: sum(|l| l.window.unsent),
            late: late.ios,
            late_failed: late.failed,
            late_ns_max: late.longest_ns,
            iops: ios as f64 / plan.seconds,
            mb_per_s: bytes as f64 / plan.seconds / 1e6,
            client_cpu_us_per_io: if ios == 0 { 0.0 } else { cpu.as_secs_f64() * share * 1e6 / ios as f64 },
            latency_ns: histogram.map_or_else(Latency::default, |h| Latency::of(&h)),
        }
    }

    fn trouble(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.failed > 0 {
            out.push(format!("{} I/Os FAILED", self.failed));
        }
        if self.mismatches > 0 {
            out.push(format!("{} blocks of 4 KiB are NOT what was written", self.mismatches));
        }
        if self.unsent > 0 {
            out.push(format!(
                "the target cannot sustain the rate: {} I/Os were due and not sent ({:.1} per second)",
                self.unsent,
                self.unsent as f64 / self.seconds
            ));
        }
        out
    }

    /// What was under way at the end, in a line.
    fn late(&self) -> Option<String> {
        let failed = match self.late_failed {
            0 => String::new(),
            failed => format!("; {failed} of them FAILED"),
        };
        (self.late > 0).then(|| {
            let ios = counted(self.late as usize, "I/O");
            format!(
                "not counted: {ios} under way at the end, the longest took {} µs{failed}",
                us(self.late_ns_max as f64)
            )
        })
    }

    fn row(&self) -> String {
        let us = |ns: u64| us(ns as f64);
        let l = &self.latency_ns;
        format!(
            "{:<16.16} {:>10.0} {:>10.1} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            self.name,
            self.iops,
            self.mb_per_s,
            super::outcome::us(l.mean),
            us(l.p50),
            us(l.p90),
            us(l.p99),
            us(l.p999),
            us(l.max)
        )
    }
}

/// Microseconds with as many digits as say something.
fn us(ns: f64) -> String {
    let us = ns / 1e3;
    if us < 1000.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = &self.total;
        let several = !self.jobs.is_empty();
        for job in if several { &self.jobs[..] } else { std::slice::from_ref(total) } {
            writeln!(f, "{}: {}", job.name, job.load)?;
        }
        writeln!(f, "{} s against {}\n", total.seconds, self.target)?;
        writeln!(
            f,
            "{:<16} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "JOB", "IOPS", "MB/s", "mean µs", "50 %", "90 %", "99 %", "99.9 %", "max"
        )?;
        for job in &self.jobs {
            writeln!(f, "{}", job.row())?;
        }
        let total_row = JobOutcome { name: "all".into(), ..total.clone() };
        writeln!(f, "{}", if several { total_row.row() } else { total.row() })?;
        write!(f, "{:.2} µs of client CPU per I/O", total.client_cpu_us_per_io)?;
        for line in total.late().into_iter().chain(total.trouble()) {
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}
