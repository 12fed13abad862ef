//! What was measured for the claims of the scenario.

use diskstress::Direction;
use lab_core::claim::Measure;
use lab_core::record::World;
use lab_core::stats::Estimate;

use super::results::{On, Run, names, processor, speed};

/// Everything that the run tells.
pub(super) fn measures(run: &Run, world: World) -> Vec<Measure> {
    match world {
        World::Model => model(run),
        World::Real => real(run),
    }
}

/// Virtual over physical of the pattern in which they differ most, on the judged drive.
pub(super) fn farthest(run: &Run, direction: Direction) -> Option<(String, Estimate)> {
    farthest_on(run, &run.drive, direction)
}

fn farthest_on(run: &Run, drive: &str, direction: Direction) -> Option<(String, Estimate)> {
    let all = names(direction).into_iter().filter_map(|name| {
        let over = run.over(drive, &name, speed)?;
        Some((name, over))
    });
    farthest_of(all.collect())
}

/// The one whose mean is farthest from 1, with the interval in which the farthest of all lies. Any of them
/// may be it: one that surely differs is not hidden by one that may differ more, nor one that may by one
/// that surely does not.
fn farthest_of(all: Vec<(String, Estimate)>) -> Option<(String, Estimate)> {
    let off = |value: f64| (value - 1.0).abs();
    let nearest =
        |e: &Estimate| if e.low <= 1.0 && e.high >= 1.0 { 0.0 } else { off(e.low).min(off(e.high)) };
    let most = |of: &dyn Fn(&Estimate) -> f64| all.iter().map(|(_, e)| of(e)).fold(0.0, f64::max);
    let ends = [most(&nearest), most(&|e| off(e.low).max(off(e.high)))];
    let (name, Estimate { mean, .. }) = all.iter().max_by(|a, b| off(a.1.mean).total_cmp(&off(b.1.mean)))?;
    let [low, high] = if *mean < 1.0 { [1.0 - ends[1], 1.0 - ends[0]] } else { ends.map(|end| 1.0 + end) };
    Some((name.clone(), Estimate { mean: *mean, low, high }))
}

fn id(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "reads",
        Direction::Write => "writes",
    }
}

fn percent(e: Estimate) -> Estimate {
    e.scaled(100.0)
}

fn model(run: &Run) -> Vec<Measure> {
    let mut out = Vec::new();
    for direction in [Direction::Read, Direction::Write] {
        let far = farthest(run, direction);
        let measure = Measure::new(id(direction), far.as_ref().map(|(_, e)| percent(*e)));
        out.push(measure.note(far.map(|(name, _)| format!("where it is farthest: {name}"))));
        for drive in run.drives().into_iter().skip(1) {
            let far = farthest_on(run, drive, direction).map(|(_, e)| percent(e));
            out.push(Measure::new(&format!("other_drive.{}", id(direction)), far).at(drive));
        }
    }
    let native = run.over(&run.drive, "R4", speed).map(|e| Estimate {
        mean: 100.0 / e.mean,
        low: 100.0 / e.high,
        high: 100.0 / e.low,
    });
    out.extend([Measure::new("native", native), Measure::new("processor", points_more(run))]);
    for on in On::BOTH {
        out.push(Measure::new(&format!("rise.{}", on.name()), rise(run, &run.drive, on)));
        let others = run.drives().into_iter().skip(1);
        let id = format!("other_drive.{}", on.name());
        out.extend(others.map(|drive| Measure::new(&id, rise(run, drive, on)).at(drive)));
    }
    out
}

/// How speed goes with the number of files: from 64 to 8.
fn rise(run: &Run, drive: &str, on: On) -> Option<Estimate> {
    run.rise(drive, ("R4", "R1"), on)
}

/// How many points of processor load a virtual machine adds, in the pattern where it adds most.
fn points_more(run: &Run) -> Option<Estimate> {
    let all = [Direction::Read, Direction::Write].into_iter().flat_map(names).filter_map(|name| {
        let [p, v] = On::BOTH.map(|on| run.samples(&run.drive, &name, on, processor));
        let more: Vec<f64> = v.iter().zip(&p).map(|(v, p)| v - p).collect();
        (!more.is_empty()).then(|| lab_core::stats::mean(&more))
    });
    all.reduce(|a, b| Estimate { low: a.low.max(b.low), mean: a.mean.max(b.mean), high: a.high.max(b.high) })
}

/// On this machine each pattern is a claim of its own.
fn real(run: &Run) -> Vec<Measure> {
    let wrong = (run.repeats > 0).then(|| Estimate::exact(run.wrong as f64));
    let mut out = vec![Measure::new("content", wrong)];
    for direction in [Direction::Read, Direction::Write] {
        for name in names(direction) {
            out.push(Measure::new(id(direction), run.over("", &name, speed).map(percent)).at(&name));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use lab_core::bound::{Bound, Lies};

    use super::*;

    /// The pattern with the farthest mean alone was judged: a wider one beside it, and one that surely
    /// differs, were not.
    #[test]
    fn every_pattern_may_be_the_farthest() {
        let judge = |all: [(f64, f64); 2]| {
            let of =
                |(low, high): (f64, f64)| ("R1".to_owned(), Estimate { mean: (low + high) / 2.0, low, high });
            let (_, far) = farthest_of(all.map(of).into()).expect("two");
            Bound { upper: Bound::at_most(1.1).upper, ..Bound::at_least(0.9) }.lies(&far)
        };
        assert_eq!(judge([(0.92, 0.94), (0.98, 1.12)]), Some(Lies::Across), "the second may differ");
        assert_eq!(judge([(0.7, 1.04), (1.11, 1.13)]), Some(Lies::Beyond), "the second differs");
        assert_eq!(judge([(0.92, 0.94), (0.98, 1.08)]), Some(Lies::Within));
        let one = farthest_of(vec![("R1".into(), Estimate { mean: 1.2, ..lab_core::stats::mean(&[1.2]) })]);
        assert_eq!(one.map(|(_, e)| (e.mean, e.high)), Some((1.2, f64::INFINITY)), "no interval");
    }
}
