//! The task set of a logical unit: the running commands, their nexuses, and which of them were aborted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use world::Trace;
use world::sync::Signal;

use crate::command::CommandContext;

/// Commands that may run on one LU before TASK SET FULL: 64 sessions with a window of 128.
pub const TASKS_MAX: usize = 8192;

/// One I_T nexus (one session) within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NexusId(pub u64);

#[derive(Clone, Copy, Debug)]
struct Running {
    nexus: NexusId,
    tag: u64,
    /// The generation of the slot, so that a waiter does not mistake its next use.
    turn: u64,
    aborted: bool,
    /// Another nexus requested the abort.
    by_other: bool,
    /// No nexus did: its own has ended.
    by_end: bool,
}

/// A reusable place for a command.
#[derive(Default)]
struct Slot {
    running: Option<Running>,
    /// Where the command waits: an abort wakes it.
    waker: Option<Waker>,
}

/// The commands that run.
#[derive(Default)]
pub struct TaskSet {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<usize>>,
    turns: Cell<u64>,
    /// Wakes when an aborted command ends.
    ended: Signal,
    /// Aborted commands that still run.
    dying: Cell<usize>,
}

/// A command in the task set, until it is dropped.
pub struct Task<'a> {
    set: &'a TaskSet,
    slot: usize,
    trace: Option<&'a Trace>,
}

impl TaskSet {
    /// Enters a command; `None` if there are too many.
    pub fn enter(&self, nexus: NexusId, tag: u64) -> Option<Task<'_>> {
        self.turns.set(self.turns.get() + 1);
        let running =
            Running { nexus, tag, turn: self.turns.get(), aborted: false, by_other: false, by_end: false };
        let mut slots = self.slots.borrow_mut();
        let mut free = self.free.borrow_mut();
        let slot = match free.pop() {
            Some(slot) => slot,
            None if slots.len() >= TASKS_MAX => return None,
            None => {
                slots.push(Slot::default());
                free.reserve(slots.len());
                slots.len() - 1
            }
        };
        slots[slot].running = Some(running);
        Some(Task { set: self, slot, trace: None })
    }

    /// Marks the commands of the nexuses that `of` selects as aborted, except that of the requester
    /// (`except`); returns how many. `by` is none at the end of a nexus.
    pub fn abort(
        &self,
        by: Option<NexusId>,
        except: Option<&Task<'_>>,
        of: impl Fn(NexusId) -> bool,
    ) -> usize {
        let mut count = 0;
        for (index, slot) in self.slots.borrow_mut().iter_mut().enumerate() {
            let Some(running) = &mut slot.running else { continue };
            if of(running.nexus) && !running.aborted && except.is_none_or(|t| t.slot != index) {
                running.aborted = true;
                running.by_other = by != Some(running.nexus);
                running.by_end = by.is_none();
                count += 1;
                slot.wake();
            }
        }
        self.dying.set(self.dying.get() + count);
        count
    }

    /// Marks all commands as aborted, in one pass over them; returns the nexuses that lost some.
    pub fn abort_all(&self, by: NexusId) -> BTreeSet<NexusId> {
        let (mut lost, mut count) = (BTreeSet::new(), 0);
        for slot in self.slots.borrow_mut().iter_mut() {
            let Some(running) = slot.running.as_mut().filter(|running| !running.aborted) else { continue };
            running.aborted = true;
            running.by_other = running.nexus != by;
            lost.insert(running.nexus);
            count += 1;
            slot.wake();
        }
        self.dying.set(self.dying.get() + count);
        lost
    }

    /// Marks the commands of a nexus with this tag as aborted.
    pub fn abort_one(&self, nexus: NexusId, tag: u64) {
        let mut count = 0;
        for slot in self.slots.borrow_mut().iter_mut() {
            let Some(running) = &mut slot.running else { continue };
            if running.nexus == nexus && running.tag == tag && !running.aborted {
                running.aborted = true;
                count += 1;
                slot.wake();
            }
        }
        self.dying.set(self.dying.get() + count);
    }

    /// Waits until no command that was aborted before the call still runs.
    pub async fn aborted_ended(&self) {
        let last = self.turns.get();
        self.ended
            .wait_for(|| {
                let slots = self.slots.borrow();
                let busy = self.dying.get() > 0
                    && slots.iter().filter_map(|s| s.running).any(|r| r.aborted && r.turn <= last);
                (!busy).then_some(())
            })
            .await;
    }

    pub(crate) fn is_aborted(&self, slot: usize) -> bool {
        self.dying.get() > 0 && self.slots.borrow()[slot].running.is_some_and(|r| r.aborted)
    }

    pub(crate) fn wake_at_abort(&self, slot: usize, waker: &Waker) {
        let mut slots = self.slots.borrow_mut();
        let known = &mut slots[slot].waker;
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }
}

