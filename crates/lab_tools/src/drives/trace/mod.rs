//! Traces of requests with their measured response times: DiskSim's validation traces, blkparse's text, fio's
//! logs. A line that is none is an error with file and line; what a trace has besides reads and writes is
//! counted and left out.

mod blkparse;
mod fio;
mod request;
mod validation;

use std::io;
use std::path::Path;

use request::{Wrong, rows};

pub use request::{Arrival, Trace, TraceRequest};

/// The longest trace: some ten million requests.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Errors in a trace.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum TraceError {
    #[error("{path}: {cause}")]
    Read {
        path: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    #[error("{path}:{line}: {cause}")]
    Line {
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        cause: String,
    },
    #[error("{path}: {cause}")]
    Whole {
        path: String,
        /// What is wrong.
        cause: String,
    },
}

fn placed(wrong: Wrong, path: &str) -> TraceError {
    let (path, cause) = (path.to_owned(), wrong.cause);
    match wrong.line {
        Some(line) => TraceError::Line { path, line, cause },
        None => TraceError::Whole { path, cause },
    }
}

/// Reads a trace; `latencies` is the log with the response times where the trace has none (fio's iolog).
pub fn load(path: &Path, latencies: Option<&Path>) -> Result<Trace, TraceError> {
    let text = read(path)?;
    let other =
        latencies.map(|path| read(path).map(|text| (text, path.display().to_string()))).transpose()?;
    let other = other.as_ref().map(|(text, path)| (text.as_str(), path.as_str()));
    parse(&text, &path.display().to_string(), other)
}

fn read(path: &Path) -> Result<String, TraceError> {
    lab_core::text_file::read_at_most(path, FILE_BYTES_MAX)
        .map_err(|cause| TraceError::Read { path: path.display().to_string(), cause })
}

/// The text of a trace of requests one after the other, as DiskSim's validation traces.
pub fn write(trace: &Trace) -> String {
    validation::write(trace)
}

/// Reads the text of a trace in whichever format it is; `path` is for messages.
pub fn parse(text: &str, path: &str, latencies: Option<(&str, &str)>) -> Result<Trace, TraceError> {
    let (number, first) = rows(text).next().unwrap_or_default();
    let first = first.trim();
    let is_iolog = first.starts_with("fio version");
    let trace = match (is_iolog, latencies) {
        (true, Some((log, log_path))) => {
            let times = fio::latencies(log).map_err(|wrong| placed(wrong, log_path))?;
            fio::iolog(text, &times)
        }
        (true, None) => Err(Wrong::whole(
            "an iolog has no response times; name the log of latencies of the same run with --latencies",
        )),
        (false, Some(_)) => {
            Err(Wrong::whole("--latencies belongs to an iolog, whose first line is \"fio version N iolog\""))
        }
        (false, None) if first.is_empty() => {
            Err(Wrong::whole("it is empty: a trace has a line for each request"))
        }
        (false, None) if validation::is_request(first) => validation::read(text),
        (false, None) if fio::is_log(first) => fio::log(text),
        (false, None) if blkparse::is_event(first) => blkparse::read(text),
        (false, None) => Err(Wrong::line(
            number,
            "not a trace: expected a line of a DiskSim validation trace, of blkparse, or of a latency log or an iolog of fio",
        )),
    };
    let trace = trace.map_err(|wrong| placed(wrong, path))?;
    let whole = |cause: &str| TraceError::Whole { path: path.into(), cause: cause.into() };
    match &trace.requests[..] {
        [] => Err(whole("no request with a response time")),
        all if all.iter().all(|request| request.response_ns == 0) => {
            Err(whole("all response times are 0: name a trace with those that were measured"))
        }
        all if !request::is_short(all) => Err(whole("its times together are more than two years")),
        _ => Ok(trace),
    }
}
