//! What of the published experiment can be judged on other hardware: one kind of disk against the other, on the same one.

use super::super::claims::Judged;
use super::super::scenario::Fileserver;
use super::kind::{Format, Kind};
use super::measure::Run;
use crate::sanboot::claims::Bound;
use crate::vaai::Verdict;
use lab_core::stats::{Estimate, mean, ratio};

/// Users notice the storage above it, and I/Os only wait when there are more for each spindle: the thresholds of the analysis, of which a fifth is material.
const RESPONSE_MS_MAX: f64 = 50.0;
const QUEUE_PER_SPINDLE: f64 = 1.5;
const MATERIAL_SHARE: f64 = 0.2;
/// Of a share in percent: so many points.
const MATERIAL_POINTS: f64 = 5.0;

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

    pub(super) fn level(&self, of: impl Fn(&Run) -> f64) -> Option<Estimate> {
        let values = self.values(of);
        (!values.is_empty()).then(|| mean(&values))
    }

    /// Round by round: how much more of it these have than those.
    fn above(&self, other: &Rounds<'_>, of: Of) -> Option<Estimate> {
        let pairs: Vec<f64> = self.values(of).iter().zip(other.values(of)).map(|(a, b)| a - b).collect();
        (!pairs.is_empty()).then(|| mean(&pairs))
    }

    /// Round by round: how many percent less of it these have than those.
    pub(super) fn percent_below(&self, other: &Rounds<'_>, of: Of) -> Option<Estimate> {
        let over = ratio(&self.values(of), &other.values(of))?;
        let less = |value: f64| 100.0 * (1.0 - value);
        Some(Estimate { mean: less(over.mean), low: less(over.high), high: less(over.low) })
    }
}

fn judged(
    (name, unit): (&'static str, &'static str),
    published: &'static str,
    bound: Bound,
    estimate: Option<Estimate>,
    figure: &'static str,
) -> Judged {
    let verdict = bound.judge(estimate.as_ref());
    Judged { name, unit, published: Some(published.into()), bound, estimate, verdict, figure, note: None }
}

pub(super) fn array(of: fn(&super::measure::Array) -> f64) -> impl Fn(&Run) -> f64 {
    move |run| run.array.as_ref().map_or(0.0, of)
}

/// I/Os for each MB that the tool copied: a kind that is slower does fewer of them in a second, and not fewer of them.
pub(super) fn writes_per_mb(run: &Run) -> f64 {
    array(|a| a.write_iops)(run) / run.tool_mb_per_s.max(1e-9)
}

/// Everything, in the order of the published table.
pub(super) fn judge(scenario: &Fileserver, runs: &[Run]) -> Vec<Judged> {
    let of = |dynamic| Rounds::of(runs, &Kind { format: judged_format(runs), dynamic }.name());
    let (dynamic, fixed) = (of(true), of(false));
    let mut out = comparable(&dynamic, &fixed);
    out.extend(no_difference(scenario, &dynamic, &fixed));
    out.extend(absolute(scenario, &dynamic, &fixed));
    out
}

/// The published format, or the other where that one was run alone.
fn judged_format(runs: &[Run]) -> Format {
    let vhd = Kind { format: Format::Vhd, dynamic: true }.name();
    if runs.iter().any(|run| run.configuration == vhd) { Format::Vhd } else { Format::Vhdx }
}

/// What one kind has against the other, whatever the hardware.
fn comparable(dynamic: &Rounds<'_>, fixed: &Rounds<'_>) -> Vec<Judged> {
    let share = |of: fn(&super::measure::Array) -> (f64, f64)| {
        let percent = move |run: &Run| {
            let (writes, reads) = run.array.as_ref().map_or((0.0, 0.0), of);
            if reads > 0.0 { 100.0 * writes / reads } else { 0.0 }
        };
        fixed.level(percent)
    };
    let write_kib: Of = |run| run.array.as_ref().map_or(0.0, |a| a.write_kib);
    let mut more = judged(
        ("Array writes: dynamic more, for each MB copied", "%"),
        "15 IOPS higher at 6 % less",
        Bound::Above(0.0),
        dynamic.percent_below(fixed, writes_per_mb).map(|e| e.scaled(-1.0)),
        "writes",
    );
    more.note = Some("for each MB, because the published rates are those of other drives".into());
    let mut ios = judged(
        ("Writes against reads at the array, I/Os", "%"),
        "about a quarter",
        Bound::Within(15.0, 35.0),
        share(|a| (a.write_iops, a.read_iops)),
        "array",
    );
    ios.note = Some("how many I/Os a MB is depends on what the server's system merges, too".into());
    vec![
        judged(
            ("Throughput: dynamic below fixed", "%"),
            "about 6 %",
            Bound::Within(2.0, 12.0),
            dynamic.percent_below(fixed, |run| run.tool_mb_per_s),
            "throughput",
        ),
        more,
        judged(
            ("Array writes: dynamic smaller by", "%"),
            "smaller writes",
            Bound::Above(0.0),
            dynamic.percent_below(fixed, write_kib),
            "write_size",
        ),
        judged(
            ("Writes against reads at the array, bytes", "%"),
            "about a quarter",
            Bound::Within(15.0, 35.0),
            share(|a| (a.write_mb_per_s, a.read_mb_per_s)),
            "array",
        ),
        ios,
    ]
}

