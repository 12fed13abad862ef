//! The metrics of a run, by name: from the record of a verification, or from the JSON output of a load.
//!
//! In JSON, a number's name is its path. Elements of a list are distinguished by their texts and by their
//! number of servers or VMs; elements that are equal in these are repeats, and their numbers are samples of
//! one metric. A `series` contains samples already.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use lab_core::record::{RecordError, RunRecord};
use lab_core::report::{Doubt, DoubtKind};
use serde_json::{Map, Value};

use lab_core::words::plain;

/// What cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// No such run.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// The error of the operating system.
        cause: String,
    },
    /// No results.
    #[error("{path}: not a results.json: {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// Where and why.
        cause: String,
    },
    /// A record that no run writes.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No numbers.
    #[error("{path}: no metrics")]
    Empty {
        /// The file.
        path: String,
    },
    /// The runs have no metric in common.
    #[error("{a} and {b} have no metric in common")]
    NothingInCommon {
        /// The first.
        a: String,
        /// The second.
        b: String,
    },
}

/// A run's results.
pub(super) struct Run {
    path: PathBuf,
    /// Its properties: scenario, world, seed, …
    facts: BTreeMap<String, String>,
    pub(super) metrics: BTreeMap<String, Vec<f64>>,
    /// Of a verification.
    units: BTreeMap<String, String>,
    /// Of a verification, the values of its scenario; those of tables of one name stand together.
    inputs: Option<BTreeMap<String, Vec<String>>>,
    /// Whether it was stopped before its end.
    pub(super) stopped: bool,
    /// What makes it doubtful itself.
    pub(super) doubts: Vec<Doubt>,
}

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Most metrics of a run: nobody reads more.
const METRICS_MAX: usize = 20_000;
/// The properties of a run.
const FACTS: [&str; 6] = ["version", "scenario", "world", "seed", "quick", "scale"];
/// The properties that are equal in runs of the same kind.
const KINDS: [&str; 4] = ["scenario", "world", "quick", "scale"];
/// Not metrics: how a run is numbered, and its checks, which derive from the metrics.
const NONE: [&str; 7] = ["seed", "repeat", "checks", "conditions", "stopped", "settled", "version"];
/// Numbers that distinguish elements of a list.
const KEYS: [&str; 5] = ["servers", "vm", "files", "file_bytes", "connections"];

fn text(path: &Path) -> Result<String, CompareError> {
    let wrong = |cause: String| CompareError::Read { path: path.display().to_string(), cause };
    let mut text = String::new();
    let file = lab_core::text_file::open_regular(path).map_err(|e| wrong(e.to_string()))?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|e| wrong(e.to_string()))?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(wrong("is longer than 256 MiB".into())),
        false => Ok(text),
    }
}

/// Reads a run: a folder with `results.json`, or the file itself; a file may also hold a line of JSON for
/// each outcome.
pub(super) fn read(path: &Path) -> Result<Run, CompareError> {
    let path = if path.is_dir() { path.join("results.json") } else { path.to_owned() };
    let text = text(&path)?;
    let wrong = |cause: String| CompareError::Syntax { path: path.display().to_string(), cause };
    match RunRecord::read(&path) {
        Ok(record) => return Ok(of_record(path, &record)),
        // One of another version, or a damaged one, is not taken for something else.
        Err(error) if is_record(&text) => return Err(error.into()),
        // Of a load, or of an outcome of masu that is no verification.
        Err(_) => {}
    }
    let documents: Result<Vec<Value>, serde_json::Error> =
        serde_json::Deserializer::from_str(&text).into_iter::<Value>().collect();
    let mut documents = documents.map_err(|e| wrong(e.to_string()))?;
    let whole = if documents.len() == 1 { documents.swap_remove(0) } else { Value::Array(documents) };
    let facts = facts(&whole);
    let mut metrics = BTreeMap::new();
    walk("", &whole, &mut metrics);
    match metrics.is_empty() {
        true => Err(CompareError::Empty { path: path.display().to_string() }),
        false => Ok(Run {
            path,
            facts,
            metrics,
            units: BTreeMap::new(),
            inputs: None,
            stopped: is_stopped(&whole),
            doubts: vec![],
        }),
    }
}

fn is_record(text: &str) -> bool {
    let whole: Option<Value> = serde_json::from_str(text).ok();
    whole.is_some_and(|whole| whole.get("verification").is_some() && whole.get("claims").is_some())
}

