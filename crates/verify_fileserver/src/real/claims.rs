//! What of the published experiment can be judged on other hardware: one kind of disk against the other, on
//! the same one.

use super::kind::{Format, Kind};
use super::measure::Run;
use lab_core::claim::Measure;
use lab_core::stats::{Estimate, mean, ratio};

type Of = fn(&Run) -> f64;

/// The runs of one kind, in the order of their rounds.
pub(super) struct Rounds<'a>(Vec<&'a Run>);

impl<'a> Rounds<'a> {
    pub(super) fn of(runs: &'a [Run], configuration: &str) -> Rounds<'a> {
        let mut own: Vec<&Run> = runs.iter().filter(|run| run.configuration == configuration).collect();
        own.sort_by_key(|run| run.round);
        Rounds(own)
    }

    pub(super) fn values(&self, of: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.0.iter().map(|run| of(run)).collect()
    }

    /// The same, if every round has it.
    fn known(&self, of: impl Fn(&Run) -> f64) -> Option<Vec<f64>> {
        let values = self.values(of);
        (!values.iter().any(|value| value.is_nan())).then_some(values)
    }

    pub(super) fn level(&self, of: impl Fn(&Run) -> f64) -> Option<Estimate> {
        let values = self.known(of)?;
        (!values.is_empty()).then(|| mean(&values))
    }

    /// Round by round: how much more of it these have than those.
    fn above(&self, other: &Rounds<'_>, of: Of) -> Option<Estimate> {
        let pairs: Vec<f64> = self.known(of)?.iter().zip(other.known(of)?).map(|(a, b)| a - b).collect();
        (!pairs.is_empty()).then(|| mean(&pairs))
    }

    /// Round by round: how many percent less of it these have than those.
    pub(super) fn percent_below(&self, other: &Rounds<'_>, of: Of) -> Option<Estimate> {
        let over = ratio(&self.known(of)?, &other.known(of)?)?;
        let less = |value: f64| 100.0 * (1.0 - value);
        Some(Estimate { mean: less(over.mean), low: less(over.high), high: less(over.low) })
    }
}

pub(super) fn array(of: fn(&super::measure::Array) -> f64) -> impl Fn(&Run) -> f64 {
    move |run| run.array.as_ref().map_or(f64::NAN, of)
}

/// I/Os for each MB that the tool copied: a kind that is slower does fewer of them in a second, and not fewer
/// of them.
pub(super) fn writes_per_mb(run: &Run) -> f64 {
    array(|a| a.write_iops)(run) / run.tool_mb_per_s.max(1e-9)
}

/// Everything that the run tells.
pub(super) fn measures(runs: &[Run]) -> Vec<Measure> {
    let of = |dynamic| Rounds::of(runs, &Kind { format: judged_format(runs), dynamic }.name());
    let (dynamic, fixed) = (of(true), of(false));
    let mut out = comparable(&dynamic, &fixed);
    out.extend(alike(&dynamic, &fixed));
    out.extend(absolute(&dynamic, &fixed));
    out
}

/// The published format, or the other where that one was run alone.
fn judged_format(runs: &[Run]) -> Format {
    let vhd = Kind { format: Format::Vhd, dynamic: true }.name();
    if runs.iter().any(|run| run.configuration == vhd) { Format::Vhd } else { Format::Vhdx }
}

/// What one kind has against the other, whatever the hardware.
fn comparable(dynamic: &Rounds<'_>, fixed: &Rounds<'_>) -> Vec<Measure> {
    let share = |of: fn(&super::measure::Array) -> (f64, f64)| {
        let percent = move |run: &Run| {
            let (writes, reads) = run.array.as_ref().map_or((f64::NAN, f64::NAN), of);
            if reads > 0.0 { 100.0 * writes / reads } else { f64::NAN }
        };
        fixed.level(percent)
    };
    let write_kib: Of = |run| run.array.as_ref().map_or(f64::NAN, |a| a.write_kib);
    let more = dynamic.percent_below(fixed, writes_per_mb).map(|e| e.scaled(-1.0));
    vec![
        Measure::new("throughput.below", dynamic.percent_below(fixed, |run| run.tool_mb_per_s)),
        Measure::new("writes.more", more),
        Measure::new("writes.smaller", dynamic.percent_below(fixed, write_kib)),
        Measure::new("quarter.bytes", share(|a| (a.write_mb_per_s, a.read_mb_per_s))),
        Measure::new("quarter.ios", share(|a| (a.write_iops, a.read_iops))),
    ]
}

/// What is alike, to a fifth of what the fixed disk has, as in the model.
fn alike(dynamic: &Rounds<'_>, fixed: &Rounds<'_>) -> Vec<Measure> {
    let than = |id, unit: &str, of: Of| {
        let measure = Measure::new(id, dynamic.percent_below(fixed, of).map(|e| e.scaled(-1.0)));
        match (dynamic.level(of), fixed.level(of)) {
            (Some(a), Some(b)) => measure.note(format!("{:.1} against {:.1} {unit}", a.mean, b.mean)),
            _ => measure,
        }
    };
    vec![
        than("same.read", "ms", |run| run.disk.as_ref().map_or(f64::NAN, |d| d.read_ms)),
        than("same.write", "ms", |run| run.disk.as_ref().map_or(f64::NAN, |d| d.write_ms)),
        than("same.queue", "I/Os", |run| run.disk.as_ref().map_or(f64::NAN, |d| d.queue)),
        Measure::new("same.processors", dynamic.above(fixed, |run| run.processors_percent)),
    ]
}

/// What depends on the published controller, drives, network and number of servers: shown, and not judged.
fn absolute(dynamic: &Rounds<'_>, fixed: &Rounds<'_>) -> Vec<Measure> {
    let below = |of: Of| dynamic.above(fixed, of).map(|e| e.scaled(-1.0));
    vec![
        Measure::new("throughput.fixed", fixed.level(|r| r.tool_mb_per_s)),
        Measure::new("throughput.dynamic", dynamic.level(|r| r.tool_mb_per_s)),
        Measure::new("throughput.less", below(|r| r.tool_mb_per_s)),
        Measure::new("array.reads.mb", below(|r| array(|a| a.read_mb_per_s)(r))),
        Measure::new("array.reads.iops", below(|r| array(|a| a.read_iops)(r))),
        Measure::new("array.writes.mb", below(|r| array(|a| a.write_mb_per_s)(r))),
        Measure::new("controller", fixed.level(array(|a| a.controller_percent))),
        Measure::new("pending", fixed.level(array(|a| a.pending_percent))),
        Measure::new("hits", fixed.level(array(|a| a.write_hit_percent))),
        Measure::new("drives", fixed.level(array(|a| a.drives_percent))),
        Measure::new("queued", fixed.level(array(|a| a.group_queue))),
    ]
}

#[cfg(test)]
mod tests {
    use lab_core::record::World;
    use lab_core::verdict::Verdict;

