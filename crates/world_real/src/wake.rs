//! Wakes: from the same thread onto a queue without a lock or a system call, from another thread through a
//! mailbox.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

/// Number of a task in its executor.
pub(crate) type TaskId = u32;

struct Local {
    /// The mailbox of the world that runs on this thread; null when none does.
    owner: Cell<*const Mailbox>,
    ready: RefCell<VecDeque<TaskId>>,
}

thread_local! {
    static LOCAL: Local = const { Local { owner: Cell::new(ptr::null()), ready: RefCell::new(VecDeque::new()) } };
}

/// Where wakes of other threads arrive.
pub(crate) struct Mailbox {
    arrived: Mutex<Vec<TaskId>>,
    /// Whether `arrived` may hold something; spares the lock on every turn.
    any: AtomicBool,
    /// Whether the owner is about to sleep, or sleeps, in the kernel.
    asleep: AtomicBool,
    bell: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> Result<Mailbox, rustix::io::Errno> {
        // Blocking on purpose: the ring waits for it only when the descriptor is not non-blocking.
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Mailbox {
            arrived: Mutex::default(),
            any: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            bell,
        })
    }

    /// The event counter that wakes the owner out of the kernel.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Makes this the mailbox of the calling thread. Returns false if a world already runs on it.
    pub(crate) fn move_in(self: &Arc<Mailbox>) -> bool {
        LOCAL.with(|local| {
            let free = local.owner.get().is_null();
            if free {
                local.owner.set(Arc::as_ptr(self));
                local.ready.borrow_mut().clear();
            }
            free
        })
    }

    /// Gives the thread free for another world.
    pub(crate) fn move_out(&self) {
        let _ = LOCAL.try_with(|local| local.owner.set(ptr::null()));
    }

    /// The next task that is ready, oldest wake first.
    pub(crate) fn next_ready() -> Option<TaskId> {
        LOCAL.with(|local| local.ready.borrow_mut().pop_front())
    }

    /// How many tasks are ready.
    pub(crate) fn ready_count() -> usize {
        LOCAL.with(|local| local.ready.borrow().len())
    }

    /// Whether another thread has woken something.
    pub(crate) fn has_news(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Moves wakes from other threads to the own queue.
    pub(crate) fn empty(&self) {
        if !self.has_news() {
            return;
        }
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Release);
        LOCAL.with(|local| local.ready.borrow_mut().extend(arrived.drain(..)));
    }

    /// Announces a sleep. Returns false if a wake came in between, so that the owner must not sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        // Paired with `post`: either the poster sees `asleep` and rings, or the owner sees `any` and stays
        // awake.
        self.asleep.store(true, Ordering::SeqCst);
        let quiet = !self.any.load(Ordering::SeqCst);
        if !quiet {
            self.asleep.store(false, Ordering::SeqCst);
        }
        quiet
    }

    /// The owner is awake again.
    pub(crate) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Wakes the owner without a task: its loop turns once, whether it sleeps or not.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_le_bytes());
    }

    fn post(&self, id: TaskId) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.push(id);
        self.any.store(true, Ordering::SeqCst);
        drop(arrived);
        if self.asleep.swap(false, Ordering::SeqCst) {
            // Any number but zero rings. It fails only when the counter is full, and then it has woken the
            // owner already.
            let _ = rustix::io::write(&self.bell, &1u64.to_le_bytes());
        }
    }
}

/// The target of a waker: which task, and whether it is queued.
pub(crate) struct Header {
    id: TaskId,
    queued: AtomicBool,
    mailbox: Arc<Mailbox>,
}

impl Header {
    pub(crate) fn new(id: TaskId, mailbox: &Arc<Mailbox>) -> Arc<Header> {
        Arc::new(Header { id, queued: AtomicBool::new(false), mailbox: mailbox.clone() })
    }

    /// The task is about to be polled: a wake from here on queues it again.
    pub(crate) fn begin_poll(&self) {
        // A swap, not a store: it sees what a waker on another thread did before its own swap.
        self.queued.swap(false, Ordering::AcqRel);
    }

    /// The task has ended: wakes that come late do nothing.
    pub(crate) fn retire(&self) {
        self.queued.store(true, Ordering::Release);
    }
}

impl Wake for Header {
    fn wake(self: Arc<Header>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Header>) {
        let home = Arc::as_ptr(&self.mailbox);
        let queued_here = LOCAL.try_with(|local| {
            if local.owner.get() != home {
                return false;
            }
            // Load and store without a locked instruction: only this thread takes tasks off the queues. A
            // wake from another thread in between queues the task twice, which costs one empty poll.
            if !self.queued.load(Ordering::Relaxed) {
                self.queued.store(true, Ordering::Relaxed);
                local.ready.borrow_mut().push_back(self.id);
            }
            true
        });
        if queued_here != Ok(true) && !self.queued.swap(true, Ordering::AcqRel) {
            self.mailbox.post(self.id);
        }
    }
}
