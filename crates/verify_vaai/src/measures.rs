//! From samples to what is measured for each claim.

use super::record::Record;
use super::scenario::Vaai;
use lab_core::claim::{Measure, Outcome};
use lab_core::stats::{Estimate, mean, ratio, saving_percent};

/// Everything that a claim can ask for.
pub(crate) const MEASURES: [&str; 106] = [
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
    "copy.tokens.saved",
    "copy.tokens.cpu",
    "copy.tokens.packets",
    "between.tokens.saved",
    "between.tokens.cpu",
    "between.tokens.packets",
    "copy.tokens.time",
    "copy.thin_tokens.time",
    "between.tokens.time",
    "locking.saving",
    "locking.uncontended",
    "locking.owners",
    "thin.threshold",
    "thin.resumed",
    "thin.reclaimed",
    "content",
    "offload.zeroed",
    "offload.copied",
    "zeroing.off.time",
    "zeroing.off.cpu",
    "zeroing.off.sent",
    "zeroing.off.received",
    "copy.off.time",
    "copy.off.cpu",
    "copy.off.sent",
    "copy.off.received",
    "between.off.time",
    "between.off.cpu",
    "between.off.sent",
    "between.off.received",
    "zeroing.thick.time",
    "zeroing.thick.cpu",
    "zeroing.thick.packets",
    "copy.thick.time",
    "copy.thick.cpu",
    "copy.thick.packets",
    "between.thick.time",
    "between.thick.cpu",
    "between.thick.packets",
    "zeroing.thin.time",
    "zeroing.thin.saved",
    "copy.thin.time",
    "copy.thin.saved",
    "locking.reserve.mean",
    "locking.reserve.max",
    "locking.compare.max",
    "create.saved",
    "create.owners",
    "grow.saved",
    "grow.owners",
    "snapshot.saved",
    "snapshot.owners",
    "hand_over.saved",
    "hand_over.uncontended",
    "hand_over.owners",
    "consolidate.saved",
    "consolidate.uncontended",
    "consolidate.owners",
    "shut_down.saved",
    "shut_down.uncontended",
    "shut_down.owners",
    "bystander.response",
    "bystander.conflicts",
    "first.4k.thick",
    "first.4k.thin",
    "first.64k.thick",
    "first.64k.thin",
    "first.content",
    "zeroing.thin.drive_io",
    "copy.thin.drive_io",
    "deploy.thick",
    "deploy.thin",
    "deploy.content",
    "deploy.shared",
    "live.thick",
    "live.thin",
    "live.content",
    "live.gap",
    "live.response.thick",
    "live.response.thin",
    "space.returned",
    "space.time",
    "space.content",
    "space.response",
    "space.gap",
    "space.clone",
];

/// Blocks of 4 KiB that were read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadBack {
    /// And compared with what was written.
    pub(crate) compared: u64,
    /// Of these, those that differ.
    pub(crate) wrong: u64,
}

impl ReadBack {
    /// Those that differ; none where nothing was compared.
    fn wrong(self) -> Option<Estimate> {
        (self.compared > 0).then(|| Estimate::exact(self.wrong as f64))
    }
}

impl std::ops::AddAssign for ReadBack {
    fn add_assign(&mut self, other: ReadBack) {
        self.compared += other.compared;
        self.wrong += other.wrong;
    }
}

/// Things that are counted over a run and must not be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// What was read back.
    pub(crate) blocks: ReadBack,
    /// After which locks and allocations were looked at.
    pub(crate) power_ons: u64,
    /// Locks with two owners, allocations made twice.
    pub(crate) owners: Vec<String>,
    /// What was wrong after the other operations with locks.
    pub(crate) daily: Vec<String>,
}

/// What was measured for every claim.
pub(crate) fn measures(vaai: &Vaai, record: &Record, faults: &Faults) -> Vec<Measure> {
    MEASURES.iter().map(|id| Measure::new(id, outcome(id, record, faults)).note(note(id, vaai))).collect()
}

fn outcome(id: &str, record: &Record, faults: &Faults) -> Outcome {
    let not_judged = record.not_judged.iter().find(|(prefix, _)| id.starts_with(**prefix));
    match (not_judged, measure(id, record, faults)) {
        (Some((_, why)), _) => Outcome::NotMeasured(why.clone()),
        (None, Some(estimate)) => Outcome::Estimate(estimate),
        (None, None) if record.repeats == 0 => Outcome::NotMeasured("the run was stopped before".into()),
        (None, None) if id == "content" => Outcome::NotMeasured("no block was read back".into()),
        (None, None) if id == "locking.owners" => Outcome::NotMeasured("no VM was powered on".into()),
        // Should have been measured and was not: the array never did it.
        (None, None) => Outcome::Never("it never happened".into()),
    }
}