/// Of a verification: what it measured, by name.
fn of_record(path: PathBuf, record: &RunRecord) -> Run {
    let scale = record.scale.map(|scale| ("scale", scale.to_string()));
    let facts = [
        ("version", record.version.clone()),
        ("scenario", record.verification.clone()),
        ("world", record.world.name().into()),
        ("seed", record.seed.to_string()),
        ("quick", record.environment.quick.to_string()),
    ];
    let facts = facts.into_iter().chain(scale).map(|(name, value)| (name.to_owned(), value)).collect();
    let metrics = record.metrics.iter().filter(|metric| !metric.samples.is_empty());
    let metrics = metrics.map(|metric| (metric.name(), metric.samples.clone())).collect();
    let units = record.metrics.iter().map(|metric| (metric.name(), metric.unit.clone())).collect();
    let mut inputs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for input in &record.inputs {
        inputs.entry(input.name.clone()).or_default().push(input.value.clone());
    }
    // What a run says of itself when it was stopped is said of it here, too.
    let is_other = |doubt: &&Doubt| doubt.kind != DoubtKind::Stopped;
    let doubts = record.environment.doubts.iter().filter(is_other).cloned().collect();
    Run { path, facts, metrics, units, inputs: Some(inputs), stopped: record.environment.stopped, doubts }
}

/// What a load or an outcome says of itself.
fn is_stopped(whole: &Value) -> bool {
    whole.get("stopped").and_then(Value::as_bool).unwrap_or(false)
}

impl Run {
    /// Where it lies, without the file's name.
    pub(super) fn name(&self) -> String {
        let is_results = self.path.file_name().is_some_and(|name| name == "results.json");
        let shown = if is_results { self.path.parent().unwrap_or(&self.path) } else { &self.path };
        shown.display().to_string()
    }

    /// Whether both runs are of the same verification, as far as known.
    pub(super) fn is_like(&self, other: &Run) -> bool {
        match (self.facts.get("scenario"), other.facts.get("scenario")) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
    }

    /// The properties in which the runs differ in kind. Seeds and versions may differ.
    pub(super) fn apart(&self, other: &Run) -> Vec<String> {
        let named = |name: &&&str| self.facts.get(**name) != other.facts.get(**name);
        let words = |name: &&str| {
            let of = |run: &Run| run.facts.get(*name).cloned().unwrap_or_else(|| "not said".into());
            format!("{name}: {} in A, {} in B", of(self), of(other))
        };
        KINDS.iter().filter(named).map(words).collect()
    }

    /// The unit of a metric in both runs, where it is not the same: such numbers have no ratio.
    pub(super) fn units_apart(&self, other: &Run, metric: &str) -> Option<String> {
        let (a, b) = (self.units.get(metric)?, other.units.get(metric)?);
        (a != b).then(|| format!("unit of {metric}: {a} in A, {b} in B"))
    }

    /// What it is: "run, model, seed 1, version 0.1.0".
    pub(super) fn words(&self) -> String {
        let fact = |name: &str| {
            let value = self.fact(name)?;
            Some(if matches!(name, "seed" | "version") {
                format!("{name} {value}")
            } else {
                value.to_owned()
            })
        };
        let facts: Vec<String> =
            ["scenario", "world", "seed", "version"].into_iter().filter_map(fact).collect();
        facts.join(", ")
    }

    /// The inputs in which the runs differ, where both have some: "array.cache: 256MiB in A, 32MiB in B".
    pub(super) fn inputs_apart(&self, other: &Run) -> Vec<String> {
        let (Some(a), Some(b)) = (&self.inputs, &other.inputs) else { return vec![] };
        let of = |run: &BTreeMap<String, Vec<String>>, name: &str| {
            run.get(name).map_or("not there".to_owned(), |values| values.join(", "))
        };
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        let differ = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
        differ.map(|name| format!("{name}: {} in A, {} in B", of(a, name), of(b, name))).collect()
    }

    /// The properties of the run.
    pub(super) fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str)
    }
}

fn facts(whole: &Value) -> BTreeMap<String, String> {
    let of = |name: &&str| {
        let value = match whole.get(*name)? {
            Value::String(text) => text.clone(),
            Value::Object(_) | Value::Array(_) | Value::Null => return None,
            other => other.to_string(),
        };
        Some(((*name).to_owned(), value))
    };
    FACTS.iter().filter_map(of).collect()
}

