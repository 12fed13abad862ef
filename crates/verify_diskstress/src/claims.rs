//! What was measured for the claims of the scenario.

use diskstress::Direction;
use lab_core::claim::Measure;
use lab_core::record::World;
use lab_core::stats::{self, Estimate};

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
    let (mut names, all): (Vec<String>, Vec<Estimate>) = all.unzip();
    let (which, far) = stats::farthest(&all, 1.0)?;
    Some((names.swap_remove(which), far))
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
    }
    for drive in run.drives().into_iter().skip(1) {
        let far = farthest_on(run, drive, Direction::Read).map(|(_, e)| percent(e));
        out.push(Measure::new("other_drive.reads", far).at(drive));
    }
    let native = run.over(&run.drive, "R4", speed).map(|over| over.share_of(100.0));
    out.extend([Measure::new("native", native), Measure::new("processor", points_more(run))]);
    for on in On::BOTH {
        out.push(Measure::new(&format!("rise.{}", on.name()), rise(run, &run.drive, on)));
        let others = run.drives().into_iter().skip(1);
        let id = format!("other_drive.{}", on.name());
        out.extend(others.map(|drive| Measure::new(&id, rise(run, drive, on)).at(drive)));
    }
    out.extend(of_lu(run));
    out
}

/// What the load on a LU of masu came to.
fn of_lu(run: &Run) -> Vec<Measure> {
    let far = |patterns: [&str; 2]| {
        let all: Option<Vec<Estimate>> = patterns.iter().map(|name| run.lu_over(name)).collect();
        let (which, far) = stats::farthest(&all?, 1.0)?;
        Some((patterns[which].to_owned(), far))
    };
    let over = |id, patterns| {
        let far = far(patterns);
        let measure = Measure::new(id, far.as_ref().map(|(_, e)| percent(*e)));
        measure.note(far.map(|(name, _)| format!("where it is farthest: {name}")))
    };
    let [to, from] = ["R4", "R1"].map(|name| run.lu_samples(name, |cost| cost.mb_per_s));
    let moved = |patterns: [&str; 2]| {
        let both = patterns.map(|name| run.lu_samples(name, |cost| cost.drive_percent));
        (!both[0].is_empty()).then(|| stats::mean(&both.concat()))
    };
    let kept = &run.kept;
    let counted = |of: u64, among: u64| (among > 0).then(|| Estimate::exact(of as f64));
    vec![
        over("lu.reads", ["R1", "R4"]),
        over("lu.writes", ["W1", "W4"]),
        Measure::new("lu.rise", stats::ratio(&to, &from)),
        Measure::new("lu.drive_reads", moved(["R1", "R4"])),
        Measure::new("lu.drive_writes", moved(["W1", "W4"])),
        Measure::new("lu.content", counted(kept.wrong, kept.compared)),
        Measure::new("lu.order", counted(kept.stale, kept.read_back)),
        Measure::new("lu.lost", counted(kept.lost, kept.compared)),
    ]
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
        (!more.is_empty()).then(|| stats::mean(&more))
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
