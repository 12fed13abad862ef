//! The executor: a slab of tasks, polled in wake order.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::wake::{Header, Mailbox, TaskId};

/// The number of the root future, which lives on the stack of `run` and not in the slab.
pub(crate) const ROOT: TaskId = TaskId::MAX;

type Work = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    work: Work,
    /// Made once, so that a poll counts no references.
    waker: Waker,
    header: Arc<Header>,
}

/// The tasks of one world.
pub(crate) struct Tasks {
    /// `None`: free, or being polled right now.
    slots: RefCell<Vec<Option<Task>>>,
    free: RefCell<Vec<TaskId>>,
    mailbox: Arc<Mailbox>,
}

impl Tasks {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> Tasks {
        Tasks { slots: RefCell::default(), free: RefCell::default(), mailbox }
    }

    /// Adds a task and queues it.
    pub(crate) fn spawn(&self, work: Work) {
        let mut slots = self.slots.borrow_mut();
        let id = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(None);
            // Four billion tasks do not fit into memory: the conversion cannot fail before an allocation
            // does.
            TaskId::try_from(slots.len() - 1).expect("fewer than 2^32 tasks")
        });
        let header = Header::new(id, &self.mailbox);
        let waker = Waker::from(header.clone());
        slots[id as usize] = Some(Task { work, waker, header });
        if let Some(task) = &slots[id as usize] {
            task.waker.wake_by_ref();
        }
    }

    /// Polls a task once. The number of an ended task is ignored: its wake came late.
    pub(crate) fn poll(&self, id: TaskId) {
        let Some(mut task) = self.slots.borrow_mut().get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        task.header.begin_poll();
        // No borrow is held, because the task may spawn others.
        let ended = task.work.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready();
        if ended {
            task.header.retire();
            drop(task);
            self.free.borrow_mut().push(id);
        } else {
            self.slots.borrow_mut()[id as usize] = Some(task);
        }
    }

    /// Drops every task.
    pub(crate) fn clear(&self) {
        // Dropping a task may spawn another: repeat until none is left. The bound stops a task that respawns
        // itself for ever.
        for _ in 0..64 {
            let slots = std::mem::take(&mut *self.slots.borrow_mut());
            self.free.borrow_mut().clear();
            if slots.is_empty() {
                return;
            }
            for task in slots.iter().flatten() {
                task.header.retire();
            }
            drop(slots);
        }
    }
}
