//! Standard output that cannot be written, for everything that prints: an error on a full device, a silent
//! end when the reader of a pipe has left.
//!
//! Texts of files, hosts and registries do nothing on a terminal: here `println!` and `eprintln!` write
//! control characters as escapes, except line breaks. What has colours of masu's own goes through
//! [`print()`], with its texts escaped before; what a program reads, through [`print_data`].

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::exit;

use clap::Parser;
use lab_core::console;

/// The exit status that shells report for a program that wrote to a pipe without a reader: 128 plus the
/// number of SIGPIPE.
const NO_READER: i32 = 141;
/// The exit status of a failure.
const FAILED: i32 = 2;

/// What `println!` and `eprintln!` panic with, before the error.
const PANICS: [&str; 2] = ["failed printing to stdout: ", "failed printing to stderr: "];

macro_rules! println {
    () => { $crate::stdout::line(format_args!("")) };
    ($($text:tt)*) => { $crate::stdout::line(format_args!($($text)*)) };
}

macro_rules! eprintln {
    () => { $crate::stdout::note(format_args!("")) };
    ($($text:tt)*) => { $crate::stdout::note(format_args!($($text)*)) };
}

/// Prints lines of text.
pub(crate) fn line(text: Arguments<'_>) {
    print(&(console::lines(&text.to_string()) + "\n"));
}

/// Prints lines of text on standard error.
pub(crate) fn note(text: Arguments<'_>) {
    console::note(&text.to_string());
}

/// Prints what a program reads, as it is; a terminal is no program.
pub(crate) fn print_data(text: &str) {
    match io::stdout().is_terminal() {
        true => print(&console::lines(&text.replace('\r', ""))),
        false => print(text),
    }
}

/// Ends the process.
pub(crate) fn failed(error: &io::Error) -> ! {
    end(error.kind() == ErrorKind::BrokenPipe, &error.to_string())
}

fn end(has_no_reader: bool, cause: &str) -> ! {
    if has_no_reader {
        exit(NO_READER);
    }
    // Standard error may be full, too.
    let _ = writeln!(io::stderr(), "masu: cannot write to standard output: {cause}");
    exit(FAILED)
}

/// Makes `println!`, which panics when it cannot write, end the process instead: here and in every crate.
pub(crate) fn end_instead_of_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let [out, err] = PANICS.map(|begin| panic.payload_as_str().and_then(|text| text.strip_prefix(begin)));
        if let Some(cause) = out {
            end(cause.starts_with("Broken pipe"), cause);
        }
        if err.is_some() {
            exit(FAILED);
        }
        usual(panic);
    }));
}

/// Prints text.
pub(crate) fn print(text: &str) {
    io::stdout().lock().write_all(text.as_bytes()).unwrap_or_else(|error| failed(&error));
    flush();
}

/// Writes what is buffered: at its end a process drops it without a word.
pub(crate) fn flush() {
    io::stdout().flush().unwrap_or_else(|error| failed(&error));
}

/// The command line. clap ends the process with success even if its help cannot be written.
pub(crate) fn command_line<T: Parser>() -> T {
    T::try_parse().unwrap_or_else(|told| {
        if let (Err(error), false) = (told.print(), told.use_stderr()) {
            failed(&error);
        }
        flush();
        exit(told.exit_code())
    })
}
