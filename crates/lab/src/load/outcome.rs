//! What a load did, for a person and as JSON.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::Plan;

/// What a load did within its window.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The pattern's name.
    pub pattern: String,
    /// Bytes of one command.
    pub size_bytes: u64,
    /// Commands in flight per connection.
    pub depth: u16,
    /// Sessions.
    pub connections: usize,
    /// Length of the window.
    pub seconds: f64,
    /// Commands that ended.
    pub ios: u64,
    /// Of these, otherwise than with GOOD.
    pub failed: u64,
    /// Blocks of 4 KiB that were not as written.
    pub mismatches: u64,
    /// Commands per second.
    pub iops: f64,
    /// 10⁶ bytes per second.
    pub mb_per_s: f64,
    /// CPU time of the client per command, µs.
    pub client_cpu_us_per_io: f64,
    /// Latency.
    pub latency_ns: Latency,
    #[serde(skip)]
    histogram: Histogram<u64>,
    #[serde(skip)]
    cpu: Duration,
    #[serde(skip)]
    warm_up: f64,
}

/// Percentiles of the latency in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// Mean.
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

impl Outcome {
    pub(super) fn new(
        plan: &Plan,
        ios: u64,
        failed: u64,
        mismatches: u64,
        histogram: Histogram<u64>,
        cpu: Duration,
    ) -> Outcome {
        let pattern = plan.pattern.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
        let mut outcome = Outcome {
            pattern,
            size_bytes: plan.size,
            depth: plan.depth,
            connections: 1,
            seconds: plan.seconds,
            ios,
            failed,
            mismatches,
            iops: 0.0,
            mb_per_s: 0.0,
            client_cpu_us_per_io: 0.0,
            latency_ns: Latency::default(),
            histogram,
            cpu,
            warm_up: plan.warm_up_seconds,
        };
        outcome.derive();
        outcome
    }

    fn derive(&mut self) {
        let (ios, h) = (self.ios as f64, &self.histogram);
        self.iops = ios / self.seconds;
        self.mb_per_s = self.iops * self.size_bytes as f64 / 1e6;
        // The CPU clock also ran during the warm-up, at the same rate.
        let share = self.seconds / (self.seconds + self.warm_up);
        self.client_cpu_us_per_io =
            if self.ios == 0 { 0.0 } else { self.cpu.as_secs_f64() * share * 1e6 / ios };
        self.latency_ns = Latency {
            mean: if h.is_empty() { 0.0 } else { h.mean() },
            p50: h.value_at_quantile(0.5),
            p90: h.value_at_quantile(0.9),
            p99: h.value_at_quantile(0.99),
            p999: h.value_at_quantile(0.999),
            max: h.max(),
        };
    }

    /// Of two connections together.
    pub(super) fn plus(mut self, other: &Outcome) -> Outcome {
        self.connections += other.connections;
        self.ios += other.ios;
        self.failed += other.failed;
        self.mismatches += other.mismatches;
        self.cpu += other.cpu;
        self.histogram.add(&other.histogram).expect("histograms with the same bounds");
        self.derive();
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1e3;
        let l = &self.latency_ns;
        writeln!(
            f,
            "{} of {} bytes, depth {}, {} connection(s), {} s",
            self.pattern, self.size_bytes, self.depth, self.connections, self.seconds
        )?;
        writeln!(
            f,
            "{:.0} IOPS, {:.1} MB/s, {:.2} µs of client CPU per command",
            self.iops, self.mb_per_s, self.client_cpu_us_per_io
        )?;
        write!(
            f,
            "latency µs: mean {:.1}, 50 % {:.1}, 90 % {:.1}, 99 % {:.1}, 99.9 % {:.1}, max {:.1}",
            l.mean / 1e3,
            us(l.p50),
            us(l.p90),
            us(l.p99),
            us(l.p999),
            us(l.max)
        )?;
        if self.failed > 0 {
            write!(f, "\n{} commands FAILED", self.failed)?;
        }
        if self.mismatches > 0 {
            write!(f, "\n{} blocks of 4 KiB are NOT what was written", self.mismatches)?;
        }
        Ok(())
    }
}
