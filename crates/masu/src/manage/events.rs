//! `masu events`.

#![expect(clippy::disallowed_methods, reason = "events are asked for by the time of day")]

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use admin::{EventQuery, EventRecord};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;

use super::request::{Where, client, wait};

pub(super) const HELP: &str = "\
Examples:
  masu events                        the last 100
  masu events --since 2h             of the last two hours
  masu events --since 2026-11-23T08:00:00Z
  masu events --follow --json        one JSON object a line, as they happen";

/// Default number of events.
const LAST: usize = 100;
/// Duration of one request that waits for the next event.
const FOLLOW_WAIT: Duration = Duration::from_secs(20);

#[derive(Args)]
pub(crate) struct EventsCommand {
    /// Follow: print new events as they happen
    #[arg(long, short)]
    follow: bool,
    /// Events since: an age (90s, 30m, 2h, 7d), or a time (2026-11-23T08:00:00Z)
    #[arg(long, value_parser = since)]
    since: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(what: &EventsCommand, at: &Where) -> Result<ExitCode> {
    let json = at.form.is_json()? || what.json;
    let last = if what.since.is_some() { None } else { Some(LAST) };
    let since_ms = what.since.unwrap_or_default();
    let client = client(at);
    wait(async {
        let mut query = EventQuery { after: 0, since_ms, last };
        let mut pause = Duration::ZERO;
        loop {
            let events = client.events(query, pause).await?;
            for event in &events {
                query.after = event.number;
                print(event, json)?;
            }
            // A full answer is one part of several.
            if events.is_empty() || query.last.is_some() {
                if !what.follow {
                    return Ok(ExitCode::SUCCESS);
                }
                pause = FOLLOW_WAIT;
            }
            query.last = None;
        }
    })?
}

fn print(event: &EventRecord, json: bool) -> Result<()> {
    let line = match json {
        true => serde_json::to_string(event)?,
        false => text(event),
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush())?;
    Ok(())
}

/// An event as a line of text.
pub(super) fn text(event: &EventRecord) -> String {
    let who = event.who.as_ref().map_or(String::new(), |who| format!(" (by {who})"));
    let EventRecord { severity, object, text, unix_ms, .. } = event;
    format!("{}  {severity:<7}  {object}: {text}{who}", time(*unix_ms))
}

/// A time of day in UTC, to the second.
pub(super) fn time(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or_default();
    Timestamp::from_second(seconds).map_or_else(|_| unix_ms.to_string(), |t| t.to_string())
}

/// Milliseconds since 1970 of an age or a time.
///
/// # Errors
/// It is neither.
pub(super) fn since(text: &str) -> Result<u64, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(u64::try_from(time.as_millisecond()).unwrap_or_default());
    }
    let age = units::parse_duration(text)
        .map_err(|why| format!("{why}; or a point in time, as in 2026-11-23T08:00:00Z"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(u64::MAX))
}

/// All kept events since a time, the oldest first.
///
/// # Errors
/// The array does not answer.
pub(super) fn kept(at: &Where, since_ms: u64) -> Result<Vec<EventRecord>> {
    let client = client(at);
    wait(async {
        let mut query = EventQuery { after: 0, since_ms, last: None };
        let mut all = Vec::new();
        loop {
            // A full answer is one part of several.
            let part = client.events(query, Duration::ZERO).await?;
            let Some(last) = part.last() else { return Ok(all) };
            query.after = last.number;
            all.extend(part);
        }
    })?
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
