//! Measured traces replayed on modelled drives, and how far the response times are from the measured ones.

use world_model::drives::{Completion, DriveModel, DriveParameters, Kind, ParameterError, Request};

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
    /// From its completion to the arrival of the next one.
    pub pause_ns: u64,
}

/// What a replay gave.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The modelled response times, in the order of the trace.
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
        100.0 * self.demerit_ns / self.measured_mean_ns
    }
}

/// The measured traces of the catalogue, by the name of their drive.
pub fn traces() -> [(&'static str, &'static str); 2] {
    [
        ("cheetah-9lp", include_str!("../../../world_model/catalogue/traces/cheetah-9lp.txt")),
        ("atlas-10k", include_str!("../../../world_model/catalogue/traces/atlas-10k.txt")),
    ]
}

/// Reads a trace: on each line R or W, block, blocks, response time and pause in µs. The error is the number
/// of a line that is not so.
pub fn parse_trace(text: &str) -> Result<Vec<TraceRequest>, usize> {
    let request = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let kind = match words.next()? {
            "R" => Kind::Read,
            "W" => Kind::Write,
            _ => return None,
        };
        let mut number = || words.next()?.parse::<u64>().ok();
        let [block, blocks, response_us, pause_us] = [number()?, number()?, number()?, number()?];
        let [response_ns, pause_ns] = [response_us.checked_mul(1000)?, pause_us.checked_mul(1000)?];
        Some(TraceRequest { kind, block, blocks, response_ns, pause_ns })
    };
    text.lines().enumerate().map(|(i, line)| request(line).ok_or(i + 1)).collect()
}

/// Replays a trace, one request at a time: each arrives as long after the completion of the one before as it
/// did when it was measured. The requests must lie on the drive.
pub fn replay(drive: &DriveParameters, trace: &[TraceRequest]) -> Result<Replay, ParameterError> {
    let mut model = DriveModel::new(drive)?;
    let mut done: Vec<Completion> = Vec::new();
    let mut now_ns = 0;
    let mut response_ns = Vec::with_capacity(trace.len());
    for (token, request) in trace.iter().enumerate() {
        wake_until(&mut model, now_ns, &mut done);
        let token = token as u64;
        model.submit(
            now_ns,
            Request { token, kind: request.kind, block: request.block, blocks: request.blocks },
            &mut done,
        );
        while done.is_empty() {
            let due_ns = model.due_ns().expect("a drive with a request to serve is due");
            model.wake(due_ns, &mut done);
        }
        let end_ns = done.pop().map_or(now_ns, |completion| completion.at_ns);
        response_ns.push(end_ns - now_ns);
        now_ns = end_ns + request.pause_ns;
    }
    let measured: Vec<u64> = trace.iter().map(|request| request.response_ns).collect();
    let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len().max(1) as f64;
    Ok(Replay {
        measured_mean_ns: mean(&measured),
        mean_ns: mean(&response_ns),
        demerit_ns: demerit(&measured, &response_ns),
        response_ns,
    })
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
