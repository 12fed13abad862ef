//! Ctrl-C: a run stops at the next step and keeps what it has measured; a second one ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Whether a stop was requested; clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// Of what this is a part of.
    outer: Vec<Arc<AtomicBool>>,
}

/// Exit status of a program that SIGINT ended, as shells count it.
const EXIT_INTERRUPTED: i32 = 130;

impl Stop {
    /// Whether to stop.
    pub fn is_asked(&self) -> bool {
        self.outer.iter().chain([&self.asked]).any(|asked| asked.load(Ordering::Relaxed))
    }

    /// Asks to stop.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// For a part of the work: it stops with the whole, and the whole goes on without it.
    #[must_use]
    pub fn of_part(&self) -> Stop {
        let outer = self.outer.iter().chain([&self.asked]).cloned().collect();
        Stop { asked: Arc::default(), outer }
    }

    /// The stop that SIGINT and SIGTERM ask for: one for the process, whatever it runs one after the other.
    ///
    /// # Errors
    /// The signals cannot be awaited.
    pub fn on_signals() -> std::io::Result<Stop> {
        static OF_PROCESS: Mutex<Option<Stop>> = Mutex::new(None);
        let mut of_process = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stop) = &*of_process {
            return Ok(stop.clone());
        }
        let stop = Stop::default();
        let asked = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Here, not in the thread: the caller may go on only when no signal ends the process any more.
        let both = runtime.block_on(async {
            std::io::Result::Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
        })?;
        // The thread waits for signals until the process ends.
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || runtime.block_on(wait(asked, both)))?;
        Ok(of_process.insert(stop).clone())
    }
}

async fn wait(asked: Stop, (mut interrupt, mut terminate): (Signal, Signal)) {
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if asked.is_asked() {
            std::process::exit(EXIT_INTERRUPTED);
        }
        asked.ask();
        crate::console::note("stopping after this step; once more to end at once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stops_with_the_whole_and_not_the_whole_with_a_part() {
        let whole = Stop::default();
        let (first, second) = (whole.of_part(), whole.of_part());
        first.of_part().ask();
        assert!(!first.is_asked());
        first.ask();
        assert_eq!((first.is_asked(), second.is_asked(), whole.is_asked()), (true, false, false));
        whole.ask();
        assert!(second.is_asked() && second.of_part().is_asked());
    }
}
