//! What any scenario may say beside what its verification reads: who claimed it (`[source]`), which figures
//! were published (`[[published_figure]]`), what no run of it can say (`cannot_say`), over which values its
//! inputs are varied (`[[range]]`), and what every point of a sweep has instead (`[sweep]`).

use serde::Deserialize;
use toml::Value;

use super::range::{Range, RangeText};
use crate::inputs::{InputKind, inputs, unexplained};
use crate::scope::{PublishedFigure, Source};
use crate::sweep::sobol::DIMENSIONS_MAX;
use crate::toml_text::{self, Misread, Places, TomlFileError, line};

/// Keys that a verification does not see.
const KEYS: [&str; 5] = ["range", "sweep", "source", "published_figure", "cannot_say"];

#[derive(Debug, Deserialize)]
struct Written {
    #[serde(default, rename = "range")]
    ranges: Vec<RangeText>,
    #[serde(default)]
    sweep: SweepText,
    source: Option<Source>,
    #[serde(default, rename = "published_figure")]
    published_figures: Vec<PublishedFigure>,
    #[serde(default)]
    cannot_say: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepText {
    /// What only takes time has other values at every point of a sweep: `"run.repeats" = 1`.
    #[serde(default)]
    set: toml::Table,
}

/// What a scenario says beside what its verification reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// In the order of the file.
    pub ranges: Vec<Range>,
    /// Paths and values, as TOML, that every point of a sweep has.
    pub set: Vec<(String, String)>,
    /// Who claimed what is judged.
    pub source: Option<Source>,
    /// The figures of the publication.
    pub published_figures: Vec<PublishedFigure>,
    /// What no run of this kind can say.
    pub cannot_say: Vec<String>,
}

impl Frame {
    /// What the text of a scenario says; `path` is for messages.
    ///
    /// # Errors
    ///
    /// Where it does not read, or a range does not fit the scenario: with its line.
    pub fn read(text: &str, path: &str) -> Result<Frame, TomlFileError> {
        let wrong = |misread: Misread| misread.of(path);
        let at = |(at, cause): (usize, String)| wrong(Misread { line: line(text, at), cause });
        let mut written: Written = toml_text::read(text).map_err(wrong)?;
        let places = Places::of(text).map_err(wrong)?;
        let inputs = inputs(text);
        let mut ranges: Vec<Range> = Vec::new();
        for range in std::mem::take(&mut written.ranges) {
            let place = range.place();
            let is_published =
                inputs.iter().any(|i| i.name == range.name() && i.kind == InputKind::Published);
            let range = range.range(&places, is_published).map_err(at)?;
            if ranges.iter().any(|other| other.input == range.input) {
                return Err(at((place, format!("range of {}: stands here twice", range.input))));
            }
            if ranges.len() == DIMENSIONS_MAX {
                return Err(at((
                    place,
                    format!("range of {}: more than {DIMENSIONS_MAX} ranges", range.input),
                )));
            }
            ranges.push(range);
        }
        if let Some(cause) = PublishedFigure::fault(&written.published_figures) {
            return Err(TomlFileError::Value { path: path.into(), cause });
        }
        let Written { sweep, source, published_figures, cannot_say, .. } = written;
        Ok(Frame { ranges, set: set(sweep.set, &places, path)?, source, published_figures, cannot_say })
    }

    /// The chosen and calibrated inputs of a scenario that have no range and do not say why they have none.
    pub fn without_range(&self, text: &str) -> Vec<String> {
        let covers = |range: &Range, name: &str| {
            range.input == name || range.input.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
        };
        let mut all = unexplained(text);
        all.retain(|name| !self.ranges.iter().any(|range| covers(range, name)));
        all
    }

    /// The text that a verification reads: blank where this was, so that lines keep their numbers.
    pub(super) fn without(text: &str) -> Result<String, Misread> {
        Ok(Places::of(text)?.without(&KEYS))
    }
}

/// The values of `[sweep]`, each at a path that is there.
fn set(table: toml::Table, places: &Places<'_>, path: &str) -> Result<Vec<(String, String)>, TomlFileError> {
    let one = |(key, value): (String, Value)| match places.value(&key) {
        Some(own) if own.get_ref().type_str() == value.type_str() => Ok((key, value.to_string())),
        Some(own) => Err(format!("sweep.set: {key} must be of type {}", own.get_ref().type_str())),
        None => Err(format!("sweep.set: the scenario has no input {key:?}")),
    };
    let all: Result<Vec<_>, String> = table.into_iter().map(one).collect();
    all.map_err(|cause| TomlFileError::Value { path: path.into(), cause })
}
