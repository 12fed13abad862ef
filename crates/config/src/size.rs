//! Sizes in a declaration: a number of bytes, or text with a unit.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use units::parse_bytes;

#[derive(Deserialize)]
#[serde(untagged, expecting = "not a size: write a number of bytes from 0 on, or a text like \"10GiB\"")]
enum Written {
    Number(u64),
    Text(String),
}

/// Reads a size that is written as a number of bytes, or as a text with a unit.
pub(crate) fn bytes<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let bytes = match Written::deserialize(deserializer)? {
        Written::Number(bytes) => bytes,
        Written::Text(text) => parse_bytes(&text).map_err(Error::custom)?,
    };
    T::try_from(bytes).map_err(|_| Error::custom(format!("size too large: {bytes} bytes")))
}

/// The same of a key that need not be there.
pub(crate) fn some_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    bytes(deserializer).map(Some)
}
