//! Points in time, as they are shown and typed.

#![expect(clippy::disallowed_methods, reason = "an age is counted from the time of day")]

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// A time of day in UTC, to the second.
pub(crate) fn time(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or_default();
    Timestamp::from_second(seconds).map_or_else(|_| unix_ms.to_string(), |t| t.to_string())
}

/// Milliseconds since 1970 of an age or a time.
///
/// # Errors
/// It is neither.
pub(crate) fn since(text: &str) -> Result<u64, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(u64::try_from(time.as_millisecond()).unwrap_or_default());
    }
    let age = units::parse_duration(text)
        .map_err(|why| format!("{why}; or a point in time, as in 2026-11-23T08:00:00Z"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        assert_eq!(since("1970-01-01T00:00:01.5Z").ok(), Some(1500));
        let now = since("0s").expect("now");
        assert!(now.abs_diff(since("2h").expect("ago") + 7_200_000) < 10_000);
        for wrong in ["", "h", "2", "2y", "99999999999999999999h", "yesterday"] {
            assert!(since(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(time(1_763_856_000_123), "2025-11-23T00:00:00Z");
    }
}
