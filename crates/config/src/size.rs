//! Sizes as people write them: `10GiB`, `512 MiB`, `4096`, `1.5TB`.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Bytes of a size with a unit: `KiB`…`PiB` are powers of 1024, `KB`…`PB` of 1000, `K`, `M`, `G`, `T` are
/// short for the binary ones (as hypervisors use them); none is bytes.
///
/// # Errors
///
/// What is wrong with the text, and an example of a size.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let scale: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "p" | "pib" => 1 << 50,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        _ => {
            return Err(format!("unknown unit {unit:?} of a size: use KiB, MiB, GiB, TiB or KB, MB, GB, TB"));
        }
    };
    let wrong = || format!("invalid size {text:?}: write for example 10GiB");
    match number.split_once('.') {
        None => number.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).ok_or_else(wrong),
        Some(_) => {
            let value: f64 = number.parse().map_err(|_| wrong())?;
            let bytes = value * scale as f64;
            if bytes.is_finite() && bytes < 9e18 { Ok(bytes.round() as u64) } else { Err(wrong()) }
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
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

/// A size for people: binary units, three significant digits.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if unit == 0 || value >= 99.95 || value.fract() == 0.0 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_bytes("10GiB"), Ok(10 << 30));
        assert_eq!(parse_bytes("10 g"), Ok(10 << 30));
        assert_eq!(parse_bytes("1.5MB"), Ok(1_500_000));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        for bad in ["", "ten", "5 parsecs", "99999999999999999999", "1.2.3G"] {
            assert!(parse_bytes(bad).is_err(), "{bad:?}");
        }
        assert_eq!(format_bytes(0), "0 B");
        assert_eq!(format_bytes(10 << 30), "10 GiB");
        assert_eq!(format_bytes(1_500_000_000), "1.40 GiB");
        assert_eq!(format_bytes(1000 << 20), "0.98 GiB");
    }
}
