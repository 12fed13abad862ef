//! Ctrl-C: a run stops at the next step and keeps what it has measured; a second one ends it at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Whether a stop was requested; clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// Of what this is a part of.
    outer: Vec<Arc<AtomicBool>>,
    /// How often it is looked at before it is asked for; none: nobody counts.
    looks_left: Option<Arc<AtomicU64>>,
}

/// What somebody stopped before its end: it is left out, and is no error of the run.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the run was stopped before anything of it was measured")]
pub struct Abandoned;

/// What was done to its end; nothing where it was abandoned.
///
/// # Errors
///
/// Any other error.
pub fn unless_abandoned<T>(done: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is::<Abandoned>() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Exit status of a program that SIGINT ended, as shells count it.
const EXIT_INTERRUPTED: i32 = 130;

impl Stop {
    /// Whether to stop.
    pub fn is_asked(&self) -> bool {
        if let Some(left) = &self.looks_left
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err()
        {
            return true;
        }
        self.outer.iter().chain([&self.asked]).any(|asked| asked.load(Ordering::Relaxed))
    }

    /// One that is asked for at its look after so many: a test stops a run half-way without a clock.
    pub fn after_looks(looks: u64) -> Stop {
        Stop { looks_left: Some(Arc::new(AtomicU64::new(looks))), ..Stop::default() }
    }

    /// Asks to stop.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// For a part of the work: it stops with the whole, and the whole goes on without it.
    #[must_use]
    pub fn of_part(&self) -> Stop {
        let outer = self.outer.iter().chain([&self.asked]).cloned().collect();
        Stop { asked: Arc::default(), outer, looks_left: self.looks_left.clone() }
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

type Back = Box<dyn Fn() + Send>;

/// What the system has of this process, and would keep: mounts and devices.
static HELD: Mutex<BTreeMap<u64, Back>> = Mutex::new(BTreeMap::new());

fn held() -> MutexGuard<'static, BTreeMap<u64, Back>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something of the system that its owner takes back when it ends. A process that ends at once drops nothing:
/// there the function does it.
#[derive(Debug)]
pub struct Held(u64);

impl Held {
    /// `back`: does not wait for this process.
    pub fn new(back: impl Fn() + Send + 'static) -> Held {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        held().insert(number, Box::new(back));
        Held(number)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        held().remove(&self.0);
    }
}

/// Takes everything back, the oldest first: what lies on a file system without a server waits for nothing.
fn take_back() {
    let all = std::mem::take(&mut *held());
    all.into_values().for_each(|back| back());
}

async fn wait(asked: Stop, (mut interrupt, mut terminate): (Signal, Signal)) {
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if asked.is_asked() {
            take_back();
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
    fn what_was_abandoned_is_no_error_whatever_is_said_of_it() {
        use anyhow::Context;
        let said = |done: anyhow::Result<u8>| unless_abandoned(done).map_err(|error| error.to_string());
        assert_eq!(said(Ok(1)), Ok(Some(1)));
        assert_eq!(said(Err(Abandoned).context("the third point")), Ok(None));
        assert_eq!(said(Err(anyhow::anyhow!("a drive"))), Err("a drive".into()));
    }

    /// A second signal ended a process in the middle of its mounts: its FUSE file systems had no server any
    /// more, and the process itself waited for one of them without an end.
    #[test]
    fn what_the_system_holds_is_taken_back_once_and_the_oldest_first() {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let hold = |name: &'static str| {
            let taken = taken.clone();
            Held::new(move || taken.lock().expect("no panic").push(name))
        };
        let (_below, above, _beside) = (hold("below"), hold("above"), hold("beside"));
        drop(above);
        take_back();
        take_back();
        assert_eq!(*taken.lock().expect("no panic"), ["below", "beside"]);
    }

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
