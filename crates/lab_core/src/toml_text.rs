//! TOML that people write: where it does not read, the line and the cause.

use serde::de::DeserializeOwned;

/// Why a text is not the TOML that is wanted.
pub struct Misread {
    /// From 1.
    pub line: usize,
    /// What is wrong, on one line.
    pub cause: String,
}

/// Reads a text.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Misread> {
    toml::from_str(text).map_err(|e: toml::de::Error| {
        let at = e.span().map_or(0, |span| span.start).min(text.len());
        Misread {
            line: text[..at].matches('\n').count() + 1,
            cause: e.message().lines().collect::<Vec<_>>().join(" "),
        }
    })
}
