//! From samples to verdicts: what each check measures, and whether its bound holds.

use super::record::Record;
use crate::scenario::Bound;
use lab_core::stats::{Estimate, mean, ratio, saving_percent};

/// Everything that a check can ask for.
pub(crate) const MEASURES: [&str; 29] = [
    "zeroing.paper.time",
    "zeroing.paper.cpu",
    "zeroing.paper.packets",
    "zeroing.advertised.time",
    "zeroing.advertised.cpu",
    "zeroing.advertised.packets",
    "zeroing.drive_io",
    "copy.paper.time",
    "copy.paper.cpu",
    "copy.paper.packets",
    "copy.advertised.time",
    "copy.advertised.cpu",
    "copy.advertised.packets",
    "copy.drive_io",
    "between.paper.time",
    "between.paper.cpu",
    "between.paper.packets",
    "between.advertised.time",
    "between.advertised.cpu",
    "between.advertised.packets",
    "locking.saving",
    "locking.uncontended",
    "locking.owners",
    "thin.threshold",
    "thin.resumed",
    "thin.reclaimed",
    "content",
    "offload.zeroed",
    "offload.copied",
];

/// What became of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The whole interval keeps to the bound.
    Held,
    /// The whole interval is beyond it.
    NotHeld,
    /// The bound lies within the interval.
    Undecided,
    /// Nothing was measured, for a reason.
    NotJudged,
}

impl Verdict {
    /// In the words of the report.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::NotHeld => "not held",
            Verdict::Undecided => "no difference shown",
            Verdict::NotJudged => "not judged",
        }
    }
}

/// A check with its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) bound: Bound,
    pub(crate) estimate: Option<Estimate>,
    pub(crate) verdict: Verdict,
    /// Why nothing was measured.
    pub(crate) reason: Option<String>,
}

/// Things that are counted over a run and must not be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Blocks of 4 KiB that were read back and differ.
    pub(crate) blocks: u64,
    /// Locks with two owners, allocations made twice.
    pub(crate) owners: Vec<String>,
}

/// Judges every check.
pub(crate) fn judge(bounds: &[Bound], record: &Record, faults: &Faults) -> Vec<Judged> {
    bounds.iter().map(|bound| judge_one(bound, record, faults)).collect()
}

fn judge_one(bound: &Bound, record: &Record, faults: &Faults) -> Judged {
    let reason = record
        .not_judged
        .iter()
        .find(|(prefix, _)| bound.id.starts_with(**prefix))
        .map(|(_, why)| why.clone());
    let estimate = if reason.is_some() { None } else { measure(&bound.id, record, faults) };
    let verdict = match (&estimate, &reason) {
        (None, Some(_)) => Verdict::NotJudged,
        // Should have been measured and was not: the run was stopped, or the array never did it.
        (None, None) => {
            if record.repeats == 0 {
                Verdict::NotJudged
            } else {
                Verdict::NotHeld
            }
        }
        (Some(estimate), _) => verdict(bound, estimate),
    };
    let reason = reason.or_else(|| {
        (estimate.is_none()).then(|| {
            if record.repeats == 0 { "the run was stopped before".into() } else { "it never happened".into() }
        })
    });
    Judged { bound: bound.clone(), estimate, verdict, reason }
}

fn verdict(bound: &Bound, estimate: &Estimate) -> Verdict {
    // A single repeat has no interval: its value decides, and the report says so.
    let single = estimate.low.is_infinite();
    let (low, high) = if single { (estimate.mean, estimate.mean) } else { (estimate.low, estimate.high) };
    let (least, most) = (bound.at_least.unwrap_or(f64::NEG_INFINITY), bound.at_most.unwrap_or(f64::INFINITY));
    if low >= least && high <= most {
        Verdict::Held
    } else if high < least || low > most {
        Verdict::NotHeld
    } else {
        Verdict::Undecided
    }
}

