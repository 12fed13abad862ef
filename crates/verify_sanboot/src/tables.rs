//! The tables: what drives cost per server, what ends each pattern, how predictions held, the inputs.

use super::results::{Layout, Pattern, Source};
use super::summary::{SHARED, end_words};
use super::survey::{PUBLISHED_SERVERS, Survey, drives, layout_words, pattern_words};
use super::{boot, takeover};
use lab_core::report::{Column, Table, Value};

fn cell(value: &str) -> Value {
    Value::Text(value.into())
}

/// To so many digits after the point.
fn rounded(value: f64, digits: i32) -> Value {
    let by = 10f64.powi(digits);
    Value::Number((value * by).round() / by)
}

/// All tables.
pub(crate) fn tables(survey: &Survey<'_>) -> Vec<Table> {
    let results = survey.results;
    let (boots, takeovers) = (boot::table(results), takeover::table(results));
    vec![cost(survey), ends(survey), demands(survey), boots, takeovers, conditions(survey)]
}

/// The layouts have different numbers of drives: what a drive gives.
fn cost(survey: &Survey<'_>) -> Table {
    let mut rows = Vec::new();
    for pattern in Pattern::ALL {
        for layout in Layout::ALL {
            let Some(each) = survey.estimate(pattern, layout, PUBLISHED_SERVERS) else { continue };
            let Some(drives) = drives(layout, PUBLISHED_SERVERS).map(f64::from) else { continue };
            let servers = f64::from(PUBLISHED_SERVERS);
            rows.push(vec![
                cell(pattern_words(pattern)),
                cell(layout_words(layout)),
                Value::Number(drives),
                rounded(drives / servers, 2),
                rounded(each.mean, 0),
                rounded(each.mean * servers / drives, 0),
            ]);
        }
    }
    Table {
        id: "cost".into(),
        title: format!("What drives give with {PUBLISHED_SERVERS} servers"),
        columns: vec![
            Column::text("pattern"),
            Column::text("layout"),
            Column::number("drives", ""),
            Column::number("drives per server", ""),
            Column::number("per server", "I/O per second"),
            Column::number("per drive", "I/O per second"),
        ],
        rows,
    }
}

/// What ends each pattern.
fn ends(survey: &Survey<'_>) -> Table {
    let mut rows = Vec::new();
    for layout in SHARED {
        for one in survey.whole.iter().filter(|p| p.layout == layout) {
            let forecast = one.forecast.as_ref().ok();
            let used = forecast.and_then(|f| f.ends.as_ref()).map(|end| 100.0 * end.used);
            let errors = forecast.and_then(|f| f.validation.as_ref()).filter(|v| !v.points.is_empty());
            let worst = errors.map(|v| v.points.iter().map(|p| 100.0 * p.error().abs()).fold(0.0, f64::max));
            let maybe = |value: Option<f64>| value.map_or(cell("–"), |v| rounded(v, 1));
            rows.push(vec![
                cell(layout_words(layout)),
                cell(pattern_words(one.pattern)),
                cell(&end_words(one)),
                maybe(used),
                maybe(used.filter(|used| *used > 0.0).map(|used| 1e4 / used - 100.0)),
                maybe(worst),
            ]);
        }
    }
    Table {
        id: "ends".into(),
        title: format!("What ends it: predicted from 1 to {PUBLISHED_SERVERS} servers"),
        columns: vec![
            Column::text("layout"),
            Column::text("pattern"),
            Column::text("what ends it"),
            Column::number("used now", "%"),
            Column::number("headroom", "%"),
            Column::number("off in the validation", "%"),
        ],
        rows,
    }
}

/// What an I/O costs each resource.
fn demands(survey: &Survey<'_>) -> Table {
    let mut rows = Vec::new();
    for one in &survey.whole {
        for demand in one.forecast.iter().flat_map(|f| &f.demands) {
            let how = match (&demand.rejected, demand.with_share) {
                (Some(why), _) => why.as_str(),
                (None, true) => "follows each server's share of the cache",
                (None, false) => "a line",
            };
            rows.push(vec![
                cell(layout_words(one.layout)),
                cell(pattern_words(one.pattern)),
                cell(&demand.resource),
                rounded(demand.us.median, 1),
                cell(&format!("{:.1} to {:.1}", demand.us.low, demand.us.high)),
                rounded(100.0 * demand.utilisation, 1),
                cell(how),
            ]);
        }
    }
    Table {
        id: "demands".into(),
        title: "What an I/O costs".into(),
        columns: vec![
            Column::text("layout"),
            Column::text("pattern"),
            Column::text("resource"),
            Column::number("demand", "µs"),
            Column::text("5 % to 95 %"),
            Column::number("utilisation", "%"),
            Column::text("over the throughput"),
        ],
        rows,
    }
}

fn conditions(survey: &Survey<'_>) -> Table {
    let source = |source: Source| match source {
        Source::Published => "published",
        Source::Chosen => "chosen: not published",
        Source::Calibrated => "calibrated to a published value",
    };
    let rows =
        survey.results.conditions.iter().map(|c| vec![cell(&c.name), cell(&c.value), cell(source(c.source))]);
    Table {
        id: "conditions".into(),
        title: "The inputs".into(),
        columns: vec![Column::text("input"), Column::text("value"), Column::text("where it comes from")],
        rows: rows.collect(),
    }
}

/// The inputs of a kind, in words.
pub(crate) fn inputs(survey: &Survey<'_>, source: Source) -> Vec<String> {
    let of = survey.results.conditions.iter().filter(|c| c.source == source);
    of.map(|c| format!("{}: {}", c.name, c.value)).collect()
}

/// The layouts of a run.
pub(crate) fn layouts(survey: &Survey<'_>) -> Vec<Layout> {
    let is_run = |layout: &Layout| survey.results.points.iter().any(|p| p.layout == *layout);
    Layout::ALL.into_iter().filter(is_run).collect()
}
