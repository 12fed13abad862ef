//! What was measured, pattern by pattern: physical and virtual.

use std::collections::BTreeMap;

use diskstress::{Direction, Pattern};

use super::lu::{Cost, Kept};
use lab_core::record::Metric;
use lab_core::stats::{self, Estimate};

/// Where the load ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum On {
    /// Natively.
    Physical,
    /// In a virtual machine.
    Virtual,
}

impl On {
    pub(super) const BOTH: [On; 2] = [On::Physical, On::Virtual];

    pub(super) fn name(self) -> &'static str {
        match self {
            On::Physical => "physical",
            On::Virtual => "virtual",
        }
    }
}

/// One pattern on one machine, once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) pattern: String,
    pub(super) on: On,
    /// Of the catalogue; of this machine "".
    pub(super) drive: String,
    pub(super) mb_per_s: f64,
    /// Of all processors of the machine.
    pub(super) processor_percent: f64,
}

/// Everything that was measured, repeat after repeat.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) measured: Vec<Measured>,
    /// The drive that is judged; of this machine "".
    pub(super) drive: String,
    pub(super) repeats: u32,
    /// Whether the run was stopped before its end.
    pub(super) stopped: bool,
    /// What a LU cost on the judged drive, repeat after repeat.
    pub(super) lu: Vec<Cost>,
    /// What it kept.
    pub(super) kept: Kept,
    /// Blocks that were not what was written.
    pub(super) wrong: u64,
}

/// Which number of a measurement.
pub(super) type Of = fn(&Measured) -> f64;

pub(super) fn speed(m: &Measured) -> f64 {
    m.mb_per_s
}

pub(super) fn processor(m: &Measured) -> f64 {
    m.processor_percent
}

/// Names of the patterns of a direction, 1 to 4.
pub(super) fn names(direction: Direction) -> Vec<String> {
    patterns(direction).into_iter().map(|p| p.name).collect()
}

/// The patterns of a direction.
pub(super) fn patterns(direction: Direction) -> Vec<Pattern> {
    diskstress::published().into_iter().filter(|p| p.direction == direction).collect()
}

impl Run {
    /// The samples of a pattern, repeat after repeat.
    pub(super) fn samples(&self, drive: &str, pattern: &str, on: On, of: Of) -> Vec<f64> {
        let own = self.measured.iter().filter(|m| m.pattern == pattern && m.on == on && m.drive == drive);
        own.map(of).collect()
    }

    /// The mean of a pattern on the judged drive.
    pub(super) fn mean(&self, pattern: &str, on: On, of: Of) -> Option<Estimate> {
        let samples = self.samples(&self.drive, pattern, on, of);
        (!samples.is_empty()).then(|| stats::mean(&samples))
    }

    /// Virtual over physical, of pairs.
    pub(super) fn over(&self, drive: &str, pattern: &str, of: Of) -> Option<Estimate> {
        let [physical, virtualized] = On::BOTH.map(|on| self.samples(drive, pattern, on, of));
        stats::ratio(&virtualized, &physical)
    }

    /// One pattern over another on the same machine, of pairs.
    pub(super) fn rise(&self, drive: &str, (to, from): (&str, &str), on: On) -> Option<Estimate> {
        let [to, from] = [to, from].map(|pattern| self.samples(drive, pattern, on, speed));
        stats::ratio(&to, &from)
    }

    /// The drives, the judged one first.
    pub(super) fn drives(&self) -> Vec<&str> {
        let mut drives: Vec<&str> = vec![&self.drive];
        for one in &self.measured {
            if !drives.contains(&one.drive.as_str()) {
                drives.push(&one.drive);
            }
        }
        drives
    }

    /// The samples of a pattern on a LU, repeat after repeat.
    pub(super) fn lu_samples(&self, pattern: &str, of: fn(&Cost) -> f64) -> Vec<f64> {
        self.lu.iter().filter(|cost| cost.pattern == pattern).map(of).collect()
    }

    /// A LU over the machine at the same place, of pairs.
    pub(super) fn lu_over(&self, pattern: &str) -> Option<Estimate> {
        stats::ratio(
            &self.lu_samples(pattern, |cost| cost.mb_per_s),
            &self.lu_samples(pattern, |cost| cost.physical_mb_per_s),
        )
    }

    /// What was measured, repeat after repeat.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut series = BTreeMap::<(&str, &str, &str), [Vec<f64>; 2]>::new();
        for m in &self.measured {
            let [speed, processor] = series.entry((&m.drive, &m.pattern, m.on.name())).or_default();
            speed.push(m.mb_per_s);
            processor.push(m.processor_percent);
        }
        let metrics = series.into_iter().flat_map(|((drive, pattern, machine), [speed, processor])| {
            let mut dimensions = vec![("pattern", pattern), ("machine", machine)];
            // The judged drive is the run's own: its names are the same in both worlds.
            dimensions.extend((drive != self.drive).then_some(("drive", drive)));
            [
                Metric::new("throughput", "MB/s", &dimensions, speed),
                Metric::new("processors", "%", &dimensions, processor),
            ]
        });
        let mut lu = BTreeMap::<&str, [Vec<f64>; 2]>::new();
        for cost in &self.lu {
            let [speed, drives] = lu.entry(&cost.pattern).or_default();
            speed.push(cost.mb_per_s);
            drives.push(cost.drive_percent);
        }
        let of_lu = lu.into_iter().flat_map(|(pattern, [speed, drives])| {
            [
                Metric::new("lu.throughput", "MB/s", &[("pattern", pattern)], speed),
                Metric::new("lu.drives", "% of what was asked", &[("pattern", pattern)], drives),
            ]
        });
        metrics.chain(of_lu).collect()
    }
}
