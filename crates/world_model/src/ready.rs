//! The ready tasks, and the wakers that put them there.
//!
//! A waker must be `Send`, so the queue is behind a lock; only one thread ever takes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Wake;

use world::Rng;

/// One task as its wakers know it.
pub(crate) struct Note {
    pub(crate) id: usize,
    queued: AtomicBool,
    ended: AtomicBool,
    ready: Arc<Ready>,
}

#[derive(Default)]
pub(crate) struct Ready {
    queue: Mutex<Vec<Arc<Note>>>,
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Note>>> {
        self.queue.lock().expect("nothing panics while the queue is locked")
    }

    /// One of the ready tasks, drawn from `rng`.
    pub(crate) fn pick(&self, rng: &mut Rng) -> Option<Arc<Note>> {
        let mut queue = self.lock();
        while !queue.is_empty() {
            // No draw for a single task: a run with one task has the same trace whatever else is drawn later.
            let i = if queue.len() == 1 { 0 } else { rng.usize(..queue.len()) };
            let note = queue.swap_remove(i);
            note.queued.store(false, Ordering::Relaxed);
            if !note.ended.load(Ordering::Relaxed) {
                return Some(note);
            }
        }
        None
    }

    /// Forgets everything: the notes hold the queue, and the queue the notes.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}

impl Note {
    /// A note for a new task, which is ready at once.
    pub(crate) fn new(id: usize, ready: &Arc<Ready>) -> Arc<Note> {
        let note = Arc::new(Note {
            id,
            queued: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            ready: ready.clone(),
        });
        note.wake_by_ref();
        note
    }

    /// The task has ended: late wakes do nothing, also when its number is used again.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            let ready = self.ready.clone();
            ready.lock().push(self);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().push(self.clone());
        }
    }
}
