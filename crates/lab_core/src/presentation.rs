//! What a verification shows besides its record, and the page that is made of both.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};

use crate::claim::{JudgedClaim, Published};
use crate::outputs;
use crate::proof::proof;
use crate::record::RunRecord;
use crate::report::{
    DataFile, Figure, Finding, Section, Table, VERSION, Version, WriteError, check_presentation, page_text,
    write_json, write_page,
};
use crate::schema;
use crate::sweep;
use crate::words::{command, plain};

/// What is shown of a run besides its record: nothing of the first screen but the figures.
#[derive(Clone, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Presentation {
    /// The question, as the scenario asks it.
    pub title: String,
    /// The answer in one sentence; the record keeps it.
    #[serde(skip)]
    pub answer: String,
    pub figures: Vec<Figure>,
    pub findings: Vec<Finding>,
    pub tables: Vec<Table>,
    /// Sections in reading order.
    pub sections: Vec<Section>,
    /// How it was done.
    pub method: HowItWasDone,
    /// What lies beside the report.
    pub files: Vec<DataFile>,
}

/// What the record does not say of how a run was done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HowItWasDone {
    /// The scenario file, whole.
    pub scenario_text: String,
    /// Besides masu's own.
    pub versions: Vec<Version>,
    /// What was a model.
    pub modelled: Vec<String>,
    /// What was not.
    pub real: Vec<String>,
    /// What was fitted.
    pub calibrated: Vec<String>,
    /// By how much it was scaled.
    pub scale: Option<String>,
}

/// Beside `results.json`: what [`page`] needs to make the page again.
pub const PRESENTATION: &str = "presentation.json";

/// Its key for the digest of the record that it was written with.
const RECORD: &str = "record";

/// Writes `results.json`, `presentation.json` and the page of both; gives where that is.
///
/// # Errors
///
/// [`WriteError::NoViewer`] when the program was built without the viewer; the two other files are there
/// then.
pub fn write(out: &Path, record: &RunRecord, presentation: &Presentation) -> Result<PathBuf, WriteError> {
    let mut presentation = serde_json::to_value(presentation)?;
    presentation[RECORD] = json!(record.digest);
    if cfg!(debug_assertions) {
        let faults = schema::faults(&serde_json::to_value(record)?);
        assert!(faults.is_empty(), "the record of {} breaks its schema: {faults:?}", record.verification);
        let shown = check_presentation(&presentation);
        assert!(shown.is_ok(), "the presentation of {}: {shown:?}", record.verification);
    }
    write_json(&out.join("results.json"), record)?;
    write_json(&out.join(PRESENTATION), &presentation)?;
    write_page(out, &page(record, &presentation))
}

/// Makes the page of a run again, from its record; without `presentation.json` it has the first screen and
/// the claims. Gives where it is.
///
/// # Errors
///
/// When there is no record, or the page cannot be written.
pub fn write_again(out: &Path) -> Result<PathBuf> {
    let data = data_again(out)?;
    outputs::page_again(out)?;
    Ok(write_page(out, &data)?)
}

/// The text of that page.
///
/// # Errors
///
/// When there is no record, or the program has no viewer.
pub fn page_again(out: &Path) -> Result<String> {
    Ok(page_text(&data_again(out)?)?)
}

fn data_again(out: &Path) -> Result<Value> {
    let record = RunRecord::read(&out.join("results.json"))?;
    let path = out.join(PRESENTATION);
    let presentation = match crate::text_file::read(&path) {
        Ok(text) => {
            let shown: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
            if let Err(cause) = check_presentation(&shown) {
                bail!(
                    "{}: {cause}; it is not as a run wrote it: take it from a copy, or remove it",
                    path.display()
                );
            }
            if is_of_another(&record, &shown) {
                bail!(
                    "{}: it was written with another results.json: take both from one run, or remove it",
                    path.display()
                );
            }
            shown
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Value::Null,
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    Ok(page(&record, &presentation))
}

/// Whether a presentation names another record. One of an older version names none.
fn is_of_another(record: &RunRecord, presentation: &Value) -> bool {
    let (own, named) = (record.digest.as_deref(), presentation[RECORD].as_str());
    own.zip(named).is_some_and(|(own, named)| own != named)
}

/// The data of the page. The first screen is the record's alone; where there is no presentation the page has
/// nothing more.
pub fn page(record: &RunRecord, presentation: &Value) -> Value {
    let environment = &record.environment;
    let mut page = json!({
        "version": VERSION,
        "title": record.verification,
        "scenario": record.verification,
        "world": record.world.name(),
        "generated": environment.generated,
        "answer": record.verdict.answer,
        "verdict": record.verdict.standing,
        "counts": record.verdict.tally.words(),
        "claims": record.claims.iter().map(claim).collect::<Vec<_>>(),
        "doubts": environment.doubts,
        "proof": proof(record),
        "method": {
            "command": command(&environment.command),
            "seed": record.seed.to_string(),
            "commit": record.commit,
            "machine": environment.machine,
            "repeats": environment.repeats,
            "versions": [{ "name": "masu", "version": record.version }],
        },
    });
    let mut shown = presentation.clone();
    if let (Some(method), Some(more)) = (page["method"].as_object_mut(), shown["method"].as_object_mut()) {
        if let (Some(versions), Some(Value::Array(others))) =
            (method["versions"].as_array_mut(), more.remove("versions"))
        {
            versions.extend(others);
        }
        method.append(more);
    }
    if let (Some(page), Some(shown)) = (page.as_object_mut(), shown.as_object_mut()) {
        shown.remove("method");
        shown.remove(RECORD);
        page.append(shown);
    }
    if let Some(sweep) = &record.sweep {
        let (section, figures, tables) = sweep::page(sweep);
        add(&mut page, "sections", [section]);
        add(&mut page, "figures", figures);
        add(&mut page, "tables", tables);
    }
    page
}

/// Adds to a list of the page.
fn add<T: Serialize>(page: &mut Value, list: &str, items: impl IntoIterator<Item = T>) {
    let items = items.into_iter().map(|item| json!(item));
    match &mut page[list] {
        Value::Array(all) => all.extend(items),
        none => *none = items.collect(),
    }
}

fn claim(claim: &JudgedClaim) -> Value {
    json!({
        "name": claim.name,
        "about": claim.about,
        "kind": claim.kind,
        "unit": claim.unit,
        "published": published_words(claim),
        "expected": claim.bound.map(|bound| bound.words(&claim.unit)),
        "measured": claim.estimate,
        "low": claim.low,
        "high": claim.high,
        "verdict": claim.verdict,
        "figure": claim.figure,
        "note": claim.reason,
    })
}

/// The published value with its unit.
pub fn published_words(claim: &JudgedClaim) -> Option<String> {
    claim.published.as_ref().map(|published| match published {
        Published::Words(words) => words.clone(),
        Published::Number(value) if claim.unit.is_empty() => plain(*value),
        Published::Number(value) => format!("{} {}", plain(*value), claim.unit),
    })
}