/// The estimate behind an id of [`MEASURES`].
pub(crate) fn measure(id: &str, record: &Record, faults: &Faults) -> Option<Estimate> {
    let mut parts = id.split('.');
    let (test, second, third) = (parts.next()?, parts.next(), parts.next());
    match (test, second, third) {
        ("zeroing" | "copy" | "between", Some(way), Some(what)) => {
            let metric = match what {
                "time" => "time_s",
                "cpu" => "host_cpu_s",
                _ => "packets",
            };
            let (off, on) = record.paired(test, ["off", way], metric);
            saving_percent(&off, &on).map(at_most_all)
        }
        (_, Some("drive_io"), None) => {
            let (paper, advertised) = record.paired(test, ["paper", "advertised"], "drive_io_percent");
            let worst: Vec<f64> = paper.iter().zip(&advertised).map(|(a, b)| a.max(*b)).collect();
            (!worst.is_empty()).then(|| mean(&worst))
        }
        ("offload", Some("zeroed"), _) => share_offloaded(record, "zeroing", "zeroed_bytes"),
        ("offload", Some("copied"), _) => share_offloaded(record, "copy", "shared_bytes"),
        ("locking", Some("saving"), _) => {
            let (reserve, compare) = record.paired("locking", ["reserve", "compare"], "vm_time_mean_s");
            saving_percent(&reserve, &compare).map(at_most_all)
        }
        ("locking", Some("uncontended"), _) => {
            let (compare, alone) = record.paired("locking", ["compare", "alone"], "vm_time_mean_s");
            ratio(&compare, &alone)
        }
        ("locking", Some("owners"), _) => {
            (record.repeats > 0).then(|| Estimate::exact(faults.owners.len() as f64))
        }
        ("thin", Some(what), _) => {
            let metric = match what {
                "threshold" => "warned_percent",
                "resumed" => "resumed_percent",
                _ => "reclaimed_percent",
            };
            let values = record.series("thin", "on", metric);
            // A warning that came in some repeats only is none.
            (!values.is_empty() && values.len() == record.series("thin", "on", "warned").len())
                .then(|| mean(&values))
        }
        ("content", ..) => (record.repeats > 0).then(|| Estimate::exact(faults.blocks as f64)),
        _ => None,
    }
}

/// Nothing saves more than all: the interval ends there.
fn at_most_all(saved: Estimate) -> Estimate {
    Estimate { high: if saved.high.is_finite() { saved.high.min(100.0) } else { saved.high }, ..saved }
}

/// Of the bytes that an operation made, how many the array's counters say it zeroed or shared: the least of all repeats.
fn share_offloaded(record: &Record, test: &str, metric: &str) -> Option<Estimate> {
    let share = |way: &str| -> Vec<f64> {
        let (done, wanted) = (record.series(test, way, metric), record.series(test, way, "len_bytes"));
        done.iter().zip(&wanted).map(|(done, wanted)| 100.0 * done / wanted).collect()
    };
    let all: Vec<f64> = ["paper", "advertised"].iter().flat_map(|way| share(way)).collect();
    all.iter().copied().reduce(f64::min).map(Estimate::exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(id: &str, at_least: Option<f64>, at_most: Option<f64>) -> Bound {
        Bound { id: id.into(), name: id.into(), unit: "%".into(), published: None, at_least, at_most }
    }

    fn record(off: &[f64], on: &[f64]) -> Record {
        let mut record = Record { repeats: off.len(), ..Record::default() };
        for (i, (off, on)) in off.iter().zip(on).enumerate() {
            record.add("zeroing", "off", i + 1, "time_s", *off);
            record.add("zeroing", "paper", i + 1, "time_s", *on);
        }
        record
    }

    #[test]
    fn a_bound_must_hold_over_the_whole_interval() {
        let check = |on: &[f64]| {
            let judged = judge(
                &[bound("zeroing.paper.time", Some(95.0), None)],
                &record(&[10.0; 3], on),
                &Faults::default(),
            );
            judged[0].verdict
        };
        assert_eq!(check(&[0.1, 0.11, 0.1]), Verdict::Held);
        assert_eq!(check(&[0.1, 0.9, 0.3]), Verdict::Undecided);
        assert_eq!(check(&[2.0, 2.0, 2.1]), Verdict::NotHeld);
    }

    #[test]
    fn what_was_not_measured_does_not_hold_unless_there_is_a_reason() {
        let bounds = [bound("copy.paper.time", Some(95.0), None)];
        let mut record = record(&[1.0; 3], &[0.1; 3]);
        assert_eq!(judge(&bounds, &record, &Faults::default())[0].verdict, Verdict::NotHeld);
        record.not_judged.insert("copy", "the array has no EXTENDED COPY".into());
        let judged = judge(&bounds, &record, &Faults::default());
        assert_eq!(judged[0].verdict, Verdict::NotJudged);
        assert_eq!(judged[0].reason.as_deref(), Some("the array has no EXTENDED COPY"));
    }

    #[test]
    fn every_measure_is_known_to_the_record() {
        let mut full = Record { repeats: 1, ..Record::default() };
        for test in ["zeroing", "copy", "between"] {
            for mode in ["off", "paper", "advertised"] {
                for metric in [
                    "time_s",
                    "host_cpu_s",
                    "packets",
                    "drive_io_percent",
                    "zeroed_bytes",
                    "shared_bytes",
                    "len_bytes",
                ] {
                    full.add(test, mode, 1, metric, 1.0);
                }
            }
        }
        for mode in ["reserve", "compare", "alone"] {
            full.add("locking", mode, 1, "vm_time_mean_s", 1.0);
        }
        for metric in ["warned", "warned_percent", "resumed_percent", "reclaimed_percent"] {
            full.add("thin", "on", 1, metric, 1.0);
        }
        for id in MEASURES {
            assert!(measure(id, &full, &Faults::default()).is_some(), "{id}");
        }
    }
}
