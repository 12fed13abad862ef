//! Time spans: `50ms`, `2s`, `30m`, `7d`.

use std::time::Duration;

use crate::{is_number, split};

/// A time span: a number and one of the units `us` (or `µs`), `ms`, `s`, `m` (or `min`), `h`, `d`.
///
/// # Errors
///
/// What is wrong with the text, and the grammar.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("invalid time {text:?}: write a number and a unit, as in 30s (us, ms, s, m, h or d)");
    let (number, unit) = split(text);
    // Nanoseconds of a unit: whole, so that whole numbers are exact.
    let nanos: u64 = match unit {
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(wrong()),
    };
    if !is_number(number) {
        return Err(wrong());
    }
    match number.parse::<u64>().ok().and_then(|n| n.checked_mul(nanos)) {
        Some(nanos) => Ok(Duration::from_nanos(nanos)),
        None => {
            let seconds = number.parse::<f64>().map_err(|_| wrong())? * nanos as f64 / 1e9;
            Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_are_read() {
        for (text, micros) in [
            ("5us", 5),
            ("5 µs", 5),
            ("1.5ms", 1_500),
            ("2s", 2_000_000),
            ("31m", 1_860_000_000),
            ("30min", 1_800_000_000),
            ("0.5h", 1_800_000_000),
            ("7d", 604_800_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for bad in ["", "2", "h", "2y", "-1s", "1 h 30 m", "1.s", "99999999999999999999h", "2S"] {
            let error = parse_duration(bad).expect_err(bad);
            assert!(error.contains(&format!("{bad:?}")) && error.contains("as in 30s"), "{error}");
        }
    }
}
