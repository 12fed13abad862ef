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

/// The longest request that a trace may have: a GiB.
const BLOCKS_MAX: u64 = 1 << 21;
/// The last block and the longest time of any trace: what arithmetic with them cannot overflow.
const LAST_MAX: u64 = 1 << 56;

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
