//! Sizes and times as a person writes them: a number and its unit.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// Bytes, written as a number or as text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "SizeText")]
pub struct Size(pub u64);

/// A time, written as text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub Duration);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
        let whole = |shift: u32| self.0 >> shift > 0 && self.0.is_multiple_of(1 << shift);
        let (shift, unit) = units.into_iter().find(|(shift, _)| whole(*shift)).unwrap_or((0, "B"));
        write!(f, "{} {unit}", self.0 >> shift)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SizeText {
    Number(u64),
    Text(String),
}

/// The number in front of a unit, and the unit.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    Some((number.parse().ok()?, unit.trim()))
}

/// A size from text: `4096`, `4KiB`, `1MiB`, `2GiB`, `1TiB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid size {text:?}: write it as in \"1MiB\" or \"2GiB\"");
    let (number, unit) = split_unit(text.trim()).ok_or_else(wrong)?;
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(wrong()),
    };
    let bytes = number * (1u64 << shift) as f64;
    // 2^53: beyond it a double does not hold every byte.
    if bytes.fract() != 0.0 || bytes >= (1u64 << 53) as f64 { Err(wrong()) } else { Ok(bytes as u64) }
}

impl TryFrom<SizeText> for Size {
    type Error = String;
    fn try_from(text: SizeText) -> Result<Size, String> {
        match text {
            SizeText::Number(bytes) => Ok(Size(bytes)),
            SizeText::Text(text) => parse_size(&text).map(Size),
        }
    }
}

/// "50ms", "2s", "31m": a time.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid time {text:?}: write it as in \"50ms\", \"2s\" or \"31m\"");
    let (number, unit) = split_unit(text.trim()).ok_or_else(wrong)?;
    let seconds = match unit {
        "us" | "µs" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

impl TryFrom<String> for Time {
    type Error = String;
    fn try_from(text: String) -> Result<Time, String> {
        parse_time(&text).map(Time)
    }
}
