//! What a run measured: samples by test, mode and repeat; and how bytes and packets went over time.

use std::collections::BTreeMap;

use lab_core::record::Metric;

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) test: &'static str,
    pub(crate) mode: &'static str,
    /// From 1.
    pub(crate) repeat: usize,
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
}

/// A host's counters at one moment of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tick {
    /// Since the operation began.
    pub(crate) at_s: f64,
    pub(crate) bytes: f64,
    pub(crate) packets: f64,
}

/// The ticks of one operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Course {
    pub(crate) test: &'static str,
    pub(crate) mode: &'static str,
    pub(crate) repeat: usize,
    pub(crate) ticks: Vec<Tick>,
}

/// One power-on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PoweredOn {
    pub(crate) mode: &'static str,
    pub(crate) repeat: usize,
    pub(crate) host: usize,
    pub(crate) vm: usize,
    pub(crate) time_s: f64,
}

/// A pool that fills: after each write of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Filled {
    pub(crate) repeat: usize,
    pub(crate) written_bytes: f64,
    pub(crate) used_percent: f64,
    pub(crate) event: Option<&'static str>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) samples: Vec<Sample>,
    pub(crate) courses: Vec<Course>,
    pub(crate) power_ons: Vec<PoweredOn>,
    pub(crate) filling: Vec<Filled>,
    /// Why something was not measured, by the beginning of the check's id.
    pub(crate) not_judged: BTreeMap<&'static str, String>,
    /// Repeats that ended.
    pub(crate) repeats: usize,
}

impl Record {
    /// Adds a value.
    pub(crate) fn add(
        &mut self,
        test: &'static str,
        mode: &'static str,
        repeat: usize,
        metric: &'static str,
        value: f64,
    ) {
        self.samples.push(Sample { test, mode, repeat, metric, value });
    }

    /// Adds what another one has of the same repeats.
    pub(crate) fn append(&mut self, other: Record) {
        self.samples.extend(other.samples);
        self.courses.extend(other.courses);
        self.power_ons.extend(other.power_ons);
        self.filling.extend(other.filling);
        self.not_judged.extend(other.not_judged);
    }

    /// The values of a metric, one per repeat, in order.
    pub(crate) fn series(&self, test: &str, mode: &str, metric: &str) -> Vec<f64> {
        let of = |s: &&Sample| s.test == test && s.mode == mode && s.metric == metric;
        self.samples.iter().filter(of).map(|s| s.value).collect()
    }

    /// The values of a metric of two modes, only of repeats that have both.
    pub(crate) fn paired(&self, test: &str, modes: [&str; 2], metric: &str) -> (Vec<f64>, Vec<f64>) {
        let by_repeat = |mode: &str| -> BTreeMap<usize, f64> {
            let of = |s: &&Sample| s.test == test && s.mode == mode && s.metric == metric;
            self.samples.iter().filter(of).map(|s| (s.repeat, s.value)).collect()
        };
        let (a, b) = (by_repeat(modes[0]), by_repeat(modes[1]));
        a.iter().filter_map(|(repeat, value)| Some((*value, *b.get(repeat)?))).unzip()
    }

    /// All samples, by what they measure.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let mut by_name = BTreeMap::<_, Vec<f64>>::new();
        for s in &self.samples {
            by_name.entry((s.test, s.mode, s.metric)).or_default().push(s.value);
        }
        let of = |((test, mode, metric), samples)| {
            Metric::new(metric, unit(metric), &[("test", test), ("mode", mode)], samples)
        };
        by_name.into_iter().map(of).collect()
    }

    /// Forgets what a repeat that did not end has left.
    pub(crate) fn drop_repeat(&mut self, repeat: usize) {
        self.samples.retain(|s| s.repeat != repeat);
        self.courses.retain(|c| c.repeat != repeat);
        self.power_ons.retain(|p| p.repeat != repeat);
        self.filling.retain(|f| f.repeat != repeat);
    }
}

/// The unit, as the end of its name has it.
fn unit(metric: &str) -> &'static str {
    match metric.rsplit('_').next() {
        Some("s") => "s",
        Some("bytes") => "bytes",
        Some("percent") => "%",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pairs_are_compared() {
        let mut record = Record::default();
        for (mode, repeat, value) in [("off", 1, 10.0), ("on", 1, 1.0), ("off", 2, 20.0), ("on", 3, 3.0)] {
            record.add("zeroing", mode, repeat, "time", value);
        }
        assert_eq!(record.paired("zeroing", ["off", "on"], "time"), (vec![10.0], vec![1.0]));
        record.drop_repeat(1);
        assert_eq!(record.series("zeroing", "off", "time"), [20.0]);
    }
}