fn note(id: &str, vaai: &Vaai) -> Option<String> {
    Some(match id {
        "locking.saving" => format!(
            "{} hosts × {} VMs, mean over all VMs; COMPARE AND WRITE against RESERVE(6)",
            vaai.published.hosts, vaai.published.vms_per_host
        ),
        "locking.uncontended" => {
            format!("the same power-on of {} VMs by one host without contention", vaai.published.vms_per_host)
        }
        "thin.threshold" => format!("38h/07h; the threshold is {} %", vaai.thin.threshold_percent),
        "thin.resumed" => "27h/07h, then UNMAP of 16 MiB, then the same write again".into(),
        "content" => {
            format!("{} blocks after each operation, all blocks after the first", vaai.run.samples * 2)
        }
        "offload.zeroed" | "offload.copied" => "the array's own counters, least of all repeats".into(),
        _ => return None,
    })
}

/// The estimate behind an id of [`MEASURES`].
pub(crate) fn measure(id: &str, record: &Record, faults: &Faults) -> Option<Estimate> {
    let mut parts = id.split('.');
    let (test, second, third) = (parts.next()?, parts.next(), parts.next());
    let other = second.and_then(|second| daily(record, (test, second, third)));
    if other.is_some() {
        return other;
    }
    match (test, second, third) {
        ("zeroing" | "copy", Some("thin"), Some("drive_io")) => {
            let (paper, advertised) =
                record.paired(test, ["thin_paper", "thin_advertised"], "drive_io_percent");
            worst(&paper, &advertised)
        }
        ("zeroing" | "copy" | "between", Some("thin"), Some("saved")) => {
            let (off, on) = record.paired(test, ["off", "thin_paper"], "time_s");
            saving_percent(&off, &on).map(at_most_all)
        }
        ("copy" | "between", Some(mode @ ("tokens" | "thin_tokens")), Some("time")) => {
            only(record.series(test, mode, "time_s"))
        }
        ("zeroing" | "copy" | "between", Some(way @ ("off" | "thick" | "thin")), Some(what)) => {
            at_published_size(record, test, (way, what))
        }
        ("locking", Some(way @ ("reserve" | "compare")), Some(what)) => {
            let metric = if what == "mean" { "vm_time_mean_s" } else { "vm_time_max_s" };
            only(record.series("locking", way, metric))
        }
        ("zeroing" | "copy" | "between", Some(way), Some(what)) => {
            let metric = match what {
                "time" | "saved" => "time_s",
                "cpu" => "host_cpu_s",
                _ => "packets",
            };
            let (off, on) = record.paired(test, ["off", way], metric);
            saving_percent(&off, &on).map(at_most_all)
        }
        (_, Some("drive_io"), None) => {
            let (paper, advertised) = record.paired(test, ["paper", "advertised"], "drive_io_percent");
            worst(&paper, &advertised)
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
            (faults.power_ons > 0).then(|| Estimate::exact(faults.owners.len() as f64))
        }
        ("thin", Some(what), _) => of_thin_pool(record, what),
        ("content", ..) => faults.blocks.wrong(),
        _ => None,
    }
}

/// What an operation of the model took, in the units of the publication.
fn at_published_size(record: &Record, test: &str, (way, what): (&str, &str)) -> Option<Estimate> {
    let modes = [("off", "off"), ("thick", "paper"), ("thin", "thin_advertised")];
    let mode = modes.into_iter().find(|(of, _)| *of == way)?.1;
    let metric = match what {
        "time" => "time_s",
        "cpu" => "host_busy_percent",
        "sent" => "packets_out",
        "received" => "packets_in",
        _ => "packets",
    };
    only(record.series(test, mode, metric))
}

/// What a thin pool that fills told, and gave back.
fn of_thin_pool(record: &Record, what: &str) -> Option<Estimate> {
    let metric = match what {
        "threshold" => "warned_percent",
        "resumed" => "resumed_percent",
        _ => "reclaimed_percent",
    };
    let values = record.series("thin", "on", metric);
    // A warning that came in some repeats only is none.
    (!values.is_empty() && values.len() == record.series("thin", "on", "warned").len()).then(|| mean(&values))
}

/// The greater of each pair, on average.
fn worst(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let worst: Vec<f64> = a.iter().zip(b).map(|(a, b)| a.max(*b)).collect();
    (!worst.is_empty()).then(|| mean(&worst))
}

/// Tests after which blocks are read back.
pub(crate) const WRITTEN: [&str; 5] = ["first_4k", "first_64k", "deploy", "live", "space"];

