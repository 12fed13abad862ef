//! What a person declares in a file, and what was changed by command since: brought together, and told apart.
//!
//! ```text
//!   base: the declaration that was applied last ──┐
//!   declared: the file as it is now ──────────────┼──> merged: what a person changed in the file counts,
//!   kept: the array as it is, commands included ──┘            everything else stays as it is
//! ```

use std::path::Path;

use config::{Config, exact_bytes, reference};
use serde_json::Value as Schema;
use toml::{Table, Value};

use config::DeclarationError;

/// What names an object of a list: most have a name, a portal its address.
const KEYS: [&str; 2] = ["name", "listen"];

/// The declaration to be applied. What the file changes against the `base` is taken from the file; what is
/// there and not declared stays, and so does what commands changed. A volume does not shrink, and membership
/// of groups and pools is not taken back.
///
/// # Errors
/// Where the two together make no sense.
pub fn merged(
    base: &Config,
    kept: &Config,
    declared: &Config,
    data_dir: &Path,
) -> Result<Config, DeclarationError> {
    // No command changes portals: those in the file replace the previous ones, also at the same address.
    let portals = if declared.portals.is_empty() { &kept.portals } else { &declared.portals };
    let with_portals = |config: &Config| table_of(&Config { portals: portals.clone(), ..config.clone() });
    let table = merge_tables(&with_portals(base), &with_portals(kept), &with_portals(declared));
    let text = toml::to_string(&table).expect("a declaration has only plain values");
    let mut config = Config::parse(&text, "array.toml with what was changed by command", data_dir)?;
    config.id = kept.id;
    for volume in &mut config.volumes {
        let had = kept.volume(&volume.name).map_or(0, |v| v.len_bytes);
        volume.len_bytes = volume.len_bytes.max(had);
    }
    Ok(config)
}

fn table_of(config: &Config) -> Table {
    match Value::try_from(config) {
        Ok(Value::Table(table)) => table,
        other => panic!("a declaration is a table of plain values: {other:?}"),
    }
}

fn merge_tables(base: &Table, kept: &Table, declared: &Table) -> Table {
    let mut merged = Table::new();
    for key in kept.keys().chain(declared.keys().filter(|key| !kept.contains_key(*key))) {
        let value = merge(base.get(key), kept.get(key), declared.get(key));
        merged.extend(value.map(|value| (key.clone(), value)));
    }
    merged
}

fn merge(base: Option<&Value>, kept: Option<&Value>, declared: Option<&Value>) -> Option<Value> {
    match (kept, declared) {
        (Some(Value::Table(kept)), Some(Value::Table(declared))) => {
            let none = Table::new();
            let base = base.and_then(Value::as_table).unwrap_or(&none);
            Some(Value::Table(merge_tables(base, kept, declared)))
        }
        (Some(kept), declared) if is_objects(kept) || declared.is_some_and(is_objects) => {
            let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
            Some(Value::Array(merge_objects(&list(base), &list(Some(kept)), &list(declared))))
        }
        // Not touched in the file.
        (kept, declared) if declared == base => kept.cloned(),
        (_, declared) => declared.cloned(),
    }
}

/// Whether a value is a list of objects, each with a name.
fn is_objects(value: &Value) -> bool {
    value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(|v| key_of(v).is_some()))
}

fn key_of(value: &Value) -> Option<&str> {
    KEYS.iter().find_map(|key| value.get(key)?.as_str())
}

fn merge_objects(base: &[Value], kept: &[Value], declared: &[Value]) -> Vec<Value> {
    fn find<'a>(list: &'a [Value], object: &Value) -> Option<&'a Value> {
        list.iter().find(|other| key_of(other) == key_of(object))
    }
    let merged = kept.iter().filter_map(|object| match find(declared, object) {
        // What is there and not declared stays.
        None => Some(object.clone()),
        new => merge(find(base, object), Some(object), new),
    });
    let new = declared.iter().filter(|object| find(kept, object).is_none());
    merged.chain(new.cloned()).collect()
}

/// A value as a person reads it.
enum Shown {
    Written(String),
    /// The key is not there: this is in force; none where nothing is.
    Default(Option<String>),
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Shown::Written(text) => f.write_str(text),
            Shown::Default(Some(text)) => write!(f, "{text} (the default)"),
            Shown::Default(None) => f.write_str("none"),
        }
    }
}

/// One difference of two declarations.
enum Difference {
    /// A key has another value, or its default.
    Value { place: String, first: Shown, second: Shown },
    /// A secret is another one; neither is shown.
    Secret { place: String },
    /// An object is in the first alone.
    OnlyFirst { object: String },
    /// An object is in the second alone.
    OnlySecond { object: String },
}

/// In what the array differs from a declaration, a line each; secrets are not shown.
pub fn differences(declared: &Config, now: &Config) -> Vec<String> {
    let mut declared = declared.clone();
    if declared.portals.is_empty() {
        // Without a declared portal, the start chooses the address.
        declared.portals.clone_from(&now.portals);
    }
    let line = |difference| match difference {
        Difference::Value { place, first, second } => {
            format!("{place}: {first} in the declaration, {second} now")
        }
        Difference::Secret { place } => format!("{place}: differs (not shown)"),
        Difference::OnlyFirst { object } => format!("{object}: in the declaration, not in the array"),
        Difference::OnlySecond { object } => format!("{object}: created by command, not in the declaration"),
    };
    compare(&declared, now).into_iter().map(line).collect()
}

