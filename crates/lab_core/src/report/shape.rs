//! What `presentation.json` must be, so that the viewer can draw it: it lies in a folder, where others may
//! change it. Of what a run writes itself every build with assertions checks the same.

use serde_json::Value;

/// A part of it.
enum Shape {
    Text,
    /// JSON has no value for what is not finite: `null`.
    Number,
    Flag,
    /// One of these.
    Word(&'static [&'static str]),
    /// Text or a number.
    Cell,
    /// `null`, or not there.
    Maybe(&'static Shape),
    List(&'static Shape),
    /// Numbers, so many.
    Numbers(&'static [usize]),
    /// These keys and no others.
    Object(&'static [(&'static str, Shape)]),
}

use Shape::{Cell, Flag, List, Maybe, Number, Numbers, Object, Text, Word};

const TEXTS: Shape = List(&Text);
const SPAN: Shape = Object(&[("name", Text), ("from", Number), ("to", Number)]);
const AXIS: Shape = Object(&[("label", Text), ("unit", Text), ("log", Flag)]);

const FIGURE: Shape = Object(&[
    ("id", Text),
    ("title", Text),
    ("subtitle", Maybe(&Text)),
    ("kind", Word(&["bars", "lines", "timeline", "ranks", "cdf"])),
    ("x", AXIS),
    ("y", AXIS),
    ("categories", Maybe(&TEXTS)),
    (
        "series",
        List(&Object(&[
            ("name", Text),
            ("color", Text),
            ("points", List(&Numbers(&[2, 4]))),
            ("panel", Maybe(&Text)),
        ])),
    ),
    (
        "marks",
        Maybe(&List(&Object(&[
            ("label", Text),
            ("value", Number),
            ("category", Maybe(&Text)),
            ("series", Maybe(&Text)),
            ("panel", Maybe(&Text)),
        ]))),
    ),
    ("phases", Maybe(&List(&SPAN))),
    ("window", Maybe(&SPAN)),
    ("warm_up", Maybe(&SPAN)),
    ("contaminated", Maybe(&List(&SPAN))),
    ("panels", Maybe(&List(&Object(&[("id", Text), ("title", Text), ("y", Maybe(&AXIS))])))),
    ("note", Maybe(&Text)),
]);

const FINDING: Shape = Object(&[
    ("resource", Text),
    ("evidence", Text),
    ("threshold", Maybe(&Text)),
    ("source", Maybe(&Text)),
    ("consequence", Text),
    ("try", Maybe(&Text)),
    (
        "cost",
        Maybe(&Object(&[
            ("percent", Number),
            ("of", Word(&["response time", "throughput"])),
            ("at_most", Flag),
        ])),
    ),
]);

const TABLE: Shape = Object(&[
    ("id", Text),
    ("title", Text),
    ("columns", List(&Object(&[("name", Text), ("unit", Maybe(&Text)), ("numeric", Flag)]))),
    ("rows", List(&List(&Cell))),
]);

const SECTION: Shape =
    Object(&[("id", Text), ("title", Text), ("text", Maybe(&Text)), ("figures", TEXTS), ("tables", TEXTS)]);

const METHOD: Shape = Object(&[
    ("scenario_text", Text),
    ("versions", List(&Object(&[("name", Text), ("version", Text)]))),
    ("modelled", TEXTS),
    ("real", TEXTS),
    ("calibrated", TEXTS),
    ("scale", Maybe(&Text)),
]);

const PRESENTATION: Shape = Object(&[
    ("record", Maybe(&Text)),
    ("title", Text),
    ("figures", List(&FIGURE)),
    ("findings", List(&FINDING)),
    ("tables", List(&TABLE)),
    ("sections", List(&SECTION)),
    ("method", METHOD),
    ("files", List(&Object(&[("name", Text), ("about", Text), ("rows", Number)]))),
]);

/// What of a presentation the viewer cannot draw, with its place.
///
/// # Errors
///
/// The first such thing: "figures.3.kind: must be one of bars, lines".
pub fn check_presentation(presentation: &Value) -> Result<(), String> {
    check(presentation, &PRESENTATION, "")?;
    let tables = presentation["tables"].as_array().into_iter().flatten();
    for (n, table) in tables.enumerate() {
        let columns = table["columns"].as_array().map_or(0, Vec::len);
        let mut rows = table["rows"].as_array().into_iter().flatten();
        if rows.any(|row| row.as_array().is_none_or(|row| row.len() != columns)) {
            return Err(format!("tables.{n}.rows: must be as long as its columns"));
        }
    }
    Ok(())
}

