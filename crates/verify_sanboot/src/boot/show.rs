//! The figure and the table of boot storms.

use lab_core::report::{Axis, Column, Figure, Panel, Series, Table, Value};
use lab_core::stats::{self, Estimate};

use super::survey::{Place, last_s, median_s};
use crate::results::{Form, Layout, Results, Storm};
use crate::survey::layout_words;

const LAYOUTS: [Layout; 2] = [Layout::Raid1x8, Layout::Raid5x4];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Time until the last server runs, and until half of them do, over the number of servers.
pub(crate) fn figure(results: &Results) -> Option<Figure> {
    let places = Place::all(results);
    let axis = |label: &str, unit: &str, log| Axis { label: label.into(), unit: unit.into(), log };
    let (mut series, mut panels) = (Vec::new(), Vec::new());
    for layout in LAYOUTS.into_iter().filter(|layout| places.iter().any(|place| place.layout == *layout)) {
        panels.push(Panel {
            id: layout.name().into(),
            title: layout_words(layout).into(),
            y: Some(axis("until they run", "s", false)),
        });
        for (form, what, color, of) in [
            (Form::Copies, "copies, the median", "grey", median_s as fn(&Storm) -> f64),
            (Form::Copies, "copies, the last", "orange", last_s),
            (Form::Clones, "clones, the last", "blue", last_s),
            (Form::LargePageClones, "clones of large pages, the last", "green", last_s),
        ] {
            let own = places.iter().filter(|place| (place.layout, place.form) == (layout, form));
            let point = |place: &Place| match &place.values(results, of)[..] {
                [one] => vec![f64::from(place.servers), *one],
                all => {
                    let Estimate { mean, low, high } = stats::mean(all);
                    vec![f64::from(place.servers), mean, low.max(0.0), high]
                }
            };
            series.push(Series {
                name: what.into(),
                color,
                points: own.map(point).collect(),
                panel: Some(layout.name().into()),
            });
        }
    }
    (!panels.is_empty()).then(|| Figure {
        id: "boot".into(),
        title: title(results, &places),
        subtitle: Some("Servers that are switched on at once, each with the boot of a recorded guest; seconds from power-on until its system runs".into()),
        kind: "lines",
        x: axis("servers", "", true),
        y: axis("until they run", "s", false),
        series,
        panels,
        note: Some("Copies: a volume with the image for each server. Clones: of one golden image in each pool, whose pages they share: a first write to a shared page copies the page, 1 MiB unless declared otherwise, 16 MiB of large pages.".into()),
        ..Figure::default()
    })
}

/// "64 servers switched on at once: the last runs after 18 s from copies, …, one alone after 12 s".
fn title(results: &Results, places: &[Place]) -> String {
    let most = places.iter().map(|place| place.servers).max().unwrap_or(0);
    let last = |form: Form, servers: u32| {
        let own = places.iter().filter(|place| (place.form, place.servers) == (form, servers));
        own.map(|place| mean(&place.values(results, last_s))).reduce(f64::max)
    };
    let [copies, clones, large] = Form::ALL.map(|form| last(form, most).unwrap_or(0.0));
    let alone = last(Form::Copies, 1);
    let alone = alone.map_or(String::new(), |alone| format!(", one alone after {alone:.1} s"));
    format!(
        "{most} servers switched on at once: the last runs after {copies:.1} s from copies, {clones:.1} s \
         from clones and {large:.1} s from clones of large pages{alone}"
    )
}

/// What each storm took, and of what.
pub(crate) fn table(results: &Results) -> Table {
    let (text, number) = (Column::text, Column::number);
    let row = |place: Place| {
        let rounded = |value: f64, by: f64| Value::Number((value * by).round() / by);
        let of = |of: &dyn Fn(&Storm) -> f64, by: f64| rounded(mean(&place.values(results, of)), by);
        let mb = |bytes: u64| bytes as f64 / 1e6;
        vec![
            Value::Text(layout_words(place.layout).into()),
            Value::Text(place.form.words().into()),
            Value::Number(f64::from(place.servers)),
            of(&median_s, 10.0),
            of(&last_s, 10.0),
            of(&|s| 100.0 * s.port_busy, 1.0),
            of(&|s| 100.0 * s.controller_busy, 1.0),
            of(&|s| 100.0 * s.drive_busy, 1.0),
            of(&|s| mb(s.read_bytes), 1.0),
            of(&|s| mb(s.drive_read_bytes), 1.0),
            of(&|s| mb(s.drive_write_bytes), 1.0),
            of(&|s| s.commands as f64 / s.drive_reads.max(1) as f64, 100.0),
        ]
    };
    Table {
        id: "boot".into(),
        title: "Boot storms".into(),
        columns: vec![
            text("layout"),
            text("system disks"),
            number("servers", ""),
            number("the median runs", "s"),
            number("the last runs", "s"),
            number("port", "%"),
            number("controller", "%"),
            number("drives", "%"),
            number("servers read", "MB"),
            number("drives read", "MB"),
            number("drives wrote", "MB"),
            number("commands per drive read", ""),
        ],
        rows: Place::all(results).into_iter().map(row).collect(),
    }
}
