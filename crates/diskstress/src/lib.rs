//! DiskStress: concurrent sequential I/O on N files of one size, one thread per file, bypassing the page
//! cache.
//!
//! ```text
//!   line (words) ──> Plan ──> run ──> stream (a thread for each file) ──> Outcome: MB/s, processor load
//! ```
//!
//! The same load runs natively and in a guest, as a single static binary. So it depends on nothing else of
//! masu, and uses little memory and processor time: one buffer per file, no copy, content that is stamped and
//! not computed.

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

/// Runs the program with the words after its name. Prints results on standard output. Exit status: 0 done, 1
/// wrong content was read, 2 bad input or failure.
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
            eprintln!("{program}: {wrong} blocks of 4 KiB differ from what was written");
            ExitCode::from(1)
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => fail(error.to_string()),
    }
}
