//! `masu events`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use admin::{EventQuery, EventRecord};
use anyhow::Result;
use clap::Args;

use super::request::{Where, client, wait};
use crate::table::moment::{since, time};

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