/// Blocks that were wrong after a test, in whatever mode; none where nothing was compared.
pub(crate) fn total_wrong(record: &Record, test: &str) -> Option<f64> {
    let of = |metric: &str| -> f64 {
        let all = record.samples.iter().filter(|s| s.test == test && s.metric == metric);
        all.map(|s| s.value).sum()
    };
    (of("compared") > 0.0).then(|| of("wrong"))
}

/// The estimate of the other operations, in the model.
fn daily(record: &Record, (test, what, third): (&str, &str, Option<&str>)) -> Option<Estimate> {
    let value = |test: &str, mode: &str, metric: &str| only(record.series(test, mode, metric));
    let saved = |test: &str, modes: [&str; 2], metric: &str| {
        let (off, on) = record.paired(test, modes, metric);
        saving_percent(&off, &on).map(at_most_all)
    };
    let against = |test: &str, modes: [&str; 2], metric: &str| {
        let (a, b) = record.paired(test, modes, metric);
        ratio(&a, &b)
    };
    let (thick, thin) = (["off", "paper"], ["thin_off", "thin_paper"]);
    let modes = |space: &str| if space == "thick" { thick } else { thin };
    let to_idle = |test: &str, mode: &str| {
        ratio(&record.series(test, mode, "response_s"), &record.series(test, mode, "idle_response_s"))
    };
    match (test, what, third) {
        ("bystander", "response", _) => against("bystander", ["compare", "reserve"], "response_s"),
        ("bystander", "conflicts", _) => value("bystander", "compare", "reservation_conflicts"),
        ("first", "content", _) => {
            let wrong = [total_wrong(record, "first_4k")?, total_wrong(record, "first_64k")?];
            Some(Estimate::exact(wrong.iter().sum()))
        }
        ("first", bytes, Some(space)) => {
            let test = if bytes == "4k" { "first_4k" } else { "first_64k" };
            saved(test, modes(space), "time_s")
        }
        ("deploy" | "live" | "space", "content", _) => total_wrong(record, test).map(Estimate::exact),
        ("deploy", "shared", _) => value(test, "thin_paper", "taken_percent"),
        ("live", "gap", _) => {
            worst(&record.series(test, "paper", "slowest_s"), &record.series(test, "thin_paper", "slowest_s"))
        }
        ("live", "response", Some(space)) => {
            let [off, on] = modes(space);
            against(test, [on, off], "response_s")
        }
        ("deploy" | "live", space @ ("thick" | "thin"), None) => saved(test, modes(space), "time_s"),
        ("space", "time", _) => value(test, "unmap", "time_s"),
        ("space", "gap", _) => value(test, "unmap", "slowest_s"),
        ("space", "response", _) => to_idle(test, "unmap"),
        ("space", "returned", _) => value(test, "unmap", "returned_percent"),
        ("space", "clone", _) => value(test, "unmap", "clone_percent"),
        (_, "owners", None) if test != "locking" => {
            let all = ["reserve", "compare", "alone"].map(|mode| record.series(test, mode, "violations"));
            let all: Vec<f64> = all.concat();
            (!all.is_empty()).then(|| Estimate::exact(all.iter().sum()))
        }
        (_, "saved", None) if test != "copy" => saved(test, ["reserve", "compare"], "vm_time_mean_s"),
        (_, "uncontended", None) if test != "locking" => {
            against(test, ["compare", "alone"], "vm_time_mean_s")
        }
        _ => None,
    }
}

/// The value of a run that has one of each.
fn only(values: Vec<f64>) -> Option<Estimate> {
    (!values.is_empty()).then(|| mean(&values))
}

/// Nothing saves more than all: the interval ends there.
fn at_most_all(saved: Estimate) -> Estimate {
    Estimate { high: if saved.high.is_finite() { saved.high.min(100.0) } else { saved.high }, ..saved }
}

