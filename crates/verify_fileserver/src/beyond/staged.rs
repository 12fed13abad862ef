//! Everything grows while clients work: what each stage took, and what they got meanwhile.

use super::super::figures::{PanelOf, axis, panels};
use super::super::model::Format;
use super::super::model::copies::{Spent, SpentBy};
use super::super::model::course::{Stage, StageSpan, Staged, StagedWindow};
use lab_core::claim::{Measure, Outcome};
use lab_core::report::{Column, Figure, Series, Span, Table, Value};
use lab_core::stats::{Estimate, ratio_of_means};

/// What is grown while the virtual disk is in use.
const ONLINE: [Stage; 3] = [Stage::GroupJoined, Stage::LuGrown, Stage::VolumeGrown];
/// From so many seconds after an expansion on nothing is refused.
const SETTLED_S: f64 = 2.0;
const GIB: f64 = (1_u64 << 30) as f64;

type Of = fn(&StagedWindow) -> f64;
const READS: Of = |w| w.load.read_mb_per_s;
const WRITES: Of = |w| w.load.write_mb_per_s;

/// Share of the seconds of some stages in which clients got something, in percent; none: a stage was not run.
fn served(staged: &Staged, stages: &[Stage], of: Of) -> Option<Estimate> {
    let seconds = staged.seconds(stages);
    let is_whole = stages.iter().all(|stage| staged.span(*stage).is_some()) && !seconds.is_empty();
    let with = seconds.iter().filter(|w| of(w) > 0.0).count() as f64;
    is_whole.then(|| Estimate::exact(100.0 * with / seconds.len() as f64))
}

/// How fast clients copied in some stages, in percent of the speed of the same files where nothing grows.
/// What they copy in a second says little: few files of hundreds of MB decide it.
fn speed(staged: &Staged, stages: &[Stage], of: fn(&SpentBy) -> Spent) -> Option<Estimate> {
    let seconds = staged.seconds(stages);
    let spent: Option<Vec<SpentBy>> = seconds.iter().map(|w| w.spent).collect();
    let is_whole = stages.iter().all(|stage| staged.span(*stage).is_some());
    let pairs: Vec<(f64, f64)> =
        spent.filter(|_| is_whole)?.iter().map(of).map(|spent| (spent.there_s, spent.here_s)).collect();
    ratio_of_means(&pairs).map(|times| times.scaled(100.0))
}

/// What was measured for its claims.
pub(in super::super) fn measures(staged: &Staged) -> Vec<Measure> {
    let at = |id: &str, value: Option<Estimate>| Measure::new(id, value).at(staged.format_name());
    let took = |stage: Stage| staged.span(stage).and_then(|span| span.took_s).map(Estimate::exact);
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / GIB);
    let done = |stage: Stage, value: f64| staged.span(stage).map(|_| Estimate::exact(value));
    // What clients have taken of the released blocks is in use, and does not come back.
    let came_back = staged.returned_bytes + staged.reused_bytes;
    let of_deleted = 100.0 * came_back as f64 / staged.deleted_bytes.max(1) as f64;
    let returned = format!(
        "{} of {} deleted, and {} that clients had taken again",
        gib(staged.returned_bytes),
        gib(staged.deleted_bytes),
        gib(staged.reused_bytes)
    );
    let expanded = staged.span(Stage::GroupJoined).map(|span| span.from_s + SETTLED_S);
    let after = expanded.map(|from| {
        staged.windows.iter().filter(|w| w.load.at_s - 1.0 > from).map(|w| w.load.refused).sum::<u64>()
    });
    vec![
        at("staged.seen", staged.seen_s.map(Estimate::exact)),
        at("staged.pause", took(Stage::DiskGrown)),
        at("staged.online.reads", served(staged, &ONLINE, READS)),
        at("staged.online.writes", served(staged, &ONLINE, WRITES)),
        at("staged.speed.reads", speed(staged, &ONLINE, |spent| spent.reading)),
        at("staged.speed.writes", speed(staged, &ONLINE, |spent| spent.writing)),
        at("staged.kept", done(Stage::Deleted, staged.shrunk_bytes as f64 / GIB)),
        at("staged.returned", done(Stage::Compacted, of_deleted)).note(returned),
        at("staged.compacting", took(Stage::Compacted)),
        Measure::new("staged.warned", before_refusal(staged, 0)).at(staged.format_name()),
        Measure::new("staged.critical", before_refusal(staged, 1)).at(staged.format_name()),
        at("staged.full.reads", served(staged, &[Stage::Full], READS)),
        at("staged.full.writes", served(staged, &[Stage::Full], WRITES)),
        at("staged.full.speed.reads", speed(staged, &[Stage::Full], |spent| spent.reading)),
        at("staged.full.speed.writes", speed(staged, &[Stage::Full], |spent| spent.writing)),
        at("staged.full.wrong", done(Stage::Full, staged.wrongly_refused as f64)),
        at("staged.after", after.map(|refused| Estimate::exact(refused as f64))),
    ]
}

