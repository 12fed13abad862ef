//! The pulse of the worlds in this process: each loop counts its turns, so that a watchdog detects one that
//! stands still.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use crate::wake::Mailbox;

/// The worlds that run. Worlds come and go with threads: a lock at both is enough.
static PULSES: Mutex<Vec<Weak<Pulse>>> = Mutex::new(Vec::new());

/// The turns of one world's loop.
pub(crate) struct Pulse {
    /// The name of its thread.
    pub(crate) thread: String,
    turns: AtomicU64,
    mailbox: Weak<Mailbox>,
}

impl Pulse {
    /// The pulse of the world on the calling thread. It is watched until it is dropped.
    pub(crate) fn begin(mailbox: &Arc<Mailbox>) -> Arc<Pulse> {
        let thread = thread::current().name().unwrap_or("unnamed").to_owned();
        let pulse = Arc::new(Pulse { thread, turns: AtomicU64::new(0), mailbox: Arc::downgrade(mailbox) });
        let mut pulses = PULSES.lock().unwrap_or_else(PoisonError::into_inner);
        pulses.retain(|other| other.strong_count() > 0);
        pulses.push(Arc::downgrade(&pulse));
        pulse
    }

    /// Counts a turn. Only its own thread counts: a load and a store, no locked instruction.
    pub(crate) fn beat(&self) {
        self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The number of turns.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Wakes a sleeping loop, so that it turns.
    pub(crate) fn ask(&self) {
        if let Some(mailbox) = self.mailbox.upgrade() {
            mailbox.ring();
        }
    }
}

/// The worlds that run now.
pub(crate) fn pulses() -> Vec<Arc<Pulse>> {
    let pulses = PULSES.lock().unwrap_or_else(PoisonError::into_inner);
    pulses.iter().filter_map(Weak::upgrade).collect()
}
