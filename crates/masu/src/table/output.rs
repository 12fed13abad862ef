//! A list as text: a table, JSON, CSV (RFC 4180), or names. Pure.

use lab_core::words::visible;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::column::{Column, Kind, Noun, Value};
use super::fit::{self, Cell, Head, Lines};

/// The table of some objects.
pub(crate) fn table<T>(
    columns: &[&'static Column<T>],
    objects: &[T],
    width: Option<usize>,
    (with_head, with_colour): (bool, bool),
) -> Lines {
    let head = |c: &&Column<T>| Head { text: c.name.to_uppercase(), is_number: c.kind.is_number() };
    let heads: Vec<Head> = columns.iter().map(head).collect();
    let row = |object: &T| columns.iter().map(|c| cell(c, object, with_colour)).collect();
    fit::lines(&heads, objects.iter().map(row).collect(), width, with_head)
}

fn cell<T>(column: &Column<T>, object: &T, with_colour: bool) -> Cell {
    let value = (column.value)(object);
    let tone = if with_colour && column.kind == Kind::State { tone(&value.plain()) } else { None };
    Cell { text: value.shown(column.kind), brief: value.brief(), tone }
}

/// The colour of a state, an SGR parameter: red for what is lost or not served, yellow for what needs
/// attention, green for what is well, none for what says neither.
pub(crate) fn tone(state: &str) -> Option<&'static str> {
    const RED: Option<&str> = Some("31");
    const YELLOW: Option<&str> = Some("33");
    const GREEN: Option<&str> = Some("32");
    let word = state.split([',', ':', '(']).next().unwrap_or_default().trim();
    match word {
        "failed" | "failing" | "missing" | "error" | "not served" | "problem" | "lost" => RED,
        "degraded" | "rebuilding" | "stale" | "warning" | "in trouble" | "below minimum" | "unprotected"
        | "unknown policy" | "leaving" | "slow" | "full" => YELLOW,
        "optimal" | "active" | "passed" | "served" | "ok" | "owner" | "on" => GREEN,
        _ => None,
    }
}

/// The objects as CSV of RFC 4180: a header, lines that end with CR LF, values in base units.
pub(crate) fn csv<T>(columns: &[&'static Column<T>], objects: &[T]) -> String {
    let mut out = String::new();
    let mut line = |fields: &mut dyn Iterator<Item = String>| {
        for (i, field) in fields.enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push_str(&quoted(&field));
        }
        out.push_str("\r\n");
    };
    line(&mut columns.iter().map(|c| c.field()));
    objects.iter().for_each(|object| line(&mut columns.iter().map(|c| (c.value)(object).plain())));
    out
}

fn quoted(field: &str) -> String {
    match field.contains(['"', ',', '\r', '\n']) || field.starts_with(' ') || field.ends_with(' ') {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.into(),
    }
}

