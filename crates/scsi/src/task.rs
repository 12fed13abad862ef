//! The task set of a logical unit: which commands run, for whom, and whether they were aborted.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use world::sync::Signal;

use crate::request::NexusId;

/// How many commands may run on one LU at once before TASK SET FULL: 64 sessions with a window of 128.
pub(crate) const TASKS_MAX: usize = 8192;

#[derive(Clone, Copy, Debug)]
struct Running {
    nexus: NexusId,
    tag: u64,
    /// Which use of the slot this is, so that a waiter is not misled by its next use.
    turn: u64,
    aborted: bool,
    /// The abort was asked for by another nexus.
    by_other: bool,
}

/// The commands that run.
#[derive(Default)]
pub(crate) struct TaskSet {
    slots: RefCell<Vec<Option<Running>>>,
    free: RefCell<Vec<usize>>,
    turns: Cell<u64>,
    /// Fires when an aborted command ends, and when commands are aborted.
    changed: Rc<Signal>,
    /// Aborted commands that still run.
    dying: Cell<usize>,
}

/// A command in the task set, until it is dropped.
pub(crate) struct Task<'a> {
    set: &'a TaskSet,
    slot: usize,
}

impl TaskSet {
    /// Enters a command, unless there are too many.
    pub(crate) fn enter(&self, nexus: NexusId, tag: u64) -> Option<Task<'_>> {
        self.turns.set(self.turns.get() + 1);
        let running = Running { nexus, tag, turn: self.turns.get(), aborted: false, by_other: false };
        let mut slots = self.slots.borrow_mut();
        let mut free = self.free.borrow_mut();
        let slot = match free.pop() {
            Some(slot) => slot,
            None if slots.len() >= TASKS_MAX => return None,
            None => {
                slots.push(None);
                free.reserve(slots.len());
                slots.len() - 1
            }
        };
        slots[slot] = Some(running);
        Some(Task { set: self, slot })
    }

    /// Marks the commands of the nexuses that `of` selects as aborted, but not the one that asks (`except`), and gives
    /// how many.
    pub(crate) fn abort(
        &self,
        by: Option<NexusId>,
        except: Option<&Task<'_>>,
        of: impl Fn(NexusId) -> bool,
    ) -> usize {
        let mut count = 0;
        for (slot, running) in self.slots.borrow_mut().iter_mut().enumerate() {
            let Some(running) = running else { continue };
            if of(running.nexus) && !running.aborted && except.is_none_or(|t| t.slot != slot) {
                running.aborted = true;
                running.by_other = by != Some(running.nexus);
                count += 1;
            }
        }
        self.dying.set(self.dying.get() + count);
        self.changed.wake_all();
        count
    }

    /// Marks the commands of a nexus that have this tag.
    pub(crate) fn abort_one(&self, nexus: NexusId, tag: u64) {
        let mut count = 0;
        for running in self.slots.borrow_mut().iter_mut().flatten() {
            if running.nexus == nexus && running.tag == tag && !running.aborted {
                running.aborted = true;
                count += 1;
            }
        }
        self.dying.set(self.dying.get() + count);
        self.changed.wake_all();
    }

    /// Waits until no command that was aborted before the call runs any more.
    pub(crate) async fn aborted_ended(&self) {
        let last = self.turns.get();
        self.changed
            .wait_for(|| {
                let slots = self.slots.borrow();
                let busy = slots.iter().flatten().any(|r| r.aborted && r.turn <= last);
                (!busy).then_some(())
            })
            .await;
    }
}

impl Task<'_> {
    /// Whether the command was aborted: it should end soon, and what it answers goes nowhere.
    pub(crate) fn is_aborted(&self) -> bool {
        self.set.dying.get() > 0 && self.set.slots.borrow()[self.slot].is_some_and(|r| r.aborted)
    }

    /// Whether it was another nexus that aborted the command.
    pub(crate) fn is_aborted_by_other(&self) -> bool {
        self.set.dying.get() > 0 && self.set.slots.borrow()[self.slot].is_some_and(|r| r.by_other)
    }

    /// Waits for `ready`, which is looked at when the task set or `signal` changes, or until the command is aborted (`None`).
    pub(crate) async fn wait_for<T>(
        &self,
        signal: &Signal,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut either = std::pin::pin!(self.set.changed.wait_for(|| self.is_aborted().then_some(())));
        let mut done = std::pin::pin!(signal.wait_for(&mut ready));
        std::future::poll_fn(|cx| {
            if let std::task::Poll::Ready(value) = done.as_mut().poll(cx) {
                return std::task::Poll::Ready(Some(value));
            }
            either.as_mut().poll(cx).map(|()| None)
        })
        .await
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        let ended = self.set.slots.borrow_mut()[self.slot].take();
        self.set.free.borrow_mut().push(self.slot);
        if ended.is_some_and(|r| r.aborted) {
            self.set.dying.set(self.set.dying.get() - 1);
            self.set.changed.wake_all();
        }
    }
}
