//! Values as text: tables in TOML, which people can read in the store.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{TOO_LONG, VALUE_LEN_MAX};

/// A value that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged value of {key} in the registry: {cause}")]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct RecordError {
    pub key: String,
    pub cause: String,
}

impl RecordError {
    /// Of the value of a key.
    pub fn new(key: &str, cause: impl Into<String>) -> RecordError {
        RecordError { key: key.into(), cause: cause.into() }
    }
}

/// A table as a value.
pub fn encode<T: Serialize>(table: &T) -> Vec<u8> {
    toml::to_string(table).expect("a table of numbers and names").into_bytes()
}

/// The table that is the value of a key.
///
/// # Errors
/// The value is no such table.
pub fn decode<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, RecordError> {
    if value == TOO_LONG {
        return Err(RecordError::new(key, format!("longer than {VALUE_LEN_MAX} bytes")));
    }
    let text = std::str::from_utf8(value).map_err(|e| RecordError::new(key, e.to_string()))?;
    toml::from_str(text).map_err(|e| RecordError::new(key, e.message()))
}
