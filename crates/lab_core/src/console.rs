//! What a command prints beside or after its work. Neither a full device nor a reader that has left ends the
//! work, or costs its record: what could not be printed on standard output is kept for the exit status.
//! Control characters of names and texts of others do nothing on a terminal.

use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use crate::words::visible;

/// The first failure of standard output: its kind, and its text.
static FAILURE: Mutex<Option<(ErrorKind, String)>> = Mutex::new(None);

/// Prints lines of an answer on standard output.
pub fn print(text: &str) {
    let written = put(&mut io::stdout().lock(), text);
    if let Err(error) = written {
        let mut first = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert((error.kind(), error.to_string()));
    }
}

/// Prints lines on standard error: progress, and what else nothing depends on. Where it cannot be written it
/// is lost.
pub fn note(text: &str) {
    let _ = put(&mut io::stderr().lock(), text);
}

/// Why standard output could not be written, if so: what was printed is not whole.
pub fn failure() -> Option<io::Error> {
    let first = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
    first.as_ref().map(|(kind, cause)| io::Error::new(*kind, cause.clone()))
}

/// Lines of masu's own, in which texts of others do nothing on a terminal.
pub fn lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// What failed and why, on one line, from the outer cause to the inner one. A cause that the one before it
/// ends with is not said again.
pub fn causes(error: &anyhow::Error) -> String {
    let mut chain = error.chain().map(ToString::to_string);
    let mut said = chain.next().unwrap_or_default();
    for cause in chain.filter(|cause| !cause.is_empty()) {
        if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

fn put(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all((lines(text) + "\n").as_bytes())?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines_and_nothing_else_controls_the_terminal() {
        assert_eq!(lines("a\u{1b}[31m\n\0b"), "a\\u{1b}[31m\n\\u{0}b");
    }
    /// "invalid value 0 for the number of heads: must be 1 to 64" stood twice in its line.
    #[test]
    fn a_cause_that_stands_in_the_message_above_it_is_said_once() {
        let inner = || io::Error::other("no room");
        let once = anyhow::Error::new(inner()).context("d.toml: no room").context("the array");
        assert_eq!(causes(&once), "the array: d.toml: no room");
        let plain = anyhow::Error::new(inner()).context("cannot write");
        assert_eq!(causes(&plain), "cannot write: no room");
        assert_eq!(causes(&anyhow::Error::new(inner())), "no room");
    }
}
