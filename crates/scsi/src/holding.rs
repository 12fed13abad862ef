//! Commands that wait at a view while their logical units move to another controller of the array.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use world::sync::Signal;

use crate::request::Lun;

/// How the wait of a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The command may run.
    Over,
    Aborted,
    /// Nothing is executed here any more: the host is to send it again.
    Stopped,
}

/// The held LUNs of a view, and the commands that wait there. How many may wait is the transport's limit:
/// that of the commands of a session.
#[derive(Default)]
pub(crate) struct Holding {
    /// Whether any LUN is held: all that a command asks otherwise.
    on: Cell<bool>,
    luns: RefCell<BTreeSet<Lun>>,
    /// LUN and tag of each command that waits. One that is aborted is taken out.
    waiting: RefCell<BTreeMap<u64, (Lun, u64)>>,
    next: Cell<u64>,
    ended: Cell<bool>,
    stopped: Cell<bool>,
    changed: Signal,
}

impl Holding {
    /// Holds these LUNs and no others. The commands of the others go on.
    pub(crate) fn set(&self, luns: BTreeSet<Lun>) {
        self.on.set(!luns.is_empty());
        *self.luns.borrow_mut() = luns;
        self.changed.wake_all();
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    pub(crate) fn holds(&self, lun: Lun) -> bool {
        self.on.get() && self.luns.borrow().contains(&lun)
    }

    /// Waits until the LUN is not held.
    pub(crate) async fn pass(&self, lun: Lun, tag: u64) -> Wait {
        if !self.holds(lun) {
            return Wait::Over;
        }
        if self.ended.get() {
            return Wait::Aborted;
        }
        let number = self.next.replace(self.next.get() + 1);
        self.waiting.borrow_mut().insert(number, (lun, tag));
        let turn = || match self.waiting.borrow().contains_key(&number) {
            false => Some(Wait::Aborted),
            true if !self.holds(lun) => Some(Wait::Over),
            true => self.stopped.get().then_some(Wait::Stopped),
        };
        let wait = self.changed.wait_for(turn).await;
        self.waiting.borrow_mut().remove(&number);
        wait
    }

    /// Waits until the LUN, or with `None` any LUN, is not held, or the session has ended.
    pub(crate) async fn over(&self, lun: Option<Lun>) {
        let is_held = || lun.map_or(self.on.get(), |lun| self.holds(lun));
        let is_over = || self.ended.get() || self.stopped.get() || !is_held();
        self.changed.wait_for(|| is_over().then_some(())).await;
    }

    /// Aborts the waiting commands that `of` selects by LUN and tag.
    pub(crate) fn abort(&self, of: impl Fn(Lun, u64) -> bool) {
        self.waiting.borrow_mut().retain(|_, (lun, tag)| !of(*lun, *tag));
        self.changed.wake_all();
    }

    /// The controller stops: nobody says any more when the move is over.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        self.changed.wake_all();
    }

    /// Whether the session has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// The session has ended: no command waits any more. Returns whether it had ended before.
    pub(crate) fn end(&self) -> bool {
        self.abort(|_, _| true);
        self.ended.replace(true)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const HELD: Lun = Lun(1);

    fn held() -> Holding {
        let holding = Holding::default();
        holding.set(BTreeSet::from([HELD]));
        holding
    }

    #[test]
    fn commands_of_a_held_lun_wait_and_others_do_not() {
        let holding = held();
        assert_eq!(holding.pass(Lun(2), 7).now_or_never(), Some(Wait::Over));
        let mut waits = Box::pin(holding.pass(HELD, 7));
        assert_eq!(waits.as_mut().now_or_never(), None);
        holding.set(BTreeSet::new());
        assert_eq!(waits.now_or_never(), Some(Wait::Over));
    }

    #[test]
    fn a_command_that_waits_where_the_controller_stops_is_to_be_sent_again() {
        let holding = held();
        let (mut waits, mut manages) = (Box::pin(holding.pass(HELD, 7)), Box::pin(holding.over(Some(HELD))));
        assert!(waits.as_mut().now_or_never().is_none() && manages.as_mut().now_or_never().is_none());
        holding.stop();
        assert_eq!(waits.now_or_never(), Some(Wait::Stopped));
        assert_eq!(manages.now_or_never(), Some(()));
        assert_eq!(holding.pass(Lun(2), 8).now_or_never(), Some(Wait::Over), "it is not held");
    }

    #[test]
    fn an_abort_ends_the_wait_of_its_command_alone() {
        let holding = held();
        let (mut one, mut other) = (Box::pin(holding.pass(HELD, 1)), Box::pin(holding.pass(HELD, 2)));
        assert!(one.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        holding.abort(|lun, tag| lun == HELD && tag == 1);
        assert_eq!(one.now_or_never(), Some(Wait::Aborted));
        assert_eq!(other.as_mut().now_or_never(), None);
        holding.end();
        assert_eq!(other.now_or_never(), Some(Wait::Aborted));
        assert_eq!(holding.pass(HELD, 3).now_or_never(), Some(Wait::Aborted), "the session has ended");
        assert_eq!(holding.over(Some(HELD)).now_or_never(), Some(()));
    }
}
