//! Sizes and time spans as people write them: one grammar for command lines, `array.toml` and scenarios.
//!
//! ```text
//!   size  = number [ " " ] [ unit ]     unit = KiB MiB GiB TiB PiB (1024), KB MB GB TB PB (1000),
//!                                              K M G T P (1024, as hypervisors use them), B or none (bytes)
//!   span  = number [ " " ] unit         unit = us (or µs) ms s m (or min) h d
//!   number = digits [ "." digits ]
//! ```
//!
//! Messages about TOML files have one set of words as well.
//!
//! Units of sizes are read without regard to case, those of time spans as they are written.

mod size;
mod span;
mod toml_words;

pub use size::{exact_bytes, format_bytes, parse_bytes};
pub use span::parse_duration;
pub use toml_words::in_words_of_toml;

/// The number at the beginning of a text, and what follows it without blanks around.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..at], text[at..].trim())
}

/// Whether it is digits, or digits, a point and digits.
fn is_number(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        None => digits(text),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
    }
}
