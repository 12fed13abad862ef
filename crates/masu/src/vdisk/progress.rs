//! How far a command is that takes long: a line that changes on a terminal, elsewhere a line every 10 s.

#![expect(clippy::disallowed_methods, reason = "a person waits in the system's time")]

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use admin::Progress;

use crate::manage::{Line, percent};

/// On a terminal a line changes so often.
const SHOW_EVERY: Duration = Duration::from_millis(200);
/// Elsewhere there is a line so often.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress of a command, on standard error. What ends sooner says nothing.
pub(super) struct Told {
    what: String,
    line: Line,
    is_terminal: bool,
    last: Instant,
}

impl Told {
    pub(super) fn new(what: String) -> Told {
        let is_terminal = std::io::stderr().is_terminal();
        Told { what, line: Line::default(), is_terminal, last: Instant::now() }
    }

    /// So much is done.
    pub(super) fn show(&mut self, done_bytes: u64, total_bytes: u64) {
        let every = if self.is_terminal { SHOW_EVERY } else { LINE_EVERY };
        if self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let progress = Progress { done_bytes, total_bytes };
        match self.is_terminal {
            true => self.line.show(&self.what, progress),
            false => {
                let (percent, all) = (percent(progress), config::format_bytes(total_bytes));
                lab_core::console::note(&format!("{}: {percent} % of {all}", self.what));
            }
        }
    }

    /// Makes room for other output.
    pub(super) fn end(&mut self) {
        self.line.end();
    }
}
