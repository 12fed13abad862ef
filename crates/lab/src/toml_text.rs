//! TOML that people write: where it does not read, the line and the cause.

use serde::de::DeserializeOwned;

/// Why a text is not the TOML that is wanted.
pub(crate) struct Misread {
    /// From 1.
    pub(crate) line: usize,
    /// What is wrong, on one line.
    pub(crate) cause: String,
}

/// Reads a text.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Misread> {
    toml::from_str(text).map_err(|e: toml::de::Error| {
        let at = e.span().map_or(0, |span| span.start).min(text.len());
        Misread {
            line: text[..at].matches('\n').count() + 1,
            cause: e.message().lines().collect::<Vec<_>>().join(" "),
        }
    })
}