impl Slot {
    fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl<'a> Task<'a> {
    /// The same command, whose stages are recorded there.
    pub fn traced(mut self, trace: Option<&'a Trace>) -> Task<'a> {
        self.trace = trace;
        self
    }

    /// The context for its operations.
    pub fn context(&self) -> CommandContext<'a> {
        CommandContext::of(self.set, self.slot, self.trace)
    }

    /// Whether the command was aborted: it should end soon, and its response is discarded.
    pub fn is_aborted(&self) -> bool {
        self.set.is_aborted(self.slot)
    }

    /// Whether another nexus aborted the command.
    pub fn is_aborted_by_other(&self) -> bool {
        self.set.dying.get() > 0 && self.set.slots.borrow()[self.slot].running.is_some_and(|r| r.by_other)
    }

    /// Whether the end of its nexus aborted the command.
    pub fn is_without_nexus(&self) -> bool {
        self.set.dying.get() > 0 && self.set.slots.borrow()[self.slot].running.is_some_and(|r| r.by_end)
    }

    /// Waits for `ready`, which is checked when `signal` changes, or until the command is aborted (`None`).
    pub async fn wait_for<T>(&self, signal: &Signal, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let mut done = std::pin::pin!(signal.wait_for(&mut ready));
        poll_fn(|cx| match done.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => self.context().poll_aborted(cx).map(|()| None),
        })
        .await
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        let slot = std::mem::take(&mut self.set.slots.borrow_mut()[self.slot]);
        self.set.free.borrow_mut().push(self.slot);
        if slot.running.is_some_and(|r| r.aborted) {
            self.set.dying.set(self.set.dying.get() - 1);
            self.set.ended.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::task::Context;

    use futures::FutureExt;

    use super::*;

    /// Counts its wakes.
    struct Counted(std::sync::atomic::AtomicU32);

    impl std::task::Wake for Counted {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn an_abort_wakes_the_commands_that_it_ends_and_no_others() {
        let set = Rc::new(TaskSet::default());
        let wakers = [(); 2].map(|()| std::sync::Arc::new(Counted(0.into())));
        let tasks = [1, 2].map(|nexus| set.enter(NexusId(nexus), 7).expect("there is room"));
        for (task, waker) in tasks.iter().zip(&wakers) {
            let waker = Waker::from(waker.clone());
            assert!(task.context().poll_aborted(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(set.abort(None, None, |id| id == NexusId(1)), 1);
        let wakes = wakers.each_ref().map(|w| w.0.load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(wakes, [1, 0]);
        assert_eq!(tasks.each_ref().map(|t| t.context().is_aborted()), [true, false]);
        assert!(!CommandContext::DETACHED.is_aborted());
    }

    #[test]
    fn a_slot_that_is_used_again_is_not_aborted() {
        let set = TaskSet::default();
        let task = set.enter(NexusId(1), 7).expect("there is room");
        set.abort_one(NexusId(1), 7);
        assert!(task.is_aborted() && set.aborted_ended().now_or_never().is_none());
        drop(task);
        assert!(set.aborted_ended().now_or_never().is_some());
        let again = set.enter(NexusId(1), 7).expect("there is room");
        assert!(!again.is_aborted());
    }
}
