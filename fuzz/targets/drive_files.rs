//! Traces of drives and parameter files of DiskSim. A trace that is read has only requests that a drive could
//! get; a drive that is read serves some, each of them once.
//!
//! The files of the readers are taken as they are: all of `lab_tools` would bring the array, a runtime, and
//! minutes of building.
#![no_main]
#![expect(dead_code, reason = "files are not opened")]

use world_model::drives::{DriveModel, DriveParameters, Kind, Request};

// What the readers know as `lab_core` is its one file that they use.
extern crate self as lab_core;

#[path = "../../crates/lab_core/src/text_file.rs"]
pub(crate) mod text_file;

#[path = "../../crates/lab_tools/src/drives"]
mod drives {
    pub(crate) mod disksim;
    pub(crate) mod trace;
}

/// A time or place beyond this cannot be added up.
const LAST_MAX: u64 = 1 << 56;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // An iolog and its log of latencies, if there is a line of `=` between them.
    let (text, log) = match text.split_once("\n=\n") {
        Some((text, log)) => (text, Some((log, "log"))),
        None => (text, None),
    };
    match drives::trace::parse(text, "trace", log) {
        Ok(trace) => {
            assert!(!trace.requests.is_empty(), "no request, and no word about it");
            for request in &trace.requests {
                assert!(request.blocks > 0 && request.block <= LAST_MAX && request.response_ns <= LAST_MAX);
            }
            let again = drives::trace::parse(&drives::trace::write(&trace), "again", None);
            assert_eq!(again.map(|again| again.requests.len()).ok(), Some(trace.requests.len()));
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "more than one line: {error}"),
    }
    match drives::disksim::convert(text, "drive", &|_| Err(std::io::ErrorKind::NotFound.into())) {
        Ok(converted) => serve(&converted.parameters),
        Err(error) => assert!(!error.to_string().contains('\n'), "more than one line: {error}"),
    }
});

/// Some requests from the first block to the last.
fn serve(parameters: &DriveParameters) {
    const REQUESTS: u64 = 16;
    let mut model = DriveModel::new(parameters).expect("the parameters were checked");
    let (mut done, mut served) = (Vec::new(), 0);
    for token in 0..REQUESTS {
        let block = (model.len_blocks() - 1) / (REQUESTS - 1) * token;
        let kind = if token % 3 == 0 { Kind::Write } else { Kind::Read };
        model.submit(token * 1000, Request { token, kind, block, blocks: 1 }, &mut done);
    }
    while let Some(due_ns) = model.due_ns() {
        served += done.drain(..).count();
        model.wake(due_ns, &mut done);
        if served + done.len() >= REQUESTS as usize {
            break;
        }
    }
    assert_eq!(served + done.len(), REQUESTS as usize, "every request is served once");
}
