//! Measured traces replayed on modelled drives, and how far the response times are from the measured ones.

use world_model::drives::{Completion, DriveModel, DriveParameters, ParameterError, Request};

use super::trace::{Arrival, Trace};

/// What a replay gave.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The measured response times, in the order of the trace.
    pub measured_ns: Vec<u64>,
    /// The modelled ones.
    pub response_ns: Vec<u64>,
    /// Mean response time of the trace.
    pub measured_mean_ns: f64,
    /// The mean of the modelled ones.
    pub mean_ns: f64,
    /// The root mean square of the horizontal distance between the two distributions (Ruemmler and Wilkes,
    /// 1994).
    pub demerit_ns: f64,
}

impl Replay {
    /// The demerit in percent of the measured mean.
    pub fn demerit_percent(&self) -> f64 {
        100.0 * self.demerit_ns / self.measured_mean_ns.max(1.0)
    }
}

/// Errors of a replay.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum ReplayError {
    #[error("{0}")]
    Parameters(#[from] ParameterError),
    #[error("line {line}: block {block} and {blocks} more are beyond the drive, which has {len_blocks}")]
    Beyond {
        /// Of the trace, from 1.
        line: usize,
        /// The first block of the request.
        block: u64,
        blocks: u64,
        /// The size of the drive.
        len_blocks: u64,
    },
}

/// The measured traces of the catalogue, by the name of their drive.
pub fn traces() -> [(&'static str, &'static str); 2] {
    [
        ("cheetah-9lp", include_str!("../../../world_model/catalogue/traces/cheetah-9lp.txt")),
        ("atlas-10k", include_str!("../../../world_model/catalogue/traces/atlas-10k.txt")),
    ]
}

/// Replays a trace: each request comes at its time, or as long after the completion of the one before as it
/// did when it was measured.
///
/// # Errors
///
/// If the drive cannot be, or a request lies beyond it.
pub fn replay(drive: &DriveParameters, trace: &Trace) -> Result<Replay, ReplayError> {
    let mut model = DriveModel::new(drive)?;
    let len_blocks = model.len_blocks();
    if let Some(beyond) = trace.requests.iter().find(|request| request.block + request.blocks > len_blocks) {
        let (line, block, blocks) = (beyond.line, beyond.block, beyond.blocks);
        return Err(ReplayError::Beyond { line, block, blocks, len_blocks });
    }
    let measured_ns: Vec<u64> = trace.requests.iter().map(|request| request.response_ns).collect();
    let response_ns = responses(&mut model, trace);
    let mean = |times: &[u64]| times.iter().map(|ns| *ns as f64).sum::<f64>() / times.len().max(1) as f64;
    Ok(Replay {
        measured_mean_ns: mean(&measured_ns),
        mean_ns: mean(&response_ns),
        demerit_ns: demerit(&measured_ns, &response_ns),
        measured_ns,
        response_ns,
    })
}

/// The modelled response times; the requests are on the drive.
fn responses(model: &mut DriveModel, trace: &Trace) -> Vec<u64> {
    let mut done: Vec<Completion> = Vec::new();
    let mut arrived_ns = Vec::with_capacity(trace.requests.len());
    let mut ended_ns: Vec<Option<u64>> = vec![None; trace.requests.len()];
    let mut now_ns = 0;
    for (token, request) in trace.requests.iter().enumerate() {
        let before_ns = match token.checked_sub(1) {
            Some(before) => ended(model, before, &mut ended_ns, &mut done, request.arrival),
            None => 0,
        };
        now_ns = match request.arrival {
            Arrival::After(pause_ns) => before_ns.max(now_ns) + pause_ns,
            Arrival::At(at_ns) => at_ns.max(now_ns),
        };
        wake_until(model, now_ns, &mut done);
        arrived_ns.push(now_ns);
        let (block, blocks) = (request.block, request.blocks);
        let request = Request { token: token as u64, kind: request.kind, block, blocks };
        model.submit(now_ns, request, &mut done);
        note(&mut ended_ns, &mut done);
    }
    for token in 0..ended_ns.len() {
        ended(model, token, &mut ended_ns, &mut done, Arrival::After(0));
    }
    ended_ns.iter().zip(&arrived_ns).map(|(end, from)| end.unwrap_or(*from) - from).collect()
}

/// When the request before ended, if the next one waits for it.
fn ended(
    model: &mut DriveModel,
    token: usize,
    ended_ns: &mut [Option<u64>],
    done: &mut Vec<Completion>,
    next: Arrival,
) -> u64 {
    if matches!(next, Arrival::At(_)) {
        return 0;
    }
    while ended_ns[token].is_none() {
        let Some(due_ns) = model.due_ns() else { return 0 };
        model.wake(due_ns, done);
        note(ended_ns, done);
    }
    ended_ns[token].unwrap_or(0)
}

fn note(ended_ns: &mut [Option<u64>], done: &mut Vec<Completion>) {
    for completion in done.drain(..) {
        ended_ns[completion.token as usize] = Some(completion.at_ns);
    }
}

/// Lets the drive do what is due before `now_ns`.
fn wake_until(model: &mut DriveModel, now_ns: u64, done: &mut Vec<Completion>) {
    while let Some(due_ns) = model.due_ns().filter(|due_ns| *due_ns <= now_ns) {
        model.wake(due_ns, done);
    }
}

/// The root mean square distance of equal ranks: of two distributions of as many samples, the horizontal
/// distance.
pub(super) fn demerit(a: &[u64], b: &[u64]) -> f64 {
    let sorted = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let squares = sorted(a).into_iter().zip(sorted(b)).map(|(a, b)| (a.abs_diff(b) as f64).powi(2));
    (squares.sum::<f64>() / a.len().max(1) as f64).sqrt()
}