/// Of the bytes that an operation made, how many the array's counters say it zeroed or shared: the least of
/// all repeats.
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
    use lab_core::claim::{JudgedClaim, Kind};
    use lab_core::record::World;
    use lab_core::verdict::Verdict;

    use lab_core::scenario::ScenarioFile;

    use super::*;
    use crate::power_on::Operation;

    fn record(off: &[f64], on: &[f64]) -> Record {
        let mut record = Record { repeats: off.len(), ..Record::default() };
        for (i, (off, on)) in off.iter().zip(on).enumerate() {
            record.add("zeroing", "off", i + 1, "time_s", *off);
            record.add("zeroing", "paper", i + 1, "time_s", *on);
        }
        record
    }

    fn judged(record: &Record, id: &str) -> JudgedClaim {
        judged_with(record, &Faults::default(), id)
    }

    fn judged_with(record: &Record, faults: &Faults, id: &str) -> JudgedClaim {
        let (vaai, _) = Vaai::load(None).expect("built in");
        let measures = measures(&vaai, record, faults);
        let judged = vaai.claims.judge(World::Real, &measures, false);
        judged.into_iter().find(|claim| claim.id == id).expect("a claim")
    }

    #[test]
    fn a_bound_must_hold_over_the_whole_interval() {
        let check = |on: &[f64]| judged(&record(&[10.0; 3], on), "zeroing.paper.time").verdict;
        assert_eq!(check(&[0.1, 0.11, 0.1]), Verdict::Held);
        assert_eq!(check(&[0.1, 0.9, 0.3]), Verdict::Undecided);
        assert_eq!(check(&[2.0, 2.0, 2.1]), Verdict::NotHeld);
    }

    #[test]
    fn what_never_happened_does_not_hold_unless_there_is_a_reason() {
        let mut record = record(&[1.0; 3], &[0.1; 3]);
        assert_eq!(judged(&record, "copy.paper.time").verdict, Verdict::NotHeld);
        record.not_judged.insert("copy", "the array does not support EXTENDED COPY".into());
        let claim = judged(&record, "copy.paper.time");
        assert_eq!(claim.verdict, Verdict::NotJudged);
        assert_eq!(claim.reason.as_deref(), Some("the array does not support EXTENDED COPY"));
    }

    /// A LU without WRITE SAME, EXTENDED COPY and COMPARE AND WRITE leaves nothing to read back: a run of it
    /// once held its only promise.
    #[test]
    fn content_is_judged_only_where_blocks_were_compared() {
        let record = Record { repeats: 3, ..Record::default() };
        let with = |compared, wrong| {
            let faults = Faults { blocks: ReadBack { compared, wrong }, ..Faults::default() };
            let claim = judged_with(&record, &faults, "content");
            (claim.verdict, claim.estimate)
        };
        assert_eq!(with(0, 0), (Verdict::NotJudged, None));
        assert_eq!(with(512, 0), (Verdict::Held, Some(0.0)));
        assert_eq!(with(512, 1), (Verdict::NotHeld, Some(1.0)));
    }

    /// What the inputs decide by themselves could not have failed, and counted as if it had come out.
    #[test]
    fn what_is_arithmetic_of_the_inputs_follows() {
        let claims = Vaai::load(None).expect("built in").0.claims.judge(World::Model, &[], false);
        let kind = |id: &str| claims.iter().find(|claim| claim.id == id).expect("a claim").kind;
        // Bytes over segments; 34 s of the published 57 are the power-on without any other host, and of both
        // times of the ratio; offloaded commands are the size over the step.
        for id in [
            "zeroing.off.sent",
            "zeroing.off.received",
            "copy.off.received",
            "locking.compare.max",
            "locking.uncontended",
            "zeroing.thick.packets",
            "copy.thick.packets",
            "zeroing.thick.cpu",
            "copy.thick.cpu",
            "between.thick.cpu",
        ] {
            assert_eq!(kind(id), Kind::Follows, "{id}");
        }
    }

    #[test]
    fn every_measure_is_known_to_the_record() {
        let mut full = Record { repeats: 1, ..Record::default() };
        for test in ["zeroing", "copy", "between"] {
            for mode in
                ["off", "paper", "advertised", "tokens", "thin_paper", "thin_advertised", "thin_tokens"]
            {
                for metric in [
                    "host_busy_percent",
                    "packets_out",
                    "packets_in",
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
            full.add("locking", mode, 1, "vm_time_max_s", 1.0);
        }
        for metric in ["warned", "warned_percent", "resumed_percent", "reclaimed_percent"] {
            full.add("thin", "on", 1, metric, 1.0);
        }
        for operation in Operation::ALL {
            for mode in ["reserve", "compare", "alone"] {
                full.add(operation.name(), mode, 1, "vm_time_mean_s", 1.0);
                full.add(operation.name(), mode, 1, "violations", 0.0);
            }
        }
        let metrics = ["idle_response_s", "response_s", "slowest_s", "reservation_conflicts", "time_s"];
        let shares = ["taken_percent", "returned_percent", "clone_percent", "compared", "wrong"];
        for test in ["bystander", "first_4k", "first_64k", "deploy", "live", "space"] {
            for mode in ["compare", "reserve", "off", "paper", "thin_off", "thin_paper", "unmap"] {
                for metric in metrics.into_iter().chain(shares) {
                    full.add(test, mode, 1, metric, 1.0);
                }
            }
        }
        let blocks = ReadBack { compared: 1, wrong: 0 };
        let faults = Faults { blocks, power_ons: 1, ..Faults::default() };
        for id in MEASURES {
            assert!(measure(id, &full, &faults).is_some(), "{id}");
        }
    }
}