    use super::super::super::scenario::Fileserver;
    use super::super::measure::{Array, Disk};
    use lab_core::scenario::ScenarioFile;

    use super::*;

    /// Rounds that differ among each other more than the kinds do in one.
    fn runs(dynamic_mb: f64, dynamic_kib: f64, read_ms: f64) -> Vec<Run> {
        let run = |round: u32, dynamic: bool| {
            let machine = 1.0 + 0.3 * f64::from(round % 3);
            let (mb, kib) = if dynamic { (dynamic_mb, dynamic_kib) } else { (50.0, 64.0) };
            let writes = 12.0 * mb / 50.0 * machine;
            Run {
                configuration: Kind { format: Format::Vhd, dynamic }.name(),
                round,
                tool_mb_per_s: mb * machine * (1.0 + 0.001 * f64::from(round)),
                disk: Some(Disk {
                    read_ms: if dynamic { read_ms } else { 5.0 },
                    write_ms: 3.0,
                    ..Disk::default()
                }),
                array: Some(Array {
                    read_mb_per_s: 45.0 * machine,
                    read_iops: 700.0 * machine,
                    write_mb_per_s: writes,
                    write_iops: writes * 1e6 / 1024.0 / kib,
                    write_kib: kib,
                    ..Array::default()
                }),
                ..Run::default()
            }
        };
        (0..6).flat_map(|round| [run(round, true), run(round, false)]).collect()
    }

    fn verdict(runs: &[Run], name: &str) -> Verdict {
        let (scenario, _) = Fileserver::load(None).expect("built in");
        let judged = scenario.claims.judge(World::Real, &measures(runs), false);
        judged.iter().find(|claim| claim.name == name).expect("a claim").verdict
    }

    #[test]
    fn kinds_are_compared_round_by_round() {
        let published = runs(47.0, 48.0, 5.5);
        for name in [
            "Throughput: dynamic below fixed",
            "Array writes: dynamic more, for each MB copied",
            "Array writes: dynamic smaller by",
            "Writes against reads at the array, bytes",
            "Response of a read: dynamic above fixed",
        ] {
            assert_eq!(verdict(&published, name), Verdict::Held, "{name}");
        }
        assert_eq!(verdict(&runs(30.0, 64.0, 6.0), "Throughput: dynamic below fixed"), Verdict::NotHeld);
        assert_eq!(verdict(&runs(47.0, 80.0, 6.0), "Array writes: dynamic smaller by"), Verdict::NotHeld);
        assert_eq!(
            verdict(&runs(47.0, 48.0, 30.0), "Response of a read: dynamic above fixed"),
            Verdict::NotHeld
        );
        // A fifth of 5 ms is 1 ms: 6 ms is at the bound, and 7 ms were within one of 10 ms.
        let slower = runs(47.0, 48.0, 7.0);
        assert_eq!(verdict(&slower, "Response of a read: dynamic above fixed"), Verdict::NotHeld);
        assert_eq!(verdict(&published, "Controller"), Verdict::NotJudged);
        // A round without a counter was one in which it was nothing.
        let mut without = runs(47.0, 48.0, 5.5);
        without[2].disk = None;
        without[4].array.as_mut().expect("an array").write_kib = f64::NAN;
        for name in ["Response of a read: dynamic above fixed", "Array writes: dynamic smaller by"] {
            assert_eq!(verdict(&without, name), Verdict::NotJudged, "{name}");
        }
        let mut vhdx = published;
        vhdx.iter_mut().for_each(|run| run.configuration = run.configuration.replace("VHD", "VHDX"));
        assert_eq!(verdict(&vhdx, "Throughput: dynamic below fixed"), Verdict::Held, "VHDX alone");
    }
}
