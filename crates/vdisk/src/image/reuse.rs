//! When the space of a block that was let go may be used again: when nobody reads or writes there any more.

use std::cell::Cell;

/// Operations in flight, counted by the turn in which they began. Space that is let go waits for those of the turns before.
#[derive(Default)]
pub(super) struct Turns {
    now: Cell<usize>,
    in_flight: [Cell<u64>; 2],
    waiting: Cell<bool>,
}

impl Turns {
    /// An operation begins, in this turn.
    pub(super) fn enter(&self) -> usize {
        let turn = self.now.get();
        self.in_flight[turn].set(self.in_flight[turn].get() + 1);
        turn
    }

    /// An operation of this turn has ended. Whether what waited may be used now.
    pub(super) fn leave(&self, turn: usize) -> bool {
        self.in_flight[turn].set(self.in_flight[turn].get() - 1);
        self.ended()
    }

    /// Whether something waits already: then nothing else may begin to.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.get()
    }

    /// Something was let go, and waits for who is in flight now. Whether nobody is.
    pub(super) fn wait(&self) -> bool {
        self.waiting.set(true);
        self.now.set(1 - self.now.get());
        self.ended()
    }

    fn ended(&self) -> bool {
        let ended = self.waiting.get() && self.in_flight[1 - self.now.get()].get() == 0;
        if ended {
            self.waiting.set(false);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_let_go_waits_for_those_who_were_there_and_not_for_who_comes_later() {
        let turns = Turns::default();
        let first = turns.enter();
        assert!(!turns.wait());
        let second = turns.enter();
        assert!(turns.is_waiting());
        assert!(turns.leave(first), "the second began after it was let go");
        assert!(!turns.is_waiting());
        assert!(!turns.wait());
        assert!(turns.leave(second));
        assert!(turns.wait(), "nobody is in flight");
    }
}
