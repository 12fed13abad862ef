//! Commands that wait at a view while their logical units move to another controller of the array.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use world::sync::Signal;

use crate::request::Lun;

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

    /// Waits until the LUN is not held. Returns whether the command may run: it may not if it was aborted.
    pub(crate) async fn pass(&self, lun: Lun, tag: u64) -> bool {
        if !self.holds(lun) {
            return true;
        }
        if self.ended.get() {
            return false;
        }
        let number = self.next.replace(self.next.get() + 1);
        self.waiting.borrow_mut().insert(number, (lun, tag));
        let turn = || match self.waiting.borrow().contains_key(&number) {
            true if self.holds(lun) => None,
            waits => Some(waits),
        };
        let may_run = self.changed.wait_for(turn).await;
        self.waiting.borrow_mut().remove(&number);
        may_run
    }

    /// Waits until the LUN, or with `None` any LUN, is not held, or the session has ended.
    pub(crate) async fn over(&self, lun: Option<Lun>) {
        let is_held = || lun.map_or(self.on.get(), |lun| self.holds(lun));
        self.changed.wait_for(|| (self.ended.get() || !is_held()).then_some(())).await;
    }

    /// Aborts the waiting commands that `of` selects by LUN and tag.
    pub(crate) fn abort(&self, of: impl Fn(Lun, u64) -> bool) {
        self.waiting.borrow_mut().retain(|_, (lun, tag)| !of(*lun, *tag));
        self.changed.wake_all();
    }

    /// Whether the session has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// The session has ended: no command waits any more.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.abort(|_, _| true);
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
        assert_eq!(holding.pass(Lun(2), 7).now_or_never(), Some(true));
        let mut waits = Box::pin(holding.pass(HELD, 7));
        assert_eq!(waits.as_mut().now_or_never(), None);
        holding.set(BTreeSet::new());
        assert_eq!(waits.now_or_never(), Some(true));
    }

    #[test]
    fn an_abort_ends_the_wait_of_its_command_alone() {
        let holding = held();
        let (mut one, mut other) = (Box::pin(holding.pass(HELD, 1)), Box::pin(holding.pass(HELD, 2)));
        assert!(one.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        holding.abort(|lun, tag| lun == HELD && tag == 1);
        assert_eq!(one.now_or_never(), Some(false));
        assert_eq!(other.as_mut().now_or_never(), None);
        holding.end();
        assert_eq!(other.now_or_never(), Some(false));
        assert_eq!(holding.pass(HELD, 3).now_or_never(), Some(false), "the session has ended");
        assert_eq!(holding.over(Some(HELD)).now_or_never(), Some(()));
    }
}
