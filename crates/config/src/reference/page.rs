//! The page: one section per table, one row per key.

use std::fmt::Write;

use serde_json::Value;
use units::exact_bytes;

use super::EXAMPLE;

const HEAD: &str = "\
# array.toml

The declaration of an array, in [TOML](https://toml.io): `masu serve --config array.toml`. This page is
generated from the program (`make documents`), and so is [array.schema.json](array.schema.json), a JSON Schema
with which editors complete and check the file. Editors that know TOML schemas find it by a first line
`#:schema array.schema.json`.

* `masu config check array.toml` checks a file without an array: the reader and the checks of a start, errors
  with file, line and column.
* `masu config diff array.toml` compares a file with the array that runs; `masu config show` prints what runs.
* A declaration is applied at a start and on SIGHUP. Declared objects are created or changed; objects that it
  does not name stay. masu never writes to the file, so comments and order stay as they are. What commands
  change is kept in the data directory, and wins until the file changes the same key.

Names of objects have 1 to 64 letters, digits, `-`, `_` or `.`. A **size** is a number of bytes, or a text with a
unit: `KiB`, `MiB`, `GiB`, `TiB`, `PiB` are powers of 1024, and so are `K`, `M`, `G`, `T`, `P`; `KB`, `MB`, `GB`,
`TB`, `PB` are powers of 1000. Unknown keys are errors. In each table the required keys come first, then the
others by name.
";

/// The page of a schema.
pub(super) fn of(schema: &Value) -> String {
    let mut page = HEAD.to_owned();
    section(&mut page, "The array", schema, "");
    tables(&mut page, schema, "");
    page
}

/// The sections of the tables in `object`, whose path is `within`.
fn tables(page: &mut String, object: &Value, within: &str) {
    for (key, value) in keys(object) {
        let Some((inner, is_list)) = table(value) else { continue };
        let path = if within.is_empty() { key.to_owned() } else { format!("{within}.{key}") };
        let header = if is_list { format!("[[{path}]]") } else { format!("[{path}]") };
        section(page, &format!("`{header}`"), inner, &path);
        tables(page, inner, &path);
    }
}

/// The table that a value is, or is a list of.
pub(super) fn table(value: &Value) -> Option<(&Value, bool)> {
    if value["properties"].is_object() {
        return Some((value, false));
    }
    value["items"]["properties"].is_object().then_some((&value["items"], true))
}

/// The required keys in the order of the declaration, then the others by name.
pub(super) fn keys(object: &Value) -> Vec<(&str, &Value)> {
    let required: Vec<&str> =
        object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all: Vec<(&str, &Value)> = object["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
        .collect();
    let named = |name: &&str| all.iter().find(|(key, _)| key == name).copied();
    let others = all.iter().filter(|(key, _)| !required.contains(key)).copied();
    required.iter().filter_map(named).chain(others).collect()
}

fn section(page: &mut String, title: &str, object: &Value, path: &str) {
    let _ = write!(page, "\n## {title}\n\n{}\n\n", text(object));
    page.push_str("| key | type | default | unit, limits | meaning |\n|---|---|---|---|---|\n");
    let required = object["required"].as_array().map_or(&[][..], Vec::as_slice);
    for (key, value) in keys(object).into_iter().filter(|(_, value)| table(value).is_none()) {
        let default =
            if required.iter().any(|name| name == key) { "required".into() } else { default(value) };
        let (kind, limits) = (kind(value), limits(value));
        let _ =
            writeln!(page, "| `{key}` | {kind} | {default} | {limits} | {}{} |", text(value), choices(value));
    }
    let _ = write!(page, "\n```toml\n{}```\n", example(path));
}

fn text(value: &Value) -> &str {
    value["description"].as_str().unwrap_or_default()
}

/// The type of a value, in a word or two.
fn kind(value: &Value) -> String {
    if let Some(kind) = value["x-type"].as_str() {
        return kind.into();
    }
    match value["type"].as_str() {
        Some("array") => format!("list of {}s", kind(&value["items"])),
        Some("object") => "table".into(),
        Some(kind) => kind.into(),
        None if value["oneOf"].is_array() => "one of".into(),
        None => "value".into(),
    }
}

fn default(value: &Value) -> String {
    if let Some(text) = value["x-default"].as_str() {
        return text.into();
    }
    match &value["default"] {
        Value::Null => "none".into(),
        Value::Number(number) if value["x-type"] == "size" => {
            format!("`{}`", exact_bytes(number.as_u64().unwrap_or(0)))
        }
        other => format!("`{other}`"),
    }
}

fn limits(value: &Value) -> String {
    let number = |key: &str| value[key].as_u64();
    let shown = |n: u64| if value["x-type"] == "size" { exact_bytes(n) } else { n.to_string() };
    let mut parts = Vec::new();
    // Fractions say theirs.
    parts.extend(value["x-limits"].as_str().map(str::to_owned));
    let bounds = match value["x-limits"].is_string() {
        true => (None, None),
        false => (number("minimum").filter(|least| *least > 0), number("maximum")),
    };
    match bounds {
        (Some(least), Some(most)) => parts.push(format!("{} to {}", shown(least), shown(most))),
        (Some(least), None) => parts.push(format!("at least {}", shown(least))),
        (None, Some(most)) => parts.push(format!("0 to {}", shown(most))),
        (None, None) => {}
    }
    match (number("minLength"), number("maxLength")) {
        (Some(least), Some(most)) => parts.push(format!("{least} to {most} bytes")),
        (None, None) => {}
        (least, most) => parts.push(format!("{} to {} bytes", least.unwrap_or(0), most.unwrap_or(0))),
    }
    if let Some(list) = value["enum"].as_array() {
        parts.push(list.iter().map(Value::to_string).collect::<Vec<_>>().join(" or "));
    }
    let unit = value["x-unit"].as_str().unwrap_or_default();
    let limits = parts.join(", ");
    match unit {
        "%" if !limits.is_empty() => format!("{limits} %"),
        _ if limits.is_empty() || unit.is_empty() => format!("{limits}{unit}"),
        _ => format!("{limits} {unit}"),
    }
}

/// The values of an enumeration, each with its meaning.
fn choices(value: &Value) -> String {
    let list = value["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().fold(String::new(), |mut all, one| {
        let _ = write!(all, "<br>`{}`: {}", one["const"], text(one).trim_end_matches('.'));
        all
    })
}

/// The parts of the example that show a table; those before the first header for the top level.
fn example(path: &str) -> String {
    let mut current = "";
    let mut parts = String::new();
    for line in EXAMPLE.lines() {
        if line.starts_with('[') {
            current = line.trim_matches(['[', ']']);
        }
        if current == path {
            parts += line;
            parts.push('\n');
        }
    }
    parts.trim_end().to_owned() + "\n"
}
