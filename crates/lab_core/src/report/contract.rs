//! The data contract with the report viewer: field by field as docs/report_data.md describes it.

use serde::{Deserialize, Serialize};

use super::cost::Cost;

/// The version of the contract.
pub const VERSION: u32 = 1;

/// One report.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Report {
    pub version: u32,
    /// The question.
    pub title: String,
    /// The scenario's name.
    pub scenario: String,
    /// `real` or `model`.
    pub world: &'static str,
    /// RFC 3339, UTC.
    pub generated: String,
    /// One sentence.
    pub answer: String,
    /// `pass`, `fail` or `doubt`.
    pub verdict: &'static str,
    /// Most important first.
    pub claims: Vec<Claim>,
    pub figures: Vec<Figure>,
    pub findings: Vec<Finding>,
    pub tables: Vec<Table>,
    /// Sections in reading order.
    pub sections: Vec<Section>,
    /// What makes the run doubtful.
    pub doubts: Vec<Doubt>,
    /// How it was done.
    pub method: Method,
    /// What lies beside the report.
    pub files: Vec<DataFile>,
}

/// A claim and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// "Block zeroing: time saved".
    pub name: String,
    /// Unit of the numbers.
    pub unit: String,
    /// The value in the literature.
    pub published: Option<String>,
    /// The bound that decides, in words.
    pub expected: Option<String>,
    /// The estimate.
    pub measured: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// `differs`, `undecided`, `the same`, `not judged`; of runs those of a claim.
    pub verdict: &'static str,
    /// The figure that shows it.
    pub figure: Option<String>,
    /// A few words.
    pub note: Option<String>,
}

/// A figure.
#[derive(Clone, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Figure {
    /// Unique.
    pub id: String,
    /// The finding.
    pub title: String,
    /// What is plotted.
    pub subtitle: Option<String>,
    /// `bars`, `lines`, `timeline`, `ranks`, `cdf`.
    pub kind: &'static str,
    /// X axis.
    pub x: Axis,
    /// Y axis.
    pub y: Axis,
    /// Of bars.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    pub series: Vec<Series>,
    /// Published values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Of a timeline: named stretches, drawn as shaded bands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Span>,
    /// Of a timeline: drawn in grey.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Span>,
    /// Small multiples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub panels: Vec<Panel>,
    /// One line under the figure.
    pub note: Option<String>,
}

/// An axis.
#[derive(Clone, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Axis {
    pub label: String,
    pub unit: String,
    /// Logarithmic.
    pub log: bool,
}

/// A series.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Series {
    pub name: String,
    /// Stable colour key.
    pub color: &'static str,
    /// `[x, y]` or `[x, y, low, high]`.
    pub points: Vec<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panel: Option<String>,
}

/// A published value in a figure.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Mark {
    /// "published".
    pub label: String,
    pub value: f64,
    /// Only across that group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Only across that bar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panel: Option<String>,
}

/// A stretch of a timeline, in seconds.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Span {
    pub name: String,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

/// One of several small plots.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Panel {
    pub id: String,
    pub title: String,
    /// Its own axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y: Option<Axis>,
}

/// A finding.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Finding {
    pub resource: String,
    /// The number.
    pub evidence: String,
    /// Against what.
    pub threshold: Option<String>,
    /// Whose threshold.
    pub source: Option<String>,
    /// What follows.
    pub consequence: String,
    /// What to try.
    pub r#try: Option<String>,
    /// What is lost by it, where that is known.
    pub cost: Option<Cost>,
}

/// A table.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Table {
    /// Unique.
    pub id: String,
    pub title: String,
    pub columns: Vec<Column>,
    /// Rows as long as the columns.
    pub rows: Vec<Vec<Value>>,
}

/// A column.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Column {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Right-aligned numbers.
    pub numeric: bool,
}

impl Column {
    /// A column of words.
    pub fn text(name: &str) -> Column {
        Column { name: name.into(), unit: None, numeric: false }
    }

    /// A column of numbers; an empty unit is none.
    pub fn number(name: &str, unit: &str) -> Column {
        Column { name: name.into(), unit: (!unit.is_empty()).then(|| unit.into()), numeric: true }
    }
}

/// A cell.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Value {
    Text(String),
    Number(f64),
}

/// A section.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Section {
    /// Unique.
    pub id: String,
    pub title: String,
    /// Text; an empty line begins a paragraph.
    pub text: Option<String>,
    pub figures: Vec<String>,
    pub tables: Vec<String>,
}

