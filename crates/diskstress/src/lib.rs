//! DiskStress: files of a size, a number of them at once, one thread each, written and read in order, past the page cache.
//!
//! ```text
//!   line (words) ──> Plan ──> run ──> stream (a thread for each file) ──> Outcome: MB/s, processor load
//! ```
//!
//! The same load runs natively and in a guest, where it is a single static binary: so it knows nothing of the rest of masu and takes
//! as little memory and processor as it can: a buffer for each file, no copy, content that is stamped and not computed.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures real files in real time"
)]

mod buffer;
mod line;
mod outcome;
mod pattern;
pub mod processor;
mod run;
mod stream;
mod target;

pub use line::{HELP, Line, LineError, read};
pub use outcome::{Outcome, json, table};
pub use pattern::{Direction, Pattern, PatternError, published};
pub use run::{Plan, StressError, prepare, run};
pub use target::Target;

use std::process::ExitCode;

/// The program: what the words after its name ask for. Answers on standard output; 0 done, 1 content was wrong, 2 bad input or failure.
pub fn main_with(program: &str, words: &[String]) -> ExitCode {
    let fail = |text: String| {
        eprintln!("{program}: {text}");
        ExitCode::from(2)
    };
    let line = match line::read(words) {
        Ok(Some(line)) => line,
        Ok(None) => {
            print!("{}", HELP.replace("PROGRAM", program));
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(error.to_string()),
    };
    match line.run() {
        Ok(wrong) if wrong > 0 => {
            eprintln!("{program}: {wrong} blocks of 4 KiB are not what was written");
            ExitCode::from(1)
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => fail(error.to_string()),
    }
}
