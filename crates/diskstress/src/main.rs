//! `diskstress`: the load as a program of its own, to be copied into a guest.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    diskstress::main_with("diskstress", &words)
}