fn check(value: &Value, shape: &Shape, place: &str) -> Result<(), String> {
    let must = |be: &str| Err(format!("{}: must be {be}", if place.is_empty() { "it" } else { place }));
    let of_all = |list: &[Value], shape: &Shape| {
        list.iter().enumerate().try_for_each(|(n, one)| check(one, shape, &format!("{place}.{n}")))
    };
    match (shape, value) {
        (Text, Value::String(_)) | (Flag, Value::Bool(_)) | (Number, Value::Number(_) | Value::Null) => {
            Ok(())
        }
        (Cell, Value::String(_) | Value::Number(_) | Value::Null) | (Maybe(_), Value::Null) => Ok(()),
        (Word(words), Value::String(word)) if words.contains(&word.as_str()) => Ok(()),
        (Maybe(shape), value) => check(value, shape, place),
        (List(shape), Value::Array(list)) => of_all(list, shape),
        (Numbers(counts), Value::Array(list)) if counts.contains(&list.len()) => of_all(list, &Number),
        (Object(keys), Value::Object(map)) => {
            let inner = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
            if let Some(other) = map.keys().find(|key| !keys.iter().any(|(known, _)| known == key)) {
                return Err(format!("{}: unknown key", inner(other)));
            }
            keys.iter()
                .try_for_each(|(key, shape)| check(map.get(*key).unwrap_or(&Value::Null), shape, &inner(key)))
        }
        (Text, _) => must("text"),
        (Number, _) => must("a number"),
        (Flag, _) => must("true or false"),
        (Word(words), _) => must(&format!("one of {}", words.join(", "))),
        (Cell, _) => must("text or a number"),
        (List(_), _) => must("a list"),
        (Numbers(_), _) => must("two or four numbers"),
        (Object(_), _) => must("an object"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::presentation::Presentation;

    /// `masu report` wrote a page that no browser could draw, or one whose verdict was another than that of
    /// the record, and ended with 0.
    #[test]
    fn what_the_viewer_cannot_draw_is_told_with_its_place() {
        let good = serde_json::to_value(Presentation::default()).expect("JSON");
        assert_eq!(check_presentation(&good), Ok(()));
        let axis = json!({ "label": "t", "unit": "s", "log": false });
        let figure = json!({ "id": "a", "title": "b", "kind": "lines", "x": axis, "y": axis,
            "series": [{ "name": "c", "color": "blue", "points": [[0.0, null], [1, 2, 3, 4]] }] });
        let with = |key: &str, value: Value| {
            let mut all = good.clone();
            all[key] = value;
            check_presentation(&all)
        };
        assert_eq!(with("figures", json!([figure])), Ok(()));
        for (key, value, expected) in [
            ("figures", json!("many"), "figures: must be a list"),
            ("figures", json!([7]), "figures.0: must be an object"),
            ("title", json!(["<script>"]), "title: must be text"),
            ("verdict", json!("held"), "verdict: unknown key"),
            ("method", json!(null), "method: must be an object"),
            (
                "sections",
                json!([{ "id": "a", "title": "b", "figures": [1], "tables": [] }]),
                "sections.0.figures.0: must be text",
            ),
            (
                "tables",
                json!([{ "id": "a", "title": "b", "columns": [], "rows": [[1]] }]),
                "tables.0.rows: must be as long as its columns",
            ),
        ] {
            assert_eq!(with(key, value), Err(expected.into()));
        }
        for (key, value, expected) in [
            ("kind", json!("pie"), "figures.0.kind: must be one of bars, lines, timeline, ranks, cdf"),
            (
                "series",
                json!([{ "name": "c", "color": "blue", "points": [[1]] }]),
                "figures.0.series.0.points.0: must be two or four numbers",
            ),
        ] {
            let mut wrong = figure.clone();
            wrong[key] = value;
            assert_eq!(with("figures", json!([wrong])), Err(expected.into()));
        }
        assert_eq!(check_presentation(&json!([])), Err("it: must be an object".into()));
    }
}