/// Seconds from what a host hears of the n-th threshold to the first write that was refused.
fn before_refusal(staged: &Staged, threshold: usize) -> Outcome {
    match (staged.refused_s, staged.warned_s.get(threshold)) {
        (Some(refused), Some(heard)) => Estimate::exact(refused - heard).into(),
        (Some(_), None) => Outcome::Refuted("the pool refused writes and never warned".into()),
        (None, _) => Outcome::NotMeasured("the pool was not full before the end".into()),
    }
}

fn mean(seconds: &[&StagedWindow], of: Of) -> f64 {
    seconds.iter().map(|w| of(w)).sum::<f64>() / seconds.len().max(1) as f64
}

fn share(seconds: &[&StagedWindow], of: Of) -> f64 {
    100.0 * seconds.iter().filter(|w| of(w) > 0.0).count() as f64 / seconds.len().max(1) as f64
}

fn number(value: f64) -> Value {
    Value::Number((value * 100.0).round() / 100.0)
}

fn percent(value: Option<Estimate>) -> Value {
    value.map_or_else(|| Value::Text("–".into()), |e| number(e.mean))
}

/// Every stage, with what clients got in it.
pub(in super::super) fn table(all: &[Staged]) -> Table {
    Table {
        id: "stages".into(),
        title: "Every stage of growth: what it took, and what clients got meanwhile".into(),
        columns: vec![
            Column::text("virtual disk"),
            Column::number("number", ""),
            Column::text("stage"),
            Column::number("what is done takes", "s"),
            Column::number("stage lasts", "s"),
            Column::number("reads", "MB/s"),
            Column::number("writes", "MB/s"),
            Column::number("time with reads", "%"),
            Column::number("time with writes", "%"),
            Column::number("a read", "ms"),
            Column::number("speed of reads", "%"),
            Column::number("speed of writes", "%"),
            Column::number("copied besides", "MB/s"),
            Column::number("writes refused", ""),
            Column::number("acknowledged and lost", "MB"),
            Column::number("pool used", "%"),
        ],
        rows: all.iter().flat_map(|staged| staged.stages.iter().map(move |span| row(staged, span))).collect(),
    }
}

fn row(staged: &Staged, span: &StageSpan) -> Vec<Value> {
    let seconds = staged.seconds(&[span.stage]);
    let place = Stage::ALL.iter().position(|stage| *stage == span.stage).unwrap_or_default();
    let took =
        span.took_s.map_or_else(|| Value::Text("–".into()), |s| Value::Number((s * 1e4).round() / 1e4));
    vec![
        Value::Text(staged.format_name().into()),
        Value::Number(place as f64 + 1.0),
        Value::Text(span.stage.name().into()),
        took,
        number(span.to_s - span.from_s),
        number(mean(&seconds, READS)),
        number(mean(&seconds, WRITES)),
        number(share(&seconds, READS)),
        number(share(&seconds, WRITES)),
        number(mean(&seconds, |w| w.load.read_ms)),
        percent(speed(staged, &[span.stage], |spent| spent.reading)),
        percent(speed(staged, &[span.stage], |spent| spent.writing)),
        number(mean(&seconds, |w| w.copied_mb_per_s)),
        Value::Number(seconds.iter().map(|w| w.load.refused).sum::<u64>() as f64),
        number(seconds.iter().map(|w| w.load.lost_mb).sum()),
        number(100.0 * span.used_bytes as f64 / span.size_bytes.max(1) as f64),
    ]
}

/// The run, second by second.
pub(in super::super) fn figure(staged: &Staged) -> Figure {
    let of: [PanelOf<'_, StagedWindow>; 3] = [
        ("read", "Read by clients", ("reads", "MB/s"), READS),
        ("write", "Written by clients", ("writes", "MB/s"), WRITES),
        ("used", "The pool", ("used", "%"), |w| w.load.used_percent),
    ];
    let line = |(id, _, _, value): &PanelOf<'_, StagedWindow>| Series {
        name: "one server".into(),
        color: if staged.format == Format::Vhdx { "purple" } else { "orange" },
        points: staged.windows.iter().map(|w| vec![w.load.at_s, value(w)]).collect(),
        panel: Some((*id).into()),
    };
    let phase = |(place, span): (usize, &StageSpan)| Span {
        name: (place + 1).to_string(),
        from: span.from_s,
        to: span.to_s,
    };
    Figure {
        id: format!("staged_{}", if staged.format == Format::Vhdx { "vhdx" } else { "vhd" }),
        title: title(staged),
        subtitle: Some("One server, stage by stage; the numbers are those of the table".into()),
        kind: "timeline",
        x: axis("time", "s"),
        y: axis("", ""),
        series: of.iter().map(line).collect(),
        phases: staged.stages.iter().enumerate().map(phase).collect(),
        panels: panels(&of),
        ..Figure::default()
    }
}

