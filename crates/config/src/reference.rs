//! The reference of `array.toml`, made of the types: a JSON Schema for editors, and a page for people. Both
//! are in `docs/`; a test compares them.

mod page;
mod shown;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::Config;

pub use shown::shown;

/// A declaration with every table. The page shows its parts.
pub const EXAMPLE: &str = include_str!("reference/example.toml");

/// The JSON Schema (draft 2020-12) of `array.toml`.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Config>().to_value();
    schema["title"] = "array.toml, the declaration of a masu array".into();
    tidy(&mut schema);
    schema
}

/// The schema as text.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

/// The reference of all tables and keys, as Markdown.
pub fn page() -> String {
    page::of(&schema())
}

/// TOML has no null, and comments wrap where the code does.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            // The width of a Rust type is no limit of its own.
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(any)) = object.get_mut("anyOf") {
                any.retain(|one| one["type"] != "null");
                if let [Value::Object(only)] = any.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn documents() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    #[test]
    fn the_documents_are_those_of_the_types() {
        for (name, text) in [("array_toml.md", page()), ("array.schema.json", schema_text())] {
            let kept = std::fs::read_to_string(documents().join(name)).unwrap_or_default();
            assert!(kept == text, "docs/{name} is not what the types make: run `make documents`");
        }
    }

    #[test]
    fn the_examples_of_the_page_are_one_declaration_that_the_reader_takes() {
        let page = std::fs::read_to_string(documents().join("array_toml.md")).expect("the page");
        let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest));
        let text: String = blocks.collect();
        let read = |text: &str| Config::parse(text, "array_toml.md", Path::new("/data")).expect("good");
        let (shown, whole) = (read(&text), read(EXAMPLE));
        assert_eq!(shown.volumes, whole.volumes);
        assert_eq!((shown.hosts.len(), shown.drives.len()), (whole.hosts.len(), whole.drives.len()));
        assert!(shown.hosts[1].mutual_chap.is_some() && shown.cache.is_some_and(|c| c.partitions.len() == 1));
    }

    #[test]
    fn every_default_of_the_schema_is_what_the_reader_takes_without_the_key() {
        let none = Config::parse("", "none", Path::new("/data")).expect("good");
        let schema = schema();
        let root = &schema["properties"];
        assert_eq!(root["drive_slow_ms"]["default"], none.drive_slow_ms);
        assert_eq!(root["controllers"]["default"], none.controllers);
        assert_eq!(root["target"]["default"], none.target.as_str());
        let of = |table: &str, key: &str| {
            let table = &root[table];
            let object = if table["items"].is_object() { &table["items"] } else { table };
            object["properties"][key]["default"].clone()
        };
        assert_eq!(of("qos", "depth"), none.qos.depth_max);
        assert_eq!(of("qos", "unit"), none.qos.unit_bytes);
        assert_eq!(of("cache", "direct"), crate::DIRECT_BYTES_DEFAULT);
        assert_eq!(of("group", "foreground_share"), crate::FOREGROUND_SHARE_PERCENT_DEFAULT);
        assert_eq!(of("volume", "cache"), "write-back");
        assert_eq!(of("pool", "placement"), true);
        assert_eq!(of("policy", "weight"), qos::WEIGHT_DEFAULT);
    }

    /// A key without a description, and an enumeration without one, would be an empty line of the page.
    #[test]
    fn every_key_is_described_and_every_table_has_an_example() {
        fn look(place: &str, object: &Value) {
            for (key, value) in object["properties"].as_object().expect("a table") {
                assert!(value["description"].is_string(), "{place}.{key} has no description");
                let inner = if value["items"]["properties"].is_object() { &value["items"] } else { value };
                if inner["properties"].is_object() {
                    let header = format!("{place}.{key}").trim_start_matches('.').to_owned();
                    assert!(EXAMPLE.contains(&format!("[{header}]")), "{header} has no example");
                    look(&header, inner);
                }
            }
        }
        look("", &schema());
    }
}
