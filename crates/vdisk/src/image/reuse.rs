//! Reuse of released blocks: possible when no operation in flight reads or writes there.

use std::cell::Cell;

/// Operations in flight, counted by the turn in which they began. Released space waits for those of earlier
/// turns.
#[derive(Default)]
pub(super) struct Turns {
    now: Cell<usize>,
    in_flight: [Cell<u64>; 2],
    waiting: Cell<bool>,
}

impl Turns {
    /// Begins an operation in this turn.
    pub(super) fn enter(&self) -> usize {
        let turn = self.now.get();
        self.in_flight[turn].set(self.in_flight[turn].get() + 1);
        turn
    }

    /// Ends an operation of this turn. Returns whether waiting space can be reused now.
    pub(super) fn leave(&self, turn: usize) -> bool {
        self.in_flight[turn].set(self.in_flight[turn].get() - 1);
        self.ended()
    }

    /// Whether space is already waiting: then no other may begin to wait.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.get()
    }

    /// Makes released space wait for the operations in flight. Returns whether there are none.
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
