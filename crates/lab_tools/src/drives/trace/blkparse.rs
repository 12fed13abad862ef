//! blkparse's text: an event on each line, of which those that issue a request to the drive (D) and complete
//! it (C) tell its response time; without any D, the ones that queue it (Q).

use std::collections::{BTreeMap, VecDeque};

use world_model::drives::Kind;

use super::request::{Arrival, Trace, TraceRequest, Wrong, checked, rows};

/// An event of a read or a write.
struct Event {
    device: (u32, u32),
    time_ns: u64,
    action: Action,
    request: Option<(Kind, u64, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Queued,
    Issued,
    Completed,
    Other,
}

/// Whether a line begins like an event: the numbers of a device.
pub(super) fn is_event(line: &str) -> bool {
    line.split_ascii_whitespace().next().is_some_and(|word| device(word).is_some())
}

/// Whether a line begins the totals that follow the events: "CPU0 (sda):", or "Total (sda):" of one
/// processor.
fn begins_totals(line: &str) -> bool {
    let line = line.trim();
    (line.starts_with("CPU") || line.starts_with("Total")) && line.ends_with(':')
}

fn device(word: &str) -> Option<(u32, u32)> {
    let (major, minor) = word.split_once(',')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

pub(super) fn read(text: &str) -> Result<Trace, Wrong> {
    let mut events = Vec::new();
    for (number, line) in rows(text) {
        if begins_totals(line) {
            break;
        }
        let event = event(line).ok_or_else(|| {
            Wrong::line(number, "expected device, cpu, number, time, pid, action, RWBS, block + blocks")
        })?;
        events.push((number, event));
    }
    if let Some((line, _)) = events.iter().find(|(_, event)| event.device != events[0].1.device) {
        return Err(Wrong::line(*line, "a second device; trace one, or select it with blkparse -d"));
    }
    let has_issued = events.iter().any(|(_, event)| event.action == Action::Issued);
    let from = if has_issued { Action::Issued } else { Action::Queued };
    paired(&events, from)
}

/// Each completion with the issue that it belongs to.
fn paired(events: &[(usize, Event)], from: Action) -> Result<Trace, Wrong> {
    let mut begun: BTreeMap<(bool, u64, u64), VecDeque<(usize, u64)>> = BTreeMap::new();
    let first_ns = events.iter().map(|(_, event)| event.time_ns).min().unwrap_or(0);
    let mut trace = Trace::default();
    for (line, event) in events {
        let Some((kind, block, blocks)) = event.request else {
            trace.left_out += u64::from(event.action == Action::Completed);
            continue;
        };
        let key = (kind == Kind::Read, block, blocks);
        if event.action == from {
            begun.entry(key).or_default().push_back((*line, event.time_ns));
        }
        if event.action != Action::Completed {
            continue;
        }
        let Some((line, at_ns)) = begun.get_mut(&key).and_then(VecDeque::pop_front) else {
            // It was issued before the trace began, or merged.
            trace.left_out += 1;
            continue;
        };
        let response_ns = event
            .time_ns
            .checked_sub(at_ns)
            .ok_or_else(|| Wrong::line(line, "a request that is completed before it is issued"))?;
        let arrival = Arrival::At(at_ns - first_ns);
        trace.requests.push(checked(TraceRequest { kind, block, blocks, response_ns, arrival, line })?);
    }
    trace.left_out += begun.values().map(|waiting| waiting.len() as u64).sum::<u64>();
    trace.requests.sort_by_key(|request| match request.arrival {
        Arrival::At(ns) | Arrival::After(ns) => (ns, request.line),
    });
    Ok(trace)
}

fn event(line: &str) -> Option<Event> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [device_word, cpu, sequence, time, _, action, rwbs, ..] = words[..] else { return None };
    cpu.parse::<u32>().ok()?;
    sequence.parse::<u64>().ok()?;
    let (seconds, nanoseconds) = time.split_once('.')?;
    if nanoseconds.len() != 9 {
        return None;
    }
    let ns = nanoseconds.parse::<u64>().ok()?;
    let time_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)?;
    let action = match action {
        "Q" => Action::Queued,
        "D" => Action::Issued,
        "C" => Action::Completed,
        _ => Action::Other,
    };
    let mut event = Event { device: device(device_word)?, time_ns, action, request: None };
    if action == Action::Other {
        return Some(event);
    }
    // F before a direction is a flush of its own; D, E and N are discards, erasures and commands without
    // data.
    let direction = rwbs.trim_start_matches('F').chars().next();
    let kind = match direction {
        Some('R') => Kind::Read,
        Some('W') => Kind::Write,
        _ => return Some(event),
    };
    if let [block, "+", blocks] = words.get(7..10)?[..] {
        let (block, blocks) = (block.parse().ok()?, blocks.parse().ok()?);
        // A flush alone has no blocks.
        event.request = (blocks > 0).then_some((kind, block, blocks));
        return Some(event);
    }
    None
}