/// How an array changes when another declaration is applied, a line each; secrets are not shown.
pub fn changes(now: &Config, next: &Config) -> Vec<String> {
    let line = |difference| match difference {
        Difference::Value { place, first: Shown::Default(None), second } => format!("{place}: {second}"),
        Difference::Value { place, first, second } => format!("{place}: {second}, was {first}"),
        Difference::Secret { place } => format!("{place}: changed (not shown)"),
        Difference::OnlyFirst { object } => format!("{object}: removed"),
        Difference::OnlySecond { object } => format!("{object}: created"),
    };
    compare(now, next).into_iter().map(line).collect()
}

fn compare(first: &Config, second: &Config) -> Vec<Difference> {
    let mut found = Vec::new();
    let (mut first, mut second) = (table_of(first), table_of(second));
    for table in [&mut first, &mut second] {
        table.remove("id");
    }
    differ("", (&Value::Table(first), &Value::Table(second)), &reference::schema(), &mut found);
    found
}

fn differ(place: &str, values: (&Value, &Value), schema: &Schema, found: &mut Vec<Difference>) {
    let (Value::Table(first), Value::Table(second)) = values else {
        if values.0 != values.1 {
            found.push(value_differs(place, (Some(values.0), Some(values.1)), schema));
        }
        return;
    };
    let absent = Value::Array(Vec::new());
    for key in second.keys().chain(first.keys().filter(|key| !second.contains_key(*key))) {
        let schema = &schema["properties"][key];
        let place = if place.is_empty() { key.clone() } else { format!("{place}: {key}") };
        match (first.get(key), second.get(key)) {
            (a, b) if [a, b].into_iter().flatten().any(is_objects) => {
                let lists = (a.unwrap_or(&absent), b.unwrap_or(&absent));
                differ_objects(key, lists, &schema["items"], found);
            }
            (Some(a), Some(b)) => differ(&place, (a, b), schema, found),
            (a, b) => found.push(value_differs(&place, (a, b), schema)),
        }
    }
}

fn differ_objects(kind: &str, lists: (&Value, &Value), schema: &Schema, found: &mut Vec<Difference>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (first, second) = (list(lists.0), list(lists.1));
    let name = |object: &Value| format!("{kind} {}", key_of(object).unwrap_or_default());
    for object in &second {
        match first.iter().find(|other| key_of(other) == key_of(object)) {
            Some(before) => differ(&name(object), (before, object), schema, found),
            None => found.push(Difference::OnlySecond { object: name(object) }),
        }
    }
    let gone = first.iter().filter(|object| second.iter().all(|other| key_of(other) != key_of(object)));
    found.extend(gone.map(|object| Difference::OnlyFirst { object: name(object) }));
}

fn value_differs(place: &str, values: (Option<&Value>, Option<&Value>), schema: &Schema) -> Difference {
    let place = place.to_owned();
    if place.ends_with("chap") || place.ends_with("secret") {
        return Difference::Secret { place };
    }
    let default = || Value::try_from(schema.get("default")?).ok();
    let shown = |value: Option<&Value>| match value {
        Some(value) => Shown::Written(plain(value, schema)),
        None => Shown::Default(default().map(|value| plain(&value, schema))),
    };
    Difference::Value { place, first: shown(values.0), second: shown(values.1) }
}

