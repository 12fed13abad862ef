//! Scenario files: read, or refused with one line that names the place.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::toml_text::{self, Misread};

/// What is wrong with a scenario file.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        cause: String,
    },
    /// It is no such TOML, or a key is misspelt.
    #[error("{path}:{line}: {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        cause: String,
    },
    /// A value that makes no sense.
    #[error("{path}: {key}: {cause}")]
    Value {
        /// The file.
        path: String,
        /// Table and key.
        key: &'static str,
        /// What is wrong.
        cause: String,
    },
}

/// The text of a scenario, and its path for messages: the file's, or the built-in one's.
pub fn text_of(file: Option<&Path>, (text, path): (&str, &str)) -> Result<(String, String), ScenarioError> {
    let Some(file) = file else { return Ok((text.into(), path.into())) };
    let path = file.display().to_string();
    match std::fs::read_to_string(file) {
        Ok(text) => Ok((text, path)),
        Err(e) => Err(ScenarioError::Read { path, cause: e.to_string() }),
    }
}

/// What the text of a scenario says; `path` is for messages.
pub fn parse<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, ScenarioError> {
    toml_text::read(text).map_err(|Misread { line, cause }| ScenarioError::Syntax {
        path: path.into(),
        line,
        cause,
    })
}
