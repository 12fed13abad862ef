//! fio's logs: a latency log with offsets (`write_lat_log`, `log_offset=1`), or an iolog (`write_iolog`) with
//! the latency log of the same run. fio 3 and later: latencies in ns.

use world_model::drives::{BLOCK_BYTES, Kind};

use super::request::{Arrival, Trace, TraceRequest, Wrong, checked, rows};

/// A line of a latency log.
struct Line {
    /// When the request was complete.
    time_ms: u64,
    latency_ns: u64,
    /// `None`: a trim.
    kind: Option<Kind>,
    bytes: u64,
    offset: Option<Offset>,
    number: usize,
}

/// The fifth number of a line.
#[derive(Clone, Copy)]
enum Offset {
    /// A priority follows, as fio writes it since priorities are logged: this is the offset.
    Sure(u64),
    /// It is the last: an offset of an older fio, or the priority of a log without offsets.
    Perhaps(u64),
}

/// Whether a line is one of a latency log: four numbers or more between commas.
pub(super) fn is_log(line: &str) -> bool {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    words.len() >= 4 && words[..4].iter().all(|word| word.parse::<u64>().is_ok())
}

fn lines(text: &str) -> Result<Vec<Line>, Wrong> {
    let parsed = rows(text).map(|(number, line)| {
        log_line(line, number).ok_or_else(|| {
            Wrong::line(number, "expected time in ms, latency in ns, direction, bytes, and the offset")
        })
    });
    parsed.collect()
}

fn log_line(line: &str, number: usize) -> Option<Line> {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    let [time, latency, direction, bytes, ref more @ ..] = words[..] else { return None };
    let kind = match direction {
        "0" => Some(Kind::Read),
        "1" => Some(Kind::Write),
        "2" => None,
        _ => return None,
    };
    let offset = match more {
        // With log_prio it is written so.
        [] => None,
        [word] if word.starts_with("0x") => None,
        [word] => Some(Offset::Perhaps(word.parse().ok()?)),
        [word, ..] => Some(Offset::Sure(word.parse().ok()?)),
    };
    Some(Line {
        time_ms: time.parse().ok()?,
        latency_ns: latency.parse().ok()?,
        kind,
        bytes: bytes.parse().ok()?,
        offset,
        number,
    })
}

fn request(kind: Kind, offset: u64, bytes: u64, line: usize) -> Result<TraceRequest, Wrong> {
    if !offset.is_multiple_of(BLOCK_BYTES) || !bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(Wrong::line(
            line,
            format!("{bytes} bytes at {offset} are not whole blocks of 512 bytes"),
        ));
    }
    let (block, blocks) = (offset / BLOCK_BYTES, bytes / BLOCK_BYTES);
    Ok(TraceRequest { kind, block, blocks, response_ns: 0, arrival: Arrival::After(0), line })
}

/// A latency log with offsets.
pub(super) fn log(text: &str) -> Result<Trace, Wrong> {
    let lines = lines(text)?;
    // Without log_offset the fifth number, if there is one, is a priority: it never is a place of many.
    let is_place = |line: &&Line| match line.offset {
        Some(Offset::Sure(_)) => true,
        Some(Offset::Perhaps(offset)) => offset > 0 && offset.is_multiple_of(BLOCK_BYTES),
        None => false,
    };
    if lines.iter().filter(is_place).count() * 2 < lines.len() {
        return Err(Wrong::whole(
            "a latency log without offsets, or with 0 for most of them; run fio with log_offset=1, or give its \
             iolog with this log as --latencies",
        ));
    }
    let mut trace = Trace::default();
    for line in &lines {
        match (line.kind, line.offset) {
            (Some(kind), Some(Offset::Sure(offset) | Offset::Perhaps(offset))) => {
                let request = request(kind, offset, line.bytes, line.number)?;
                trace.requests.push(TraceRequest { response_ns: line.latency_ns, ..request });
            }
            _ => trace.left_out += 1,
        }
    }
    let times = lines.iter().filter(|line| line.kind.is_some() && line.offset.is_some());
    let times: Vec<u64> = times.map(|line| line.time_ms).collect();
    timed(&mut trace, &times)?;
    Ok(trace)
}

/// How long a read or a write of a log took.
pub(super) struct Latency {
    kind: Kind,
    bytes: u64,
    latency_ns: u64,
    /// When it was complete.
    time_ms: u64,
}

/// The latencies of reads and writes of a log, in its order.
pub(super) fn latencies(text: &str) -> Result<Vec<Latency>, Wrong> {
    let lines = lines(text)?;
    let latency = |line: &Line| {
        let Line { kind, bytes, latency_ns, time_ms, .. } = *line;
        Some(Latency { kind: kind?, bytes, latency_ns, time_ms })
    };
    Ok(lines.iter().filter_map(latency).collect())
}