/// A value as a person writes it: names without quotes, lists without brackets, sizes with their unit.
fn plain(value: &Value, schema: &Schema) -> String {
    match value {
        Value::Integer(bytes) if schema["x-type"] == "size" => exact_bytes(bytes.unsigned_abs()),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => list.iter().map(|one| plain(one, schema)).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: &str = "/data";

    /// An array with one volume of this size, a policy that it has or not, and more text.
    fn config(size: &str, more: &str) -> Config {
        let text = format!(
            "[[drive]]\nname = \"d0\"\nfile = \"d0.img\"\nsize = \"1GiB\"\n[[group]]\nname = \"g0\"\nlevel = \"raid0\"\n\
             drives = [\"d0\"]\n[[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n[[volume]]\nname = \"v0\"\npool = \"p0\"\n\
             size = \"{size}\"\n{more}"
        );
        Config::parse(&text, "array.toml", Path::new(DIR)).expect("good")
    }

    fn volume(name: &str) -> String {
        format!("[[volume]]\nname = \"{name}\"\npool = \"p0\"\nsize = \"64MiB\"\n")
    }

    fn check(base: &Config, kept: &Config, declared: &Config, expected: &Config) {
        let found = merged(base, kept, declared, Path::new(DIR)).expect("good");
        assert_eq!(found, *expected);
    }

    /// The first portal of an installed array is at the loopback; the file then declares all addresses.
    #[test]
    fn portals_in_the_file_replace_the_previous_ones_also_at_their_port() {
        let with = |listen: &str| config("256MiB", &format!("[[portal]]\nlisten = \"{listen}\"\n"));
        let (base, kept) = (config("256MiB", ""), with("127.0.0.1:3260"));
        check(&base, &kept, &with("0.0.0.0:3260"), &with("0.0.0.0:3260"));
        check(&base, &kept, &base, &kept);
    }

    #[test]
    fn what_commands_changed_stays_and_what_the_file_changes_counts() {
        let file = config("256MiB", "");
        check(&file, &file, &file, &file);
        // Grown by command: the old file takes nothing back; a file that grows it further does.
        let grown = config("512MiB", "");
        check(&file, &grown, &file, &grown);
        check(&file, &grown, &config("1GiB", ""), &config("1GiB", ""));
        // A volume does not shrink, whatever the file says.
        check(&grown, &grown, &file, &grown);
        // Made by command, and declared since.
        let both = config("512MiB", &(volume("a") + &volume("b")));
        check(&file, &config("512MiB", &volume("a")), &config("256MiB", &volume("b")), &both);
        // Removed from the file: it stays.
        check(&both, &both, &file, &both);
        // Read-only by command, and the file says otherwise only when it was changed.
        let read_only = config("256MiB", "read_only = true\n");
        check(&file, &read_only, &file, &read_only);
        check(&read_only, &read_only, &file, &file);
    }

    #[test]
    fn a_portal_in_the_file_replaces_the_previous_one() {
        let at = |port: u16| config("256MiB", &format!("[[portal]]\nlisten = \"127.0.0.1:{port}\"\n"));
        let none = config("256MiB", "");
        check(&at(4000), &at(4000), &at(4001), &at(4001));
        check(&none, &at(4000), &at(4001), &at(4001));
        check(&at(4000), &at(4000), &none, &at(4000));
        assert!(differences(&none, &at(4000)).is_empty());
        assert!(!differences(&at(4001), &at(4000)).is_empty());
    }

    #[test]
    fn differences_name_object_and_key_and_show_no_secret() {
        let file = config("256MiB", "");
        assert!(differences(&file, &file).is_empty());
        let now = config("512MiB", &volume("a"));
        let expected = [
            "volume v0: size: 256MiB in the declaration, 512MiB now",
            "volume a: created by command, not in the declaration",
        ];
        assert_eq!(differences(&file, &now), expected);
        let host = |secret: &str| {
            let chap = format!("chap = {{ name = \"h\", secret = \"{secret}\" }}\n");
            config(
                "256MiB",
                &format!("[[host]]\nname = \"h\"\ninitiator = \"iqn.2004-10.com.example:h\"\n{chap}"),
            )
        };
        let lines = differences(&host("twelve bytes or more"), &host("other secret, long"));
        assert_eq!(lines, ["host h: chap: secret: differs (not shown)"]);
    }

    #[test]
    fn a_key_that_is_not_there_has_its_default() {
        let group = |keys: &str| {
            let drive = "[[drive]]\nname = \"d1\"\nfile = \"d1.img\"\nsize = \"1GiB\"\n";
            let group = "[[group]]\nname = \"g1\"\nlevel = \"raid0\"\ndrives = [\"d1\"]\n";
            config("256MiB", &format!("{drive}{group}{keys}"))
        };
        let lines = differences(&group("start_degraded = true\n"), &group(""));
        assert_eq!(lines, ["group g1: start_degraded: true in the declaration, false (the default) now"]);
        let policy =
            |keys: &str| config("256MiB", &format!("[[policy]]\nname = \"gold\"\nminimum = 100\n{keys}"));
        let lines = differences(&policy("maximum = 200\n"), &policy(""));
        assert_eq!(lines, ["policy gold: maximum: 200 in the declaration, none now"]);
        let cached = |keys: &str| config("256MiB", &format!("[cache]\nmemory = \"64MiB\"\n{keys}"));
        let gold = "[[cache.partition]]\nname = \"gold\"\nminimum = \"3MiB\"\n";
        let lines = changes(&cached(gold), &cached(&gold.replace('3', "5")));
        assert_eq!(lines, ["partition gold: minimum: 5MiB, was 3MiB"]);
    }

    #[test]
    fn changes_say_what_is_created_removed_and_set() {
        let (one, two) = (config("256MiB", ""), config("512MiB", &volume("a")));
        assert_eq!(changes(&one, &two), ["volume v0: size: 512MiB, was 256MiB", "volume a: created"]);
        assert_eq!(changes(&two, &one)[1], "volume a: removed");
        let spare = "spares = [\"s0\"]\n";
        let text =
            config("256MiB", "").to_text() + "[[drive]]\nname = \"s0\"\nfile = \"s0.img\"\nsize = \"1GiB\"\n";
        let with = Config::parse(&(spare.to_owned() + &text), "array.toml", Path::new(DIR)).expect("good");
        let lines = changes(&one, &with);
        assert!(lines.contains(&"drive s0: created".to_owned()), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("spares: s0")), "{lines:?}");
    }
}
