//! The progress of commits, and the position of the next one in the journal.

use std::cell::Cell;

use world::sync::Signal;

/// Requested and completed commits.
#[derive(Default)]
pub(crate) struct Commit {
    pub(crate) wanted: Cell<u64>,
    pub(crate) started: Cell<u64>,
    pub(crate) done: Cell<u64>,
    pub(crate) closed: Cell<bool>,
    pub(crate) timer_runs: Cell<bool>,
    pub(crate) request: Signal,
    /// Wakes when a commit begins or ends, or a checkpoint ends.
    pub(crate) progress: Signal,
}

impl Commit {
    /// The commit to which a change made now belongs.
    pub(crate) fn next(&self) -> u64 {
        self.started.get() + 1
    }

    /// The last durable commit.
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.started.get() > self.done.get()
    }

    pub(crate) fn ask_for(&self, commit: u64) {
        if commit > self.wanted.get() {
            self.wanted.set(commit);
            self.request.wake_all();
        }
    }

    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.request.wake_all();
    }

    pub(crate) fn wake_everybody(&self) {
        self.progress.wake_all();
    }
}

/// The position of the next frame.
pub(crate) struct Journal {
    pub(crate) generation: Cell<u64>,
    pub(crate) sequence: Cell<u64>,
    pub(crate) offset: Cell<u64>,
    /// A checkpoint is being written; until it is in force, the other half is needed.
    pub(crate) checkpoint_runs: Cell<bool>,
    /// The next commit is the last one before a checkpoint.
    pub(crate) ends: Cell<bool>,
}

impl Journal {
    pub(crate) fn new(generation: u64, sequence: u64) -> Journal {
        Journal {
            generation: Cell::new(generation),
            sequence: Cell::new(sequence),
            offset: Cell::new(0),
            checkpoint_runs: Cell::new(false),
            ends: Cell::new(false),
        }
    }
}