fn put(name: &str, value: f64, out: &mut BTreeMap<String, Vec<f64>>) {
    if value.is_finite() && (out.len() < METRICS_MAX || out.contains_key(name)) {
        out.entry(name.to_owned()).or_default().push(value);
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}: {name}") }
}

fn walk(path: &str, value: &Value, out: &mut BTreeMap<String, Vec<f64>>) {
    match value {
        Value::Number(number) => put(path, number.as_f64().unwrap_or(f64::NAN), out),
        Value::Object(map) => {
            let key = keys(map);
            for (name, value) in map.iter().filter(|(name, _)| !NONE.contains(&name.as_str())) {
                match value {
                    Value::Object(series) if name == "series" => of_series(path, series, out),
                    // Who it is about is in the path already.
                    Value::Number(_) if key.contains(&name.as_str()) => {}
                    _ => walk(&joined(path, name), value, out),
                }
            }
        }
        Value::Array(list) => {
            for (number, element) in list.iter().enumerate() {
                let own = match element {
                    Value::Object(map) => told_apart(map),
                    _ => String::new(),
                };
                let path = match own.is_empty() {
                    // Elements without properties are distinguished by their position, from 1.
                    true => joined(path, &(number + 1).to_string()),
                    // The list's own name adds nothing to what its elements say.
                    false => joined(list_free(path), &own),
                };
                walk(&path, element, out);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The path of a list's elements: at the top the list's name is left out.
fn list_free(path: &str) -> &str {
    path.rsplit_once(": ").map_or("", |(before, _)| before)
}

fn keys(map: &Map<String, Value>) -> Vec<&str> {
    KEYS.into_iter().filter(|key| map.contains_key(*key)).collect()
}

/// What an element of a list is about: its texts, and how many of what.
fn told_apart(map: &Map<String, Value>) -> String {
    let texts = map.iter().filter_map(|(_, value)| value.as_str().map(str::to_owned));
    let numbers = KEYS.iter().filter_map(|key| {
        let n = map.get(*key)?.as_f64()?;
        Some(format!("{} {}", plain(n), key.replace('_', " ")))
    });
    texts.chain(numbers).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Samples that the run itself names.
fn of_series(path: &str, series: &Map<String, Value>, out: &mut BTreeMap<String, Vec<f64>>) {
    for (name, samples) in series {
        for sample in samples.as_array().into_iter().flatten().filter_map(Value::as_f64) {
            put(&joined(path, name), sample, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(text: &str) -> Vec<(String, Vec<f64>)> {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("results.json"), text).expect("a file");
        read(dir.path()).map(|run| run.metrics.into_iter().collect()).unwrap_or_default()
    }

    #[test]
    fn numbers_are_named_by_their_way_and_repeats_are_samples() {
        let got = metrics(
            r#"{"version":"1","scenario":"s","seed":3,"checks":[{"name":"c","measured":1}],
                "points":[{"pattern":"r","servers":2,"repeat":0,"iops":5},{"pattern":"r","servers":2,"repeat":1,"iops":7}],
                "curve":[1.5,2.5],"series":{"a.time_s":[1,2,3]},"note":"x","none":null}"#,
        );
        let expected = [
            ("a.time_s", vec![1.0, 2.0, 3.0]),
            ("curve: 1", vec![1.5]),
            ("curve: 2", vec![2.5]),
            ("r, 2 servers: iops", vec![5.0, 7.0]),
        ];
        assert_eq!(got, expected.map(|(name, samples)| (name.to_owned(), samples)));
    }

    #[test]
    fn lines_of_json_are_outcomes() {
        let got = metrics("{\"pattern\":\"R1\",\"mb_per_s\":5.0}\n{\"pattern\":\"R1\",\"mb_per_s\":6.0}\n");
        assert_eq!(got, [("R1: mb_per_s".to_owned(), vec![5.0, 6.0])]);
    }

    #[test]
    fn what_is_no_run_gets_a_sentence() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("x.json");
        let said = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            read(&path).err().expect("refused").to_string()
        };
        assert!(said("{").contains("not a results.json"));
        for empty in ["", "{}", "[]", "null", "\"x\"", "{\"seed\":1}"] {
            assert!(said(empty).ends_with("no metrics"), "{empty}");
        }
        let other = said("{\"schema\": 2, \"verification\": \"run\", \"claims\": []}");
        assert!(!other.contains("no metrics") && other.contains("x.json"), "{other}");
        assert!(read(&dir.path().join("nowhere")).is_err());
    }
}
