//! A declaration as text for people: keys in the order of the reference, sizes with units, with the defaults
//! or without them, and without secrets.

use std::fmt::Write;

use serde_json::Value as Schema;
use toml::Value;
use units::exact_bytes;

use super::page::{keys, table};
use crate::Config;

/// Stands in the place of a secret.
const NO_SECRET: &str = "# secret is not shown: `masu config export` prints it";

/// The declaration as TOML. With `defaults`, every key that has a default is there; without, no key has its
/// default.
pub fn shown(config: &Config, defaults: bool) -> String {
    let mut text = String::new();
    if let Ok(value) = Value::try_from(config) {
        object(&mut text, (&value, &super::schema()), "", defaults);
    }
    text
}

/// The keys of a table, then the tables in it.
fn object(text: &mut String, (value, schema): (&Value, &Schema), path: &str, defaults: bool) {
    for (key, schema) in keys(schema).into_iter().filter(|(_, schema)| table(schema).is_none()) {
        if key == "secret" && value.get(key).is_some() {
            let _ = writeln!(text, "{NO_SECRET}");
            continue;
        }
        let default = default(schema);
        let is_default = |value: &&Value| Some(*value) == default.as_ref();
        let chosen = value.get(key).filter(|value| defaults || !is_default(value));
        if let Some(value) = chosen.or(default.as_ref().filter(|_| defaults)) {
            let _ = writeln!(text, "{key} = {}", one(value, schema));
        }
    }
    for (key, schema) in keys(schema) {
        let Some((inner, is_list)) = table(schema) else { continue };
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let list = match value.get(key) {
            Some(Value::Array(list)) if is_list => list.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        for value in list {
            let header = if is_list { format!("[[{path}]]") } else { format!("[{path}]") };
            let _ = write!(text, "\n{header}\n");
            object(text, (value, inner), &path, defaults);
        }
    }
}

fn default(schema: &Schema) -> Option<Value> {
    Value::try_from(schema.get("default")?).ok()
}

fn one(value: &Value, schema: &Schema) -> String {
    match value {
        Value::Integer(number) if schema["x-type"] == "size" => match exact_bytes(number.unsigned_abs()) {
            plain if plain.bytes().all(|b| b.is_ascii_digit()) => plain,
            with_unit => format!("\"{with_unit}\""),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::reference::EXAMPLE;

    fn read(text: &str) -> Config {
        Config::parse(text, "array.toml", Path::new("/data")).expect("good")
    }

    /// The same declaration, but for the secrets.
    fn check(text: &str, defaults: bool) -> String {
        let config = read(text);
        let shown = shown(&config, defaults);
        assert!(!shown.contains("twelve-bytes-or-more"), "{shown}");
        let mut secrets = config.hosts.iter().flat_map(|h| h.chap.iter().chain(&h.mutual_chap));
        let whole = shown.split_inclusive(NO_SECRET).fold(String::new(), |all, part| {
            let secret = part.ends_with(NO_SECRET).then(|| secrets.next()).flatten();
            all + &secret.map_or(part.to_owned(), |chap| {
                part.replace(NO_SECRET, &format!("secret = {:?}", chap.secret))
            })
        });
        assert_eq!(read(&whole), config, "{shown}");
        shown
    }

    #[test]
    fn what_is_shown_is_the_declaration_with_its_defaults_or_without() {
        let short = check(EXAMPLE, false);
        assert!(short.contains("memory = \"1GiB\"\n") && !short.contains("weight = 100"), "{short}");
        // 2000 ms is what the example says and the default.
        assert!(!short.contains("drive_slow_ms"), "{short}");
        let long = check(EXAMPLE, true);
        assert!(long.contains("drive_slow_ms = 2000") && long.contains("page = \"1MiB\""), "{long}");
        let empty = check("", false);
        assert_eq!(empty, "");
        assert!(check("", true).contains("controllers = 1\n"));
    }
}