/// What is the same for both, but for less than is material.
fn no_difference(scenario: &Fileserver, dynamic: &Rounds<'_>, fixed: &Rounds<'_>) -> Vec<Judged> {
    let within = |by: f64| Bound::Within(-by, by);
    let none = "no material difference";
    let spindles = f64::from(scenario.array.drives_per_group);
    let response = |name, of: Of| {
        let [d, f] = [dynamic, fixed].map(|rounds| rounds.level(of).map_or(0.0, |e| e.mean));
        let bound = within(RESPONSE_MS_MAX * MATERIAL_SHARE);
        let mut claim = judged((name, "ms"), none, bound, dynamic.above(fixed, of), "response");
        claim.note = Some(format!(
            "{d:.1} against {f:.1} ms; material is a fifth of the {RESPONSE_MS_MAX} ms that users notice"
        ));
        claim
    };
    vec![
        response("Response of a read: dynamic above fixed", |run| {
            run.disk.as_ref().map_or(0.0, |d| d.read_ms)
        }),
        response("Response of a write: dynamic above fixed", |run| {
            run.disk.as_ref().map_or(0.0, |d| d.write_ms)
        }),
        judged(
            ("Queue of a server's disk: dynamic above fixed", "I/Os"),
            none,
            within(QUEUE_PER_SPINDLE * spindles * MATERIAL_SHARE),
            dynamic.above(fixed, |run| run.disk.as_ref().map_or(0.0, |d| d.queue)),
            "response",
        ),
        judged(
            ("Processors of this machine: dynamic above fixed", "points"),
            none,
            within(MATERIAL_POINTS),
            dynamic.above(fixed, |run| run.processors_percent),
            "busy",
        ),
    ]
}

/// What depends on the published controller, drives, network and number of servers: shown, and not judged.
fn absolute(scenario: &Fileserver, dynamic: &Rounds<'_>, fixed: &Rounds<'_>) -> Vec<Judged> {
    let below = |of: Of| dynamic.above(fixed, of).map(|e| e.scaled(-1.0));
    let p = &scenario.published;
    let shown = |name, published: String, estimate, figure| {
        let mut claim = judged(name, "", Bound::Above(0.0), estimate, figure);
        (claim.published, claim.verdict) = (Some(published), Verdict::NotJudged);
        claim.note = Some("of other hardware".into());
        claim
    };
    let text = |text: &str| text.to_owned();
    vec![
        shown(
            ("Throughput of a server, fixed", "MB/s"),
            format!("about {}", p.fixed_mb_per_s),
            fixed.level(|r| r.tool_mb_per_s),
            "throughput",
        ),
        shown(
            ("Throughput of a server, dynamic", "MB/s"),
            format!("about {}", p.dynamic_mb_per_s),
            dynamic.level(|r| r.tool_mb_per_s),
            "throughput",
        ),
        shown(
            ("Throughput: dynamic below fixed by", "MB/s"),
            text("3.5"),
            below(|r| r.tool_mb_per_s),
            "throughput",
        ),
        shown(
            ("Array reads: dynamic lower by", "MB/s"),
            text("3.4"),
            below(|r| array(|a| a.read_mb_per_s)(r)),
            "array",
        ),
        shown(
            ("Array reads: dynamic lower by", "IOPS"),
            text("33"),
            below(|r| array(|a| a.read_iops)(r)),
            "array",
        ),
        shown(
            ("Array writes: dynamic lower by", "MB/s"),
            text("0.7"),
            below(|r| array(|a| a.write_mb_per_s)(r)),
            "array",
        ),
        shown(("Controller", "%"), text("61"), fixed.level(array(|a| a.controller_percent)), "busy"),
        shown(("Write pending", "%"), text("11"), fixed.level(array(|a| a.pending_percent)), "busy"),
        shown(("Write hits", "%"), text("100"), fixed.level(array(|a| a.write_hit_percent)), "busy"),
        shown(("Drives of a group", "%"), text("41 to 44"), fixed.level(array(|a| a.drives_percent)), "busy"),
        shown(
            ("Commands in the drives of a group", ""),
            text("15"),
            fixed.level(array(|a| a.group_queue)),
            "busy",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Array, Disk};
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
        judge(&scenario, runs).iter().find(|j| j.name == name).expect("a claim").verdict
    }

    #[test]
    fn kinds_are_compared_round_by_round() {
        let published = runs(47.0, 48.0, 6.0);
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
        assert_eq!(verdict(&published, "Controller"), Verdict::NotJudged);
        let mut vhdx = published;
        vhdx.iter_mut().for_each(|run| run.configuration = run.configuration.replace("VHD", "VHDX"));
        assert_eq!(verdict(&vhdx, "Throughput: dynamic below fixed"), Verdict::Held, "VHDX alone");
    }
}
