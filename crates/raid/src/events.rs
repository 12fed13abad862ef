//! What a group tells on its own, for one listener.

use std::cell::RefCell;
use std::collections::VecDeque;

use world::sync::Signal;

/// Events that nobody takes push out the oldest.
const EVENTS_MAX: usize = 64;

/// Something that happened to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// A drive was dropped.
    DriveFailed {
        /// Its place.
        position: u32,
        /// Its name.
        drive: String,
        /// Why.
        cause: String,
    },
    /// Another drive took a place; it is to be rebuilt.
    DriveReplaced {
        /// The place.
        position: u32,
        /// The drive's name.
        drive: String,
    },
    /// A drive holds all its data again.
    Rebuilt {
        /// Its place.
        position: u32,
    },
    /// A range of the group cannot be read any more, until it is written again.
    Lost {
        /// Its first byte.
        at: u64,
        /// Its length.
        len: u64,
    },
}

/// Events that nobody has taken yet.
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
