//! The place of a waiting flow: among the eligible flows, or among those that wait for their maximum.

use crate::flow::SLACK_NS;
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Moves a flow to its place after its tags or its queue have changed.
    pub(crate) fn place(&mut self, now: u64, number: u32) {
        let clock = self.clock(now);
        let flow = &mut self.flows[number as usize];
        let free_at = flow.free_at(now);
        if flow.waiting == 0 || free_at > now {
            self.due.remove(number);
            self.turns.remove(number);
            self.free_turns.remove(number);
            match flow.waiting {
                0 => {
                    self.limited.remove(number);
                    match flow.minimum == 0 && flow.below > 0 {
                        true => self.away_turns.set(number, flow.share.at),
                        false => self.away_turns.remove(number),
                    }
                }
                _ => {
                    self.away_turns.remove(number);
                    flow.interval.is_held = true;
                    self.part_held |= flow.part.is_some();
                    self.limited.set(number, free_at);
                }
            }
            return;
        }
        if self.limited.has(number) {
            self.limited.remove(number);
            flow.let_in(&self.turn);
        }
        self.away_turns.remove(number);
        self.turns.set(number, flow.share.at);
        if flow.minimum > 0 {
            flow.reserve.raise_to(clock.saturating_sub(flow.slack_ns()));
            self.due.set(number, flow.reserve.at);
            self.free_turns.remove(number);
        } else {
            self.due.remove(number);
            self.free_turns.set(number, flow.share.at);
        }
    }

    /// Moves flows whose maximum allows it to the eligible ones.
    pub(crate) fn let_in(&mut self, now: u64) {
        while let Some((free_at, number)) = self.limited.first()
            && free_at <= now
        {
            self.place(now, number);
        }
    }

    /// Holds back the reservation clock for a flow that has waited longer than the slack: minimums are
    /// over-committed. They are not if capacity is left for other work, or the flow lacks outstanding
    /// requests.
    pub(crate) fn hold_clock(&mut self, now: u64) {
        let Some((due, number)) = self.due.first().filter(|_| !self.has_spare) else { return };
        let late_ns = self.clock(now).saturating_sub(due).saturating_sub(SLACK_NS);
        let flow = &self.flows[number as usize];
        if late_ns > 0 && !flow.pressure.is_short(flow.minimum, self.depth.pace) {
            self.held_ns += late_ns;
        }
    }
}
