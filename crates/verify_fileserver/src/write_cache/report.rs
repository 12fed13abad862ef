//! What is claimed and shown of it.

use lab_core::claim::Measure;
use lab_core::report::{Axis, Column, Figure, Section, Series, Table, Value};
use lab_core::stats::Estimate;

use super::configuration::Configuration;
use super::cuts::Cut;
use super::losses::Losses;
use super::{Outcome, SHARES};

/// "0 of 250 cuts: …": what a count of none says of those that were not tried (the rule of three).
fn none_in(cuts: u64) -> String {
    let percent = 300.0 / cuts.max(1) as f64;
    format!("none in {cuts} cuts: in fewer than {percent:.1} % of all, with 95 % confidence")
}

fn count(losses: u64) -> Estimate {
    Estimate::exact(losses as f64)
}

/// What was measured for its claims.
pub(in super::super) fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    let mut out = Vec::new();
    for outcome in outcomes {
        let (name, all) = (outcome.configuration.name(), outcome.heeded());
        let note = match all.durable {
            0 => none_in(all.cuts),
            lost => format!("{lost} of {} files and pages in {} cuts", all.at_stake, all.cuts),
        };
        out.push(Measure::new("write_cache.durable", count(all.durable)).at(name).note(note));
        out.push(Measure::new("write_cache.wrong", count(all.wrong)).at(name));
    }
    let of =
        |os_cache, journal| outcomes.iter().find(|o| o.configuration == Configuration { os_cache, journal });
    if let Some(volatile) = of(true, false) {
        let both = volatile.sum(|cut| cut == Cut::Both);
        let note = format!(
            "{} files and pages in {} cuts of host and array: without them the comparison could not fail",
            both.written, both.cuts
        );
        out.push(Measure::new("write_cache.volatile", count(both.written)).note(note));
        let unheeded = volatile.sum(|cut| cut == Cut::ArrayUnheeded);
        let note = format!(
            "in {} resets of the array under a host that does not heed the unit attention and goes on",
            unheeded.cuts
        );
        out.push(Measure::new("write_cache.unheeded", count(unheeded.durable)).note(note));
    }
    if let Some(kept) = of(false, true) {
        let unheeded = kept.sum(|cut| cut == Cut::ArrayUnheeded);
        out.push(
            Measure::new("write_cache.reset", count(unheeded.durable))
                .note(format!("{} resets", unheeded.cuts)),
        );
    }
    out
}

fn per_cut(losses: Losses, lost: u64) -> f64 {
    lost as f64 / losses.cuts.max(1) as f64
}

fn bars(outcomes: &[Outcome], (name, color): (&str, &'static str), of: impl Fn(&Outcome) -> f64) -> Series {
    let points = outcomes.iter().enumerate().map(|(x, outcome)| vec![x as f64, of(outcome)]);
    Series { name: name.into(), color, points: points.collect(), panel: None }
}

fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.into(), unit: unit.into(), log: false }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The four configurations: what is lost, and what it costs.
pub(in super::super) fn figures(outcomes: &[Outcome]) -> Vec<Figure> {
    if outcomes.is_empty() {
        return vec![];
    }
    let categories = || outcomes.iter().map(|o| o.configuration.name().to_owned()).collect::<Vec<_>>();
    let lost: u64 = outcomes.iter().map(|o| o.heeded().durable).sum();
    let cuts: u64 = outcomes.iter().map(|o| o.heeded().cuts).sum();
    let written = |o: &Outcome| {
        let both = o.sum(|cut| cut == Cut::Both);
        per_cut(both, both.written)
    };
    let durable_writes = |o: &Outcome| mean(o.speeds.iter().map(|(_, writes)| *writes));
    let speeds: Vec<f64> = outcomes.iter().map(durable_writes).collect();
    let (least, most) = speeds.iter().fold((f64::MAX, 0.0_f64), |(a, b), s| (a.min(*s), b.max(*s)));
    vec![
        Figure {
            id: "write_cache_losses".into(),
            title: format!(
                "{cuts} power cuts took {lost} writes that were acknowledged as durable, and others"
            ),
            subtitle: Some(
                "files and pages per cut of host and array whose last acknowledged write was gone".into(),
            ),
            kind: "bars",
            x: axis("configuration", ""),
            y: axis("files and pages per cut", ""),
            categories: categories(),
            series: vec![
                bars(outcomes, ("acknowledged as durable", "vermillion"), |o| {
                    let all = o.heeded();
                    per_cut(all, all.durable)
                }),
                bars(outcomes, ("acknowledged by the disk only", "orange"), written),
                bars(outcomes, ("acknowledged from memory only", "blue"), |o| {
                    let both = o.sum(|cut| cut == Cut::Both);
                    per_cut(both, both.buffered)
                }),
            ],
            note: Some(
                "Eight workers write 64 files of 16 KiB and overwrite 64 pages of 4 KiB without a pause."
                    .into(),
            ),
            ..Figure::default()
        },
        Figure {
            id: "write_cache_speed".into(),
            title: format!("Durable writes per second: from {least:.0} to {most:.0}"),
            subtitle: Some("the same application without a cut, VHD and VHDX, virtual time".into()),
            kind: "bars",
            x: axis("configuration", ""),
            y: axis("durable writes per second", ""),
            categories: categories(),
            series: vec![bars(outcomes, ("acknowledged as durable", "green"), durable_writes)],
            ..Figure::default()
        },
    ]
}

/// Where it stands in the report.
pub(in super::super) fn section(outcomes: &[Outcome]) -> Section {
    let text = "Not in the published experiment. Two switches: the write cache that the server's system allows \
                its disk (WCE of the caching mode page), and the array's cache with a journal or without. An \
                application on a file system with a log, on a VHD or VHDX, on the array's own code, records what \
                it was told; then host, array or both lose their power, and what is there afterwards is compared \
                with it.";
    Section {
        id: "write_cache".into(),
        title: "What does a power cut take?".into(),
        text: Some(text.into()),
        figures: figures(outcomes).into_iter().map(|figure| figure.id).collect(),
        tables: vec!["write_cache".into()],
    }
}

/// Every kind of cut in every configuration.
pub(in super::super) fn table(outcomes: &[Outcome]) -> Table {
    let (text, number) = (Column::text, |name| Column::number(name, ""));
    let row = |outcome: &Outcome, cut: Cut| {
        let losses = outcome.sum(|other| other == cut);
        let counts = [
            losses.cuts,
            losses.at_stake,
            losses.durable,
            losses.written,
            losses.buffered,
            losses.cuts_with_loss,
            losses.wrong,
        ];
        let names = [outcome.configuration.name(), cut.name()].map(|name| Value::Text(name.into()));
        names.into_iter().chain(counts.map(|count| Value::Number(count as f64))).collect()
    };
    let kinds = SHARES.map(|(cut, _)| cut);
    Table {
        id: "write_cache".into(),
        title: "Power cuts: what was acknowledged, and gone".into(),
        columns: vec![
            text("configuration"),
            text("power lost by"),
            number("cuts"),
            number("durable files and pages"),
            number("durable, lost"),
            number("by the disk only, lost"),
            number("from memory only, lost"),
            number("cuts with such a loss"),
            number("wrong content"),
        ],
        rows: outcomes.iter().flat_map(|o| kinds.map(|cut| row(o, cut))).collect(),
    }
}