fn title(staged: &Staged) -> String {
    let took = |stage| staged.span(stage).and_then(|span| span.took_s);
    match (took(Stage::DiskGrown), took(Stage::Compacted)) {
        (Some(grown), Some(compacted)) => {
            format!(
                "{}: growing it stops its server for {grown:.2} s, compacting it for {compacted:.0} s",
                staged.format_name()
            )
        }
        _ => "The run was stopped before everything had grown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::model::course::GrowthWindow;
    use super::*;

    fn window(at_s: f64, read_mb_per_s: f64, refused: u64) -> StagedWindow {
        let load = GrowthWindow {
            at_s,
            read_mb_per_s,
            write_mb_per_s: 10.0,
            read_ms: 1.0,
            used_percent: 50.0,
            refused,
            held_back: 0,
            lost_mb: 0.0,
            lost_files: 0,
        };
        // A file takes so much longer as clients read slower than 60 MB/s.
        let spent = |here_s: f64| Spent { here_s, there_s: here_s * read_mb_per_s / 60.0 };
        let spent = Some(SpentBy { reading: spent(12.0), writing: spent(4.0) });
        StagedWindow { load, copied_mb_per_s: 0.0, spent }
    }

    /// Two seconds of each stage, one after the other.
    fn staged(reads: impl Fn(Stage) -> [f64; 2]) -> Staged {
        let places = || Stage::ALL.iter().enumerate().map(|(n, stage)| (2.0 * n as f64, *stage));
        let span = |(from_s, stage)| StageSpan {
            stage,
            from_s,
            to_s: from_s + 2.0,
            took_s: Some(0.5),
            used_bytes: 1,
            size_bytes: 2,
        };
        let windows =
            |(from, stage)| [1, 2].map(|n| window(from + f64::from(n), reads(stage)[n as usize - 1], 0));
        Staged {
            format: Format::Vhdx,
            stages: places().map(span).collect(),
            windows: places().flat_map(windows).collect(),
            seen_s: Some(0.1),
            deleted_bytes: 100,
            shrunk_bytes: 0,
            compacted_bytes: 100,
            returned_bytes: 80,
            reused_bytes: 10,
            warned_s: vec![16.0, 17.0],
            refused_s: Some(18.0),
            wrongly_refused: 0,
        }
    }

    fn value(staged: &Staged, id: &str) -> Option<f64> {
        let all = measures(staged);
        match all.iter().find(|m| m.id() == id).expect("a measure").outcome() {
            Outcome::Estimate(e) => Some(e.mean),
            _ => None,
        }
    }

    #[test]
    fn a_stage_is_judged_by_its_own_seconds() {
        let own = staged(|stage| match stage {
            Stage::Full => [0.0, 30.0],
            Stage::LuGrown => [20.0, 40.0],
            _ => [60.0, 60.0],
        });
        assert_eq!(value(&own, "staged.full.reads"), Some(50.0));
        assert_eq!(value(&own, "staged.full.writes"), Some(100.0));
        assert_eq!(value(&own, "staged.full.speed.reads"), Some(25.0));
        assert_eq!(value(&own, "staged.online.reads"), Some(100.0));
        // 60, 60, 20, 40, 60 and 60 of 60.
        assert!((value(&own, "staged.speed.reads").expect("a speed") - 83.333).abs() < 0.01);
        assert_eq!((value(&own, "staged.returned"), value(&own, "staged.kept")), (Some(90.0), Some(0.0)));
        assert_eq!((value(&own, "staged.warned"), value(&own, "staged.critical")), (Some(2.0), Some(1.0)));
    }

    #[test]
    fn what_was_not_run_is_not_judged_and_a_pool_that_never_warned_is() {
        let mut own = staged(|_| [60.0, 60.0]);
        own.stages.retain(|span| span.stage != Stage::Full && span.stage != Stage::VolumeGrown);
        own.warned_s.truncate(1);
        let compared = own.windows.iter_mut().find(|w| w.load.at_s == 1.0).expect("a second");
        compared.spent = None;
        assert_eq!(speed(&own, &[Stage::AsMade], |spent| spent.reading), None, "not all of it is compared");
        for id in ["staged.full.reads", "staged.online.writes", "staged.speed.reads", "staged.full.wrong"] {
            assert_eq!(value(&own, id), None, "{id}");
        }
        assert!(matches!(before_refusal(&own, 1), Outcome::Refuted(_)));
        own.refused_s = None;
        assert!(matches!(before_refusal(&own, 1), Outcome::NotMeasured(_)));
    }

    #[test]
    fn writes_that_are_refused_after_an_expansion_are_counted_once_it_has_settled() {
        let mut own = staged(|_| [60.0, 60.0]);
        let expanded_s = own.span(Stage::GroupJoined).expect("a stage").from_s;
        own.windows.extend([3.0, 4.0].map(|after| window(expanded_s + after, 60.0, 5)));
        // The second that ends three seconds after it begins when it has settled; that is not counted yet.
        assert_eq!(value(&own, "staged.after"), Some(5.0));
    }
}