/// A doubt.
#[derive(Clone, Debug, Serialize, PartialEq, Deserialize)]
#[serde(from = "WrittenDoubt")]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Doubt {
    pub text: String,
    /// What was done about it.
    pub effect: Option<String>,
    #[serde(skip_serializing_if = "DoubtKind::is_other")]
    pub kind: DoubtKind,
}

/// What a doubt comes from, as far as somebody acts on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubtKind {
    /// Somebody stopped the run before its end.
    Stopped,
    /// Anything else.
    #[default]
    Other,
}

impl DoubtKind {
    fn is_other(&self) -> bool {
        *self == DoubtKind::Other
    }
}

/// The text of the doubt about a run that was stopped.
const STOPPED: &str = "The run was stopped before its end.";

impl Doubt {
    /// A doubt that has no kind of its own.
    pub fn new(text: impl Into<String>, effect: Option<String>) -> Doubt {
        Doubt { text: text.into(), effect, kind: DoubtKind::Other }
    }

    /// The run was stopped before its end; `effect` says what of it is shown.
    pub fn stopped(effect: impl Into<String>) -> Doubt {
        Doubt { text: STOPPED.into(), effect: Some(effect.into()), kind: DoubtKind::Stopped }
    }
}

/// A doubt as a record has it: one without a kind was written before doubts had kinds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDoubt {
    text: String,
    effect: Option<String>,
    kind: Option<DoubtKind>,
}

impl From<WrittenDoubt> for Doubt {
    fn from(WrittenDoubt { text, effect, kind }: WrittenDoubt) -> Doubt {
        let of_text = || if text == STOPPED { DoubtKind::Stopped } else { DoubtKind::Other };
        Doubt { kind: kind.unwrap_or_else(of_text), text, effect }
    }
}

/// How the run was done.
#[derive(Clone, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Method {
    /// The exact command.
    pub command: String,
    /// Seed, as text.
    pub seed: String,
    /// The scenario file.
    pub scenario_text: String,
    /// Name and version.
    pub versions: Vec<Version>,
    pub machine: Machine,
    /// What was a model.
    pub modelled: Vec<String>,
    /// What was not.
    pub real: Vec<String>,
    /// What was fitted.
    pub calibrated: Vec<String>,
    pub repeats: usize,
    /// By how much it was scaled.
    pub scale: Option<String>,
}

/// A component's version.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Version {
    /// Component.
    pub name: String,
    pub version: String,
}

impl Version {
    /// Of this program.
    pub fn of_masu() -> Version {
        Version { name: "masu".into(), version: env!("CARGO_PKG_VERSION").into() }
    }
}

/// The machine of a run.
#[derive(Clone, Debug, Default, Serialize, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Machine {
    /// Model.
    pub cpu: String,
    pub cores: usize,
    pub kernel: String,
    /// Name and version of the distribution; empty: not known, as in records of older versions.
    #[serde(default)]
    pub distribution: String,
    /// Block devices of the machine, with model and size.
    #[serde(default)]
    pub drives: Vec<String>,
    /// Network interfaces, with driver and speed.
    #[serde(default)]
    pub network: Vec<String>,
    pub memory: String,
    /// Mean load average.
    pub load: f64,
    /// Steal, % of CPU time.
    pub steal: f64,
}

/// A file beside the report.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct DataFile {
    /// Relative name.
    pub name: String,
    /// What it holds.
    pub about: String,
    pub rows: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison knew a stopped run by the sentence about it: another sentence, and it was said twice.
    #[test]
    fn the_doubt_about_a_stopped_run_is_known_by_its_kind_and_in_old_records_by_its_text() {
        let read = |text: &str| serde_json::from_str::<Doubt>(text).expect("a doubt");
        let stopped = Doubt::stopped("Less is shown.");
        let written = serde_json::to_string(&stopped).expect("JSON");
        assert!(written.contains("\"kind\":\"stopped\""), "{written}");
        assert_eq!(read(&written), stopped);
        let reworded = "{\"text\": \"It was ended early.\", \"effect\": null, \"kind\": \"stopped\"}";
        assert_eq!(read(reworded).kind, DoubtKind::Stopped);
        let old = |text: &str| read(&format!("{{\"text\": {text:?}, \"effect\": null}}")).kind;
        assert_eq!((old(STOPPED), old("A busy CPU.")), (DoubtKind::Stopped, DoubtKind::Other));
        let other = serde_json::to_string(&Doubt::new("A busy CPU.", None)).expect("JSON");
        assert_eq!(other, "{\"text\":\"A busy CPU.\",\"effect\":null}", "as it was written before");
    }
}
