//! What a trace has, and what can be wrong with it.

use world_model::drives::Kind;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Read or write.
    pub kind: Kind,
    /// The first block.
    pub block: u64,
    /// How many.
    pub blocks: u64,
    /// The measured response time.
    pub response_ns: u64,
    /// When it came.
    pub arrival: Arrival,
    /// Its line in the file, from 1.
    pub line: usize,
}

/// When a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// So long after the completion of the one before.
    After(u64),
    /// At this time, whatever else was under way.
    At(u64),
}

/// A trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order of their arrival.
    pub requests: Vec<TraceRequest>,
    /// Requests without a response, flushes, discards and the like, which are not replayed.
    pub left_out: u64,
}

impl Trace {
    /// One past the last block that is read or written.
    pub fn end_block(&self) -> u64 {
        self.requests.iter().map(|request| request.block + request.blocks).max().unwrap_or(0)
    }
}

/// What is wrong with a trace: with one of its lines, or with all of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// From 1.
    pub(super) line: Option<usize>,
    pub(super) cause: String,
}

impl Wrong {
    pub(super) fn line(line: usize, cause: impl Into<String>) -> Wrong {
        Wrong { line: Some(line), cause: cause.into() }
    }

    pub(super) fn whole(cause: impl Into<String>) -> Wrong {
        Wrong { line: None, cause: cause.into() }
    }
}

/// The lines of a trace with their numbers from 1, without those that say nothing: empty ones and comments
/// (#).
pub(super) fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // Windows' programs begin a text with a mark of its byte order.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

/// The longest request that a trace may have: a GiB.
const BLOCKS_MAX: u64 = 1 << 21;
/// The last block and the longest time of any trace: what arithmetic with them cannot overflow.
const LAST_MAX: u64 = 1 << 56;

/// Whether arithmetic with all times of a trace together cannot overflow: pauses add up.
pub(super) fn is_short(requests: &[TraceRequest]) -> bool {
    let mut sum_ns: u64 = 0;
    let adds_up = requests.iter().all(|request| {
        let pause_ns = match request.arrival {
            Arrival::After(ns) => ns,
            Arrival::At(_) => 0,
        };
        sum_ns = sum_ns.saturating_add(pause_ns).saturating_add(request.response_ns);
        sum_ns <= LAST_MAX
    });
    // Those that come at times of their own are under way together, and add up in no replay.
    adds_up || requests.iter().all(|request| matches!(request.arrival, Arrival::At(_)))
}

/// A request whose numbers have been read; the error says which one is impossible.
pub(super) fn checked(request: TraceRequest) -> Result<TraceRequest, Wrong> {
    let time_ns = match request.arrival {
        Arrival::After(ns) | Arrival::At(ns) => ns,
    };
    let cause = match request {
        TraceRequest { blocks: 0, .. } => "a request of no blocks",
        TraceRequest { blocks, .. } if blocks > BLOCKS_MAX => "a request of more than 1 GiB",
        TraceRequest { block, .. } if block > LAST_MAX => "a block beyond any drive",
        TraceRequest { response_ns, .. } if response_ns.max(time_ns) > LAST_MAX => {
            "a time of more than two years"
        }
        _ => return Ok(request),
    };
    Err(Wrong::line(request.line, cause))
}
