//! The events of a group, for one listener.

use std::cell::RefCell;
use std::collections::VecDeque;

use world::sync::Signal;

/// When the queue is full, the oldest event is dropped.
const EVENTS_MAX: usize = 64;

/// An event of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum GroupEvent {
    /// A drive was dropped.
    DriveFailed {
        /// Its place.
        position: u32,
        /// Its name.
        drive: String,
        cause: String,
    },
    /// Another drive took a position; it must be rebuilt.
    DriveReplaced {
        /// The place.
        position: u32,
        /// The drive's name.
        drive: String,
    },
    /// A drive is in sync again.
    Rebuilt {
        /// Its place.
        position: u32,
    },
    /// A range of the group is lost until it is written again.
    Lost {
        /// Its first byte.
        at: u64,
        /// Its length.
        len: u64,
    },
}

/// Events in the queue.
#[derive(Default)]
pub(crate) struct Events {
    queue: RefCell<VecDeque<GroupEvent>>,
    ready: Signal,
}

impl Events {
    pub(crate) fn tell(&self, event: GroupEvent) {
        let mut queue = self.queue.borrow_mut();
        if queue.len() == EVENTS_MAX {
            queue.pop_front();
        }
        queue.push_back(event);
        drop(queue);
        self.ready.wake_all();
    }

    pub(crate) async fn next(&self) -> GroupEvent {
        self.ready.wait_for(|| self.queue.borrow_mut().pop_front()).await
    }
}
