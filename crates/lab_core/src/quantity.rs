//! Sizes and times as a person writes them: a number and its unit.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use units::{parse_bytes, parse_duration};

/// Bytes, written as a number or as text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "SizeText")]
pub struct Size(pub u64);

/// A time, written as text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub Duration);

/// Of a disk, a volume or a file of a scenario: the largest VHDX. The laboratory keeps books of all of it.
pub const DISK_BYTES_MAX: u64 = 64 << 40;

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

impl TryFrom<SizeText> for Size {
    type Error = String;
    fn try_from(text: SizeText) -> Result<Size, String> {
        match text {
            SizeText::Number(bytes) => Ok(Size(bytes)),
            SizeText::Text(text) => parse_bytes(&text).map(Size),
        }
    }
}

impl TryFrom<String> for Time {
    type Error = String;
    fn try_from(text: String) -> Result<Time, String> {
        parse_duration(&text).map(Time)
    }
}