/// The objects as a JSON array: as the API has them; of chosen columns, one member a column in base units.
///
/// # Errors
/// An object cannot be written as JSON: a bug.
pub(crate) fn json<T: Serialize>(
    columns: Option<&[&'static Column<T>]>,
    objects: &[T],
) -> Result<String, serde_json::Error> {
    match columns {
        None => serde_json::to_string_pretty(objects),
        Some(columns) => {
            let object = |object: &T| -> Map<String, Json> {
                columns.iter().map(|c| (c.field(), plain_json((c.value)(object)))).collect()
            };
            serde_json::to_string_pretty(&objects.iter().map(object).collect::<Vec<_>>())
        }
    }
}

fn plain_json(value: Value) -> Json {
    match value {
        Value::None => Json::Null,
        Value::Text(text) => text.into(),
        Value::Names(names) => names.into(),
        Value::Whole(n) => n.into(),
        Value::Real(x) => x.into(),
    }
}

/// The names, one a line.
pub(crate) fn names<T>(noun: &Noun<T>, objects: &[T]) -> String {
    objects.iter().map(|object| noun.name(object) + "\n").collect()
}

/// One object: every column, a line each, with long lists of names on lines of their own.
pub(crate) fn object<T>(noun: &Noun<T>, object: &T, with_colour: bool) -> String {
    let width = noun.columns.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for column in noun.columns {
        let value = (column.value)(object);
        let shown = value.shown(column.kind);
        let text = match (&value, tone(&value.plain())) {
            (Value::Names(names), _) if names.len() > 1 => {
                let names: Vec<String> = names.iter().map(|name| visible(name)).collect();
                names.join(&format!("\n{:width$}  ", ""))
            }
            (_, Some(tone)) if with_colour && column.kind == Kind::State => {
                format!("\u{1b}[{tone}m{shown}\u{1b}[0m")
            }
            _ => shown,
        };
        out += &format!("{:<width$}  {text}\n", column.name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Thing {
        name: String,
        size_bytes: u64,
    }

    static COLUMNS: [Column<Thing>; 2] = [
        Column::shown("name", Kind::Text, |t: &Thing| (&t.name).into()),
        Column::shown("size", Kind::Bytes, |t: &Thing| t.size_bytes.into()),
    ];

    fn things(names: &[&str]) -> Vec<Thing> {
        names.iter().map(|name| Thing { name: (*name).into(), size_bytes: 4096 }).collect()
    }

    #[test]
    fn csv_is_that_of_rfc_4180() {
        let columns: Vec<_> = COLUMNS.iter().collect();
        let text = csv(&columns, &things(&["plain", "a,b", "say \"x\"", "two\nlines", ""]));
        let expected = "name,size_bytes\r\nplain,4096\r\n\"a,b\",4096\r\n\"say \"\"x\"\"\",4096\r\n\
            \"two\nlines\",4096\r\n,4096\r\n";
        assert_eq!(text, expected);
        assert_eq!(csv(&columns, &[]), "name,size_bytes\r\n", "an empty list has its header");
    }

    #[test]
    fn json_is_an_array_of_just_the_objects() {
        assert_eq!(json::<Thing>(None, &[]).expect("text"), "[]");
        let columns: Vec<_> = COLUMNS[1..].iter().collect();
        let text = json(Some(&columns), &things(&["v"])).expect("text");
        assert_eq!(text.split_whitespace().collect::<String>(), "[{\"size_bytes\":4096}]");
    }

    /// A list of names came as it was: portals that somebody wrote into the registry controlled the terminal
    /// of `node show`.
    #[test]
    fn no_text_of_an_object_controls_a_terminal() {
        static TOLD: [Column<Vec<String>>; 3] = [
            Column::shown("one", Kind::Text, |all| all[0].as_str().into()),
            Column::shown("state", Kind::State, |all| all[0].as_str().into()),
            Column::shown("all", Kind::Names, |all| all.into()),
        ];
        static NOUN: Noun<Vec<String>> =
            Noun { one: "thing", many: "things", columns: &TOLD, hint: "", is_sorted: false };
        let evil = vec!["a\u{1b}[31m".to_owned(), "b\u{7f}\0\r".to_owned()];
        let columns: Vec<_> = TOLD.iter().collect();
        for width in [None, Some(30)] {
            let shown = table(&columns, std::slice::from_ref(&evil), width, (true, false)).lines.join("\n");
            let shown = shown + &object(&NOUN, &evil, false);
            assert!(!shown.replace('\n', "").contains(char::is_control), "{shown:?}");
            assert!(shown.contains("a\\u{1b}[31m") && shown.contains("b\\u007f\\u{0}\\r"), "{shown}");
        }
    }

    #[test]
    fn states_have_the_colour_of_their_first_word() {
        assert_eq!(tone("degraded, rebuilding 43 %"), Some("33"));
        assert_eq!(tone("below minimum: 12 IOPS"), Some("33"));
        assert_eq!(
            [tone("failed"), tone("optimal"), tone("spare"), tone("")],
            [Some("31"), Some("32"), None, None]
        );
    }
}
