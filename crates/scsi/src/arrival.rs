//! When a command arrived, against what has happened since to its logical unit.
//!
//! A transport has a command long before it can execute it: it collects the data of a write, waits for memory
//! or for an older command. Meanwhile another volume may be mapped to the LUN, or another host may have reset
//! the logical unit, at whichever controller. So such an event has a number in one order with the arrivals,
//! over all controllers of the process, and a command from before it is told apart when it is executed. What
//! goes to another process of the array gets numbers of the order there ([`Arrival::renumbered`]).

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use futures::task::AtomicWaker;
use serde::{Deserialize, Serialize};

/// The events of one process, in order. The process has one of them; a simulation that has several processes
/// on one thread gives each its own ([`Events::enter`]).
#[derive(Default)]
pub struct Events {
    /// Reading it is all that a command costs: only the order of its values matters.
    count: AtomicU64,
    /// Those who tell other processes of events.
    watches: Mutex<Vec<Weak<AtomicWaker>>>,
}

static OF_PROCESS: Events = Events { count: AtomicU64::new(0), watches: Mutex::new(Vec::new()) };

thread_local! {
    /// In place of those of the process.
    static OF_THREAD: RefCell<Option<Arc<Events>>> = const { RefCell::new(None) };
}

impl Events {
    /// What happens on this thread from now on is among these events. None: those of the process.
    pub fn enter(events: Option<Arc<Events>>) {
        OF_THREAD.set(events);
    }

    fn with<T>(look: impl FnOnce(&Events) -> T) -> T {
        OF_THREAD.with_borrow(|own| look(own.as_deref().unwrap_or(&OF_PROCESS)))
    }

    fn watches(&self) -> MutexGuard<'_, Vec<Weak<AtomicWaker>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a task after each event of this process, so that other processes hear of it.
pub struct EventWatch(Arc<AtomicWaker>);

impl EventWatch {
    /// From now on, until it is dropped.
    #[expect(clippy::new_without_default, reason = "it registers itself")]
    pub fn new() -> EventWatch {
        let waker = Arc::new(AtomicWaker::new());
        Events::with(|events| {
            let mut all = events.watches();
            all.retain(|watch| watch.strong_count() > 0);
            all.push(Arc::downgrade(&waker));
        });
        EventWatch(waker)
    }

    /// The next event wakes this task, and no other that was registered before.
    pub fn register(&self, waker: &Waker) {
        self.0.register(waker);
    }
}

/// When a command arrived, and for which logical unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    after: u64,
    /// The logical unit that the port's controller found at the LUN, for the controller that owns it.
    pub(crate) unit: Option<u64>,
    /// The host has yet to hear that its LUNs have changed: the owner says so, in the format of the logical
    /// unit.
    pub(crate) luns_changed: bool,
    /// It comes from another process of the array: the host may have sent it after an event here of which
    /// that process had not heard yet.
    pub(crate) is_rough: bool,
}

impl Arrival {
    /// A command that arrives now.
    pub fn now() -> Arrival {
        Arrival { after: Arrival::latest(), unit: None, luns_changed: false, is_rough: false }
    }

    /// The number of the last event.
    pub fn latest() -> u64 {
        Events::with(|events| events.count.load(Ordering::Acquire))
    }

    /// The number of an event that happens now.
    pub fn event() -> u64 {
        Events::with(|events| {
            let number = events.count.fetch_add(1, Ordering::AcqRel) + 1;
            events.watches().iter().filter_map(Weak::upgrade).for_each(|watch| watch.wake());
            number
        })
    }

    /// The number of the last event before the command.
    pub fn after(self) -> u64 {
        self.after
    }

    /// The same command in the order of another process, in which this is the last event before it.
    pub fn renumbered(self, after: u64) -> Arrival {
        Arrival { after, is_rough: true, ..self }
    }

    /// Whether the command arrived before the event of this number.
    pub fn is_before(self, event: u64) -> bool {
        self.after < event
    }

    /// The same command, for this logical unit of another controller.
    pub(crate) fn for_unit(self, key: u64, luns_changed: bool) -> Arrival {
        Arrival { unit: Some(key), luns_changed, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    #[test]
    fn every_watch_hears_of_an_event() {
        let tasks: [Arc<Woken>; 2] = Default::default();
        let watches = tasks.clone().map(|task| {
            let watch = EventWatch::new();
            watch.register(&task.into());
            watch
        });
        let before = Arrival::now();
        let number = Arrival::event();
        assert!(tasks.iter().all(|task| task.0.load(Ordering::Acquire) == 1));
        assert!(before.is_before(number) && Arrival::latest() >= number);
        assert!(!before.renumbered(number).is_before(number));
        drop(watches);
    }

    #[test]
    fn processes_of_one_thread_number_their_events_by_themselves() {
        let (one, other) = (Arc::new(Events::default()), Arc::new(Events::default()));
        Events::enter(Some(one.clone()));
        let numbers = [Arrival::event(), Arrival::event()];
        Events::enter(Some(other));
        assert_eq!((numbers, Arrival::latest(), Arrival::event()), ([1, 2], 0, 1));
        Events::enter(Some(one));
        assert_eq!(Arrival::latest(), 2);
        Events::enter(None);
    }
}
