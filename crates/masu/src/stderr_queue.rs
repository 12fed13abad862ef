//! Standard error of a process that serves. A thread of its own writes it: who reads the log may be slow, or
//! may not read at all (a full pipe, a terminal that was stopped), and no host, lease or signal may wait for
//! that. What does not fit in the queue is lost, and the log says how many lines.

#![expect(clippy::disallowed_methods, reason = "the end of a process waits in the system's time")]

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lab_core::console;

/// What waits at most: some ten thousand lines, or the stacks of a process.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// The end of the process waits this long for a reader.
const DRAIN_TIME: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Of all lines in the queue.
    bytes: usize,
    /// Lines that did not fit, and were not reported yet.
    lost: u64,
    is_writing: bool,
}

/// What the thread does next.
enum Next {
    Line(Vec<u8>),
    /// Report that so many lines are lost.
    Lost(u64),
}

impl State {
    fn next(&mut self) -> Option<Next> {
        if let Some(line) = self.lines.pop_front() {
            self.bytes -= line.len();
            return Some(Next::Line(line));
        }
        (self.lost > 0).then(|| Next::Lost(std::mem::take(&mut self.lost)))
    }
}

/// Lines for a writer that may block.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    /// `tell_lost` reports lines that are lost, by a line in the queue.
    fn start(
        mut to: impl Write + Send + 'static,
        tell_lost: impl Fn(&Queue, u64) + Send + 'static,
    ) -> io::Result<Arc<Queue>> {
        let queue = Arc::new(Queue::default());
        let own = queue.clone();
        thread::Builder::new().name("log".into()).spawn(move || {
            loop {
                match own.take() {
                    // Where it cannot be written, it is lost.
                    Next::Line(line) => drop(to.write_all(&line).and_then(|()| to.flush())),
                    Next::Lost(lines) => tell_lost(&own, lines),
                }
            }
        })?;
        Ok(queue)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, line: &[u8]) {
        let mut state = self.state();
        if state.bytes + line.len() > QUEUE_BYTES_MAX {
            state.lost += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_vec());
        self.changed.notify_all();
    }

    /// The next step; the one before is done.
    fn take(&self) -> Next {
        let mut state = self.state();
        state.is_writing = false;
        loop {
            if let Some(next) = state.next() {
                state.is_writing = true;
                return next;
            }
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until everything is written. False: nobody read it in time.
    fn drain(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state();
        while state.is_writing || !state.lines.is_empty() || state.lost > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// Begins; lines are written directly before. Once in a process.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn begin(tell_lost: fn(u64)) -> io::Result<()> {
    let queue = Queue::start(io::stderr(), move |_, lines| tell_lost(lines))?;
    QUEUE.get_or_init(|| queue);
    Ok(())
}

/// The same, where lines are plain text.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn begin_plain() -> io::Result<()> {
    begin(|lines| note(&format!("{lines} lines are lost: standard error did not take them")))
}

/// Writes whole lines, with their line breaks.
pub(crate) fn put(lines: &[u8]) {
    match QUEUE.get() {
        Some(queue) => queue.put(lines),
        None => drop(io::stderr().write_all(lines)),
    }
}

/// Writes lines of text, in which texts of others do nothing on a terminal.
pub(crate) fn note(text: &str) {
    put((console::lines(text) + "\n").as_bytes());
}

/// Before the process ends: waits a moment until everything is written.
pub(crate) fn drain() {
    if let Some(queue) = QUEUE.get() {
        queue.drain(DRAIN_TIME);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn note_lost(queue: &Queue, lines: u64) {
        queue.put(format!("lost {lines}\n").as_bytes());
    }

    #[test]
    fn nobody_waits_for_a_reader_and_lines_without_room_are_counted() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let queue = Queue::start(writer, note_lost).expect("a thread");
        let line = [b"x".repeat((1 << 20) - 1), b"\n".to_vec()].concat();
        // One may be in the hands of the thread.
        (0..8).for_each(|_| queue.put(&line));
        let lost = queue.state().lost;
        assert!((3..=4).contains(&lost), "{lost}");
        assert!(!queue.drain(Duration::from_millis(10)), "nobody reads");
        let expected = (8 - lost) << 20;
        let mut text = vec![0; expected as usize + "lost 4\n".len()];
        reader.read_exact(&mut text).expect("reads");
        assert!(text.ends_with(format!("\nlost {lost}\n").as_bytes()));
        assert!(queue.drain(DRAIN_TIME), "all of it is written");
    }
}
