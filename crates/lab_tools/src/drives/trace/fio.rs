//! fio's logs: a latency log with offsets (`write_lat_log`, `log_offset=1`), or an iolog (`write_iolog`) with
//! the latency log of the same run. fio 3 and later: latencies in ns.

use world_model::drives::{BLOCK_BYTES, Kind};

use super::request::{Arrival, Trace, TraceRequest, Wrong, checked};

/// A line of a latency log.
struct Line {
    /// When the request was complete.
    time_ms: u64,
    latency_ns: u64,
    /// `None`: a trim.
    kind: Option<Kind>,
    bytes: u64,
    offset: Option<u64>,
    number: usize,
}

/// Whether a line is one of a latency log: four numbers or more between commas.
pub(super) fn is_log(line: &str) -> bool {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    words.len() >= 4 && words[..4].iter().all(|word| word.parse::<u64>().is_ok())
}

fn lines(text: &str) -> Result<Vec<Line>, Wrong> {
    let rows = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    rows.map(|(i, line)| {
        log_line(line, i + 1).ok_or_else(|| {
            Wrong::line(i + 1, "expected time in ms, latency in ns, direction, bytes, and the offset")
        })
    })
    .collect()
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
    let offset = more.first().map(|word| word.parse::<u64>()).transpose().ok()?;
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
    let places =
        lines.iter().filter_map(|line| line.offset.filter(|offset| offset.is_multiple_of(BLOCK_BYTES)));
    let is_anywhere = places.filter(|offset| *offset > 0).count() * 2 >= lines.len();
    if !is_anywhere && lines.len() > 1 {
        return Err(Wrong::whole(
            "a latency log without offsets; run fio with log_offset=1, or give its iolog with this log as --latencies",
        ));
    }
    let mut trace = Trace::default();
    for line in &lines {
        match (line.kind, line.offset) {
            (Some(kind), Some(offset)) => {
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

/// The latencies of reads and writes of a log, in its order, with the times of their completion.
pub(super) fn latencies(text: &str) -> Result<Vec<(Kind, u64, u64)>, Wrong> {
    let lines = lines(text)?;
    Ok(lines.iter().filter_map(|line| Some((line.kind?, line.latency_ns, line.time_ms))).collect())
}

/// An iolog, of version 2 or 3, with the latencies of its reads and writes in the same order.
pub(super) fn iolog(text: &str, latencies: &[(Kind, u64, u64)]) -> Result<Trace, Wrong> {
    let mut rows = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let version = rows.next().map_or("", |(_, line)| line.trim());
    let first_word = match version {
        "fio version 2 iolog" => 0,
        // A time stands before the file.
        "fio version 3 iolog" => 1,
        _ => {
            return Err(Wrong::line(
                1,
                format!("{version:?} is not \"fio version 2 iolog\" or \"fio version 3 iolog\""),
            ));
        }
    };
    let mut trace = Trace::default();
    let mut times = Vec::new();
    for (i, line) in rows {
        let words: Vec<&str> = line.split_ascii_whitespace().skip(first_word).collect();
        let number = i + 1;
        let wrong = || {
            Wrong::line(
                number,
                "expected a file and add, open, close, read, write, trim, sync, datasync or wait, with offset and length",
            )
        };
        let kind = match words.get(1).copied() {
            Some("read") => Kind::Read,
            Some("write") => Kind::Write,
            Some("trim" | "sync" | "datasync" | "wait") => {
                trace.left_out += 1;
                continue;
            }
            Some("add" | "open" | "close") => continue,
            _ => return Err(wrong()),
        };
        let number_at = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).ok_or_else(wrong);
        let (offset, bytes) = (number_at(2)?, number_at(3)?);
        let own = latencies.get(trace.requests.len());
        let (measured, latency_ns, time_ms) = own.copied().ok_or_else(|| {
            Wrong::line(number, format!("the log of latencies has only {} reads and writes", latencies.len()))
        })?;
        if measured != kind {
            return Err(Wrong::line(
                number,
                "the log of latencies has another direction here; both must be of one run with iodepth=1",
            ));
        }
        let request = request(kind, offset, bytes, number)?;
        trace.requests.push(TraceRequest { response_ns: latency_ns, ..request });
        times.push(time_ms);
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
