//! The traces of DiskSim's validation set: R or W, Hit or Miss (which some leave out), block, blocks,
//! response time and the time until the next request comes, both in µs.

use world_model::drives::Kind;

use super::request::{Arrival, Trace, TraceRequest, Wrong, checked, rows};

/// Whether a line begins like one of these.
pub(super) fn is_request(line: &str) -> bool {
    matches!(line.split_ascii_whitespace().next(), Some("R" | "W"))
}

pub(super) fn read(text: &str) -> Result<Trace, Wrong> {
    let mut requests = Vec::new();
    let mut pause_ns = 0;
    for (number, line) in rows(text) {
        let (request, after_ns) = request(line, number, pause_ns).ok_or_else(|| {
            Wrong::line(number, "expected R or W, block, blocks, response time and pause in µs")
        })?;
        requests.push(checked(request)?);
        pause_ns = after_ns;
    }
    Ok(Trace { requests, left_out: 0 })
}

/// A trace of reads and writes one after the other in this format. What came at a time of its own comes at
/// once.
pub(super) fn write(trace: &Trace) -> String {
    let pauses = trace.requests.iter().skip(1).map(|next| match next.arrival {
        Arrival::After(ns) => ns,
        Arrival::At(_) => 0,
    });
    let lines = trace.requests.iter().zip(pauses.chain([0])).map(|(request, pause_ns)| {
        let kind = if request.kind == Kind::Write { 'W' } else { 'R' };
        let us = |ns: u64| ns as f64 / 1e3;
        let (response, pause) = (us(request.response_ns), us(pause_ns));
        format!("{kind} {} {} {response:.3} {pause:.3}\n", request.block, request.blocks)
    });
    lines.collect()
}

/// The request, and how long after its completion the next one comes.
fn request(line: &str, number: usize, pause_ns: u64) -> Option<(TraceRequest, u64)> {
    let mut words = line.split_ascii_whitespace().peekable();
    let kind = match words.next()? {
        "R" => Kind::Read,
        "W" => Kind::Write,
        _ => return None,
    };
    // What the makers of the trace took it for; the model finds out by itself.
    words.next_if(|word| matches!(*word, "Hit" | "Miss"));
    let [block, blocks] = [words.next()?, words.next()?].map(|word| word.parse::<u64>().ok());
    let [response_ns, after_ns] = [words.next()?, words.next()?].map(ns);
    let request = TraceRequest {
        kind,
        block: block?,
        blocks: blocks?,
        response_ns: response_ns?,
        arrival: Arrival::After(pause_ns),
        line: number,
    };
    words.next().is_none().then_some((request, after_ns?))
}

fn ns(word: &str) -> Option<u64> {
    let us = word.parse::<f64>().ok()?;
    (0.0..=1e13).contains(&us).then_some((us * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_shorter_than_a_microsecond_is_written_as_it_is() {
        let requests = vec![TraceRequest {
            arrival: Arrival::At(0),
            kind: Kind::Read,
            block: 7,
            blocks: 8,
            response_ns: 40,
            line: 1,
        }];
        assert_eq!(write(&Trace { requests, left_out: 0 }), "R 7 8 0.040 0.000\n");
    }
}
