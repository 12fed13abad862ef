//! What was published, against what was measured.

use diskstress::Direction;

use super::results::{On, Run, names, processor, speed};
use crate::sanboot::claims::{Bound, Judged, judged};
use lab_core::stats::Estimate;

/// A difference that an engineer would act on. Published is "no material difference", without a number: this is our judgement.
const MATERIAL_PERCENT: f64 = 10.0;
/// Of writes, and of processor load in points of the machine's whole.
const EQUAL_PERCENT: f64 = 5.0;
/// The physical machine's rise from 64 files to 8: slight, but there.
const RISE: (f64, f64) = (1.05, 2.0);
/// The virtual machine's: none.
const FLAT: (f64, f64) = (0.97, 1.03);

/// Everything, most important first.
pub(super) fn judge(run: &Run, is_model: bool) -> Vec<Judged> {
    match is_model {
        true => model(run),
        false => real(run),
    }
}

/// Virtual over physical of the pattern in which they differ most.
pub(super) fn farthest(run: &Run, direction: Direction) -> Option<(String, Estimate)> {
    let all = names(direction).into_iter().filter_map(|name| {
        let over = run.over(&run.drive, &name, speed)?;
        Some((name, over))
    });
    all.max_by(|a, b| (a.1.mean - 1.0).abs().total_cmp(&(b.1.mean - 1.0).abs()))
}

fn percent(e: Estimate) -> Estimate {
    e.scaled(100.0)
}

fn model(run: &Run) -> Vec<Judged> {
    let mut out = vec![
        farthest_claim(run, Direction::Read, Some("no material difference"), MATERIAL_PERCENT),
        farthest_claim(run, Direction::Write, Some("equal"), EQUAL_PERCENT),
    ];
    out.extend(slopes(run));
    let mut load = judged(
        "Processor load, virtual less physical, at its most",
        "points",
        Some("no material difference"),
        Bound::AtMost(EQUAL_PERCENT),
        points_more(run),
        "processor",
    );
    load.note = Some("of the whole machine; what an I/O costs a processor is chosen".into());
    out.push(load);
    out.extend(other_drives(run));
    out
}

/// A direction, by the pattern in which the machines differ most.
fn farthest_claim(
    run: &Run,
    direction: Direction,
    published: Option<&'static str>,
    percent_max: f64,
) -> Judged {
    let far = farthest(run, direction);
    let name = match direction {
        Direction::Read => "Reads: virtual against physical",
        Direction::Write => "Writes: virtual against physical",
    };
    let bound = Bound::Within(100.0 - percent_max, 100.0 + percent_max);
    let mut claim = judged(name, "%", published, bound, far.as_ref().map(|(_, e)| percent(*e)), "speed");
    claim.note = far.map(|(name, _)| format!("where it is farthest: {name}"));
    claim
}

/// How speed goes with the number of files.
fn slopes(run: &Run) -> Vec<Judged> {
    let rise = |on| run.rise(&run.drive, ("R4", "R1"), on);
    let native = run.over(&run.drive, "R4", speed).map(|e| Estimate {
        mean: 100.0 / e.mean,
        low: 100.0 / e.high,
        high: 100.0 / e.low,
    });
    let within = |(low, high)| Bound::Within(low, high);
    vec![
        judged("R4 over R1, physical", "×", Some("rises slightly"), within(RISE), rise(On::Physical), "rise"),
        judged("R4 over R1, virtual", "×", Some("flat"), within(FLAT), rise(On::Virtual), "rise"),
        judged(
            "R4: physical against virtual",
            "%",
            Some("slightly faster"),
            Bound::Above(100.0),
            native,
            "speed",
        ),
    ]
}

/// The slope does not hang on the drive.
fn other_drives(run: &Run) -> Vec<Judged> {
    let mut out = Vec::new();
    for drive in run.drives().into_iter().skip(1) {
        for (on, bound) in [(On::Physical, RISE), (On::Virtual, FLAT)] {
            out.push(judged(
                &format!("R4 over R1, {}, with {drive}", on.name()),
                "×",
                None,
                Bound::Within(bound.0, bound.1),
                run.rise(drive, ("R4", "R1"), on),
                "rise",
            ));
        }
    }
    out
}

/// How many points of processor load a virtual machine adds, in the pattern where it adds most.
fn points_more(run: &Run) -> Option<Estimate> {
    let all = [Direction::Read, Direction::Write].into_iter().flat_map(names).filter_map(|name| {
        let [p, v] = On::BOTH.map(|on| run.samples(&run.drive, &name, on, processor));
        let more: Vec<f64> = v.iter().zip(&p).map(|(v, p)| v - p).collect();
        (!more.is_empty()).then(|| lab_core::stats::mean(&more))
    });
    all.max_by(|a, b| a.mean.total_cmp(&b.mean))
}

/// On this machine each pattern is a claim of its own. The bound is the published statement; whether this emulator keeps it is what is
/// measured.
fn real(run: &Run) -> Vec<Judged> {
    let mut out = vec![judged(
        "Blocks that are not what was written",
        "",
        None,
        Bound::AtMost(0.0),
        (run.repeats > 0).then(|| Estimate::exact(run.wrong as f64)),
        "",
    )];
    for direction in [Direction::Read, Direction::Write] {
        for name in names(direction) {
            out.push(judged(
                &format!("{name}: virtual against physical"),
                "%",
                Some(if direction == Direction::Read { "no material difference" } else { "equal" }),
                Bound::Within(100.0 - MATERIAL_PERCENT, 100.0 + MATERIAL_PERCENT),
                run.over("", &name, speed).map(percent),
                "speed",
            ));
        }
    }
    out
}