/// A read or a write of an iolog.
struct Action<'a> {
    file: &'a str,
    kind: Kind,
    offset: u64,
    bytes: u64,
}

/// The action of a line whose words begin with the file; `None`: it is none that fio writes. `Some(None)`:
/// neither read nor write, which is counted in `left_out` if it takes time.
fn action<'a>(words: &[&'a str], left_out: &mut u64) -> Option<Option<Action<'a>>> {
    let kind = match *words.get(1)? {
        "read" => Kind::Read,
        "write" => Kind::Write,
        "trim" | "sync" | "datasync" | "wait" => {
            *left_out += 1;
            return Some(None);
        }
        "add" | "open" | "close" => return Some(None),
        _ => return None,
    };
    let (offset, bytes) = (words.get(2)?.parse().ok()?, words.get(3)?.parse().ok()?);
    Some(Some(Action { file: words[0], kind, offset, bytes }))
}

/// An iolog, of version 2 or 3, with the latencies of its reads and writes in the same order.
pub(super) fn iolog(text: &str, latencies: &[Latency]) -> Result<Trace, Wrong> {
    let mut rows = rows(text);
    let (number, version) = rows.next().map_or((1, ""), |(number, line)| (number, line.trim()));
    let first_word = match version {
        "fio version 2 iolog" => 0,
        // A time stands before the file.
        "fio version 3 iolog" => 1,
        _ => {
            return Err(Wrong::line(
                number,
                format!("{version:?} is not \"fio version 2 iolog\" or \"fio version 3 iolog\""),
            ));
        }
    };
    let mut trace = Trace::default();
    let mut times = Vec::new();
    let mut only_file = None;
    for (number, line) in rows {
        let words: Vec<&str> = line.split_ascii_whitespace().skip(first_word).collect();
        let action = action(&words, &mut trace.left_out).ok_or_else(|| {
            Wrong::line(
                number,
                "expected a file and add, open, close, read, write, trim, sync, datasync or wait, with offset and length",
            )
        })?;
        let Some(action) = action else { continue };
        if *only_file.get_or_insert(action.file) != action.file {
            return Err(Wrong::line(number, "a second file; offsets tell places on a drive only within one"));
        }
        let own = latencies.get(trace.requests.len()).ok_or_else(|| {
            Wrong::line(number, format!("the log of latencies has only {} reads and writes", latencies.len()))
        })?;
        if (own.kind, own.bytes) != (action.kind, action.bytes) {
            return Err(Wrong::line(
                number,
                "the log of latencies has another direction or size here; both must be of one run with iodepth=1",
            ));
        }
        let request = request(action.kind, action.offset, action.bytes, number)?;
        trace.requests.push(TraceRequest { response_ns: own.latency_ns, ..request });
        times.push(own.time_ms);
    }
    if trace.requests.len() < latencies.len() {
        return Err(Wrong::whole(format!(
            "the log of latencies has {} reads and writes, and this iolog {}; both must be of one run",
            latencies.len(),
            trace.requests.len()
        )));
    }
    timed(&mut trace, &times)?;
    Ok(trace)
}

/// Gives each request its arrival. The times of completions are whole milliseconds: where no request can have
/// come before the one before it was complete, each comes after a pause.
fn timed(trace: &mut Trace, times_ms: &[u64]) -> Result<(), Wrong> {
    let ends_ns = times_ms.iter().map(|ms| ms.checked_mul(1_000_000));
    let ends_ns: Option<Vec<u64>> = ends_ns.collect();
    let ends_ns = ends_ns.ok_or_else(|| Wrong::whole("a time of more than two years"))?;
    let begins = |i: usize| ends_ns[i].saturating_sub(trace.requests[i].response_ns);
    const RESOLUTION_NS: u64 = 1_000_000;
    let one_by_one = (1..ends_ns.len()).all(|i| begins(i) + 2 * RESOLUTION_NS >= ends_ns[i - 1]);
    let first_ns = (0..ends_ns.len()).map(begins).min().unwrap_or(0);
    let arrivals: Vec<Arrival> = (0..ends_ns.len())
        .map(|i| match (one_by_one, i) {
            (true, 0) => Arrival::After(0),
            (true, i) => Arrival::After(begins(i).saturating_sub(ends_ns[i - 1])),
            (false, i) => Arrival::At(begins(i) - first_ns),
        })
        .collect();
    for (request, arrival) in trace.requests.iter_mut().zip(arrivals) {
        *request = checked(TraceRequest { arrival, ..*request })?;
    }
    if !one_by_one {
        trace.requests.sort_by_key(|request| match request.arrival {
            Arrival::At(ns) | Arrival::After(ns) => (ns, request.line),
        });
    }
    Ok(())
}
