//! A flow: an instance of a policy, with its tags and its recent behaviour.

use crate::ceiling::Ceiling;
use crate::health::FlowWindow;
use crate::members::{Ring, Work};
use crate::part::{Part, Terms};
use crate::policy::Policy;
use crate::pressure::Pressure;
use crate::tag::{Tag, share_of};
use crate::turn::Turn;

/// Slack: a lag of this time holds the reservation clock back. A flow may catch up half as much again,
/// because another one may hold the clock meanwhile; two such gaps are 10 % of the 5 s over which a minimum
/// is judged.
pub(crate) const SLACK_NS: u64 = 160_000_000;
/// A minimum that is late by no more gives way to a flow that is far behind by weight.
pub(crate) const LENIENT_NS: u64 = 100_000_000;
/// A client that sends its next request within this time was not idle: the turn-around of a host and its
/// network.
const CONTINUES_NS: u64 = 20_000_000;
/// Requests by which a flow served for its minimum may be ahead in the weight phase in any case; else by what
/// the turn advances in a second. It is not served there for that long if others ask for less.
const LEAD_REQUESTS: u64 = 16;
/// Requests by which a busy flow may be behind in the weight phase in any case, and catches up.
const BEHIND_REQUESTS: u64 = LEAD_REQUESTS;
/// And so many of the largest requests of all flows: the turn advances by these, and what small requests lack
/// meanwhile would be forgotten at each.
const BEHIND_PEAKS: u64 = 2;
/// The largest request of a flow is remembered for this many smaller ones.
const PEAK_MEMORY: u64 = 64;

/// The largest request after another one.
pub(crate) fn remembered_peak(peak_bytes: u64, cost: u64) -> u64 {
    cost.max(peak_bytes - peak_bytes / PEAK_MEMORY)
}

/// What was seen of a flow when it was asked for last.
#[derive(Clone, Copy, Default)]
pub(crate) struct Interval {
    pub(crate) busy_ns: u64,
    pub(crate) served_bytes: u64,
    /// Whether a maximum made it wait since.
    pub(crate) is_held: bool,
}

#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) policy: Policy,
    /// What it has of the policy, if other schedulers have the rest.
    pub(crate) part: Option<Part>,
    pub(crate) in_use: bool,
    /// Minimum, bytes per second; 0: none.
    pub(crate) minimum: u64,
    /// On the reservation clock: when the next request is due.
    pub(crate) reserve: Tag,
    /// In real time: its maximums, of units and of bytes.
    maximum: Ceiling,
    bandwidth: Ceiling,
    /// The tag of the next request in the weight phase.
    pub(crate) share: Tag,
    pub(crate) peak_bytes: u64,
    /// What was served for its minimum since its last turn.
    by_minimum_bytes: u64,
    pub(crate) clients: u32,
    pub(crate) ring: Ring,
    pub(crate) waiting: u32,
    pub(crate) below: u32,
    /// Time of the last response.
    answered: Option<u64>,
    /// Usual time from a response to the next request.
    pub(crate) think_ns: u64,
    /// A slot is reserved for it until then.
    pub(crate) awaited_until: u64,
    pub(crate) pressure: Pressure,
    pub(crate) window: FlowWindow,
    pub(crate) interval: Interval,
}

impl Flow {
    /// A new flow, whose turn is now.
    pub(crate) fn new(now: u64, clock: u64, turn: u64) -> Flow {
        let (reserve, share) = (Tag::at(clock), Tag::at(turn));
        let (maximum, bandwidth) = (Ceiling::new(now), Ceiling::new(now));
        let window = FlowWindow::new(now);
        Flow { in_use: true, reserve, maximum, bandwidth, share, window, ..Flow::default() }
    }

    /// Sets another policy.
    pub(crate) fn set_policy(&mut self, policy: Policy, unit_bytes: u64, now: u64, clock: u64) {
        let old = std::mem::replace(&mut self.policy, policy);
        self.window.promise(now, self.minimum);
        match self.part {
            None => {
                self.minimum = policy.minimum_iops * unit_bytes;
                self.maximum.set(now, policy.maximum_iops.map_or(0, |units| units * unit_bytes));
                self.bandwidth.set(now, policy.bandwidth_bytes_per_s.unwrap_or(0));
            }
            // Its part of the new one follows. What ended under the old maximum says nothing of that.
            Some(_) => {
                if old.maximum_iops != policy.maximum_iops {
                    self.maximum.set(now, 0);
                }
                if old.bandwidth_bytes_per_s != policy.bandwidth_bytes_per_s {
                    self.bandwidth.set(now, 0);
                }
            }
        }
        // The delay from the old rate does not apply to the new one.
        self.reserve = Tag::at(self.reserve.at.min(clock));
        self.pressure.reset();
    }

    /// Sets another part of the policy; none: all of it.
    pub(crate) fn set_part(&mut self, part: Option<Part>, unit_bytes: u64, now: u64, clock: u64) {
        let old = self.minimum;
        self.window.promise(now, old);
        self.part = part;
        let part = part.unwrap_or_else(|| Terms::of(&self.policy, unit_bytes).whole());
        self.minimum = part.minimum_bytes_per_s;
        self.maximum.set_part(now, part.maximum);
        self.bandwidth.set_part(now, part.bandwidth);
        // What it is ahead by, at the new rate; what it was behind without a minimum is nobody's debt.
        let ahead = u128::from(self.reserve.at.saturating_sub(clock)) * u128::from(old);
        if old == 0 {
            self.reserve.raise_to(clock);
        }
        if ahead > 0 && old != self.minimum {
            let ahead_ns = u64::try_from(ahead / u128::from(self.minimum.max(1))).unwrap_or(u64::MAX);
            self.reserve = Tag::at(clock.saturating_add(ahead_ns));
        }
    }

    /// What counts of its maximums now.
    pub(crate) fn counted(&mut self, now: u64) -> (u64, u64) {
        (self.maximum.counted(now), self.bandwidth.counted(now))
    }

    /// Outstanding requests.
    pub(crate) fn outstanding(&self) -> u32 {
        self.waiting + self.below
    }

    /// Starts the tags at its first request.
    pub(crate) fn begin(&mut self, now: u64, clock: u64, turn: Turn, unit_bytes: u64) {
        let gap = self.answered.map(|at| now.saturating_sub(at));
        if let Some(gap) = gap {
            // A longer time only shows that no slot should be reserved for it.
            self.think_ns = (self.think_ns * 7 + gap.min(CONTINUES_NS)) / 8;
        }
        let goes_on = self.below > 0 || gap.is_some_and(|gap| gap <= CONTINUES_NS);
        let behind = if goes_on { self.requests_behind(&turn).max(turn.second) } else { 0 };
        let burst = share_of(self.policy.burst_units.saturating_mul(unit_bytes), self.policy.weight);
        self.reserve.raise_to(if goes_on { clock.saturating_sub(self.slack_ns()) } else { clock });
        self.share.raise_to(turn.at.saturating_sub(behind.max(burst)));
    }

    /// By how much a busy flow may be behind in the weight phase in any case.
    fn requests_behind(&self, turn: &Turn) -> u64 {
        let bytes = (BEHIND_REQUESTS * self.peak_bytes).max(BEHIND_PEAKS * turn.peak_bytes);
        share_of(bytes, self.policy.weight)
    }

    /// Its maximums allow a request again: what they kept from it meanwhile is nobody's debt.
    pub(crate) fn let_in(&mut self, turn: &Turn) {
        self.share.raise_to(turn.at.saturating_sub(self.requests_behind(turn)));
    }

    /// Earliest time that its maximums allow.
    pub(crate) fn free_at(&mut self, now: u64) -> u64 {
        self.maximum.free_at(now).max(self.bandwidth.free_at(now))
    }

    /// Charges a request that is dispatched to all tags except the minimum's.
    pub(crate) fn start(&mut self, now: u64, work: Work) {
        self.maximum.start(now, work.cost);
        self.bandwidth.start(now, work.bytes);
        self.charge_share(work.cost);
    }

    /// Such a request has ended.
    pub(crate) fn end(&mut self, now: u64, work: Work) {
        self.maximum.end(now, work.cost);
        self.bandwidth.end(now, work.bytes);
    }

    /// Charges work that was done elsewhere, to the same.
    pub(crate) fn charge(&mut self, now: u64, work: Work) {
        self.maximum.spend(now, work.cost);
        self.bandwidth.spend(now, work.bytes);
        self.charge_share(work.cost);
    }

    /// A client comes with requests below, or leaves with them.
    pub(crate) fn moved(&mut self, comes: Work, leaves: Work) {
        self.maximum.moved(comes.cost, leaves.cost);
        self.bandwidth.moved(comes.bytes, leaves.bytes);
    }

    fn charge_share(&mut self, cost: u64) {
        self.peak_bytes = remembered_peak(self.peak_bytes, cost);
        self.share.share(cost, self.policy.weight);
    }

    /// Charges work that was served because its minimum was due.
    pub(crate) fn reserve(&mut self, cost: u64) {
        if self.minimum > 0 {
            self.reserve.spend(cost, self.minimum);
            self.by_minimum_bytes = self.by_minimum_bytes.saturating_add(cost);
        }
    }

    /// What was served for its minimum since its last turn, which is now. A flow that lives on its minimum is
    /// served by weight only when no other may be: nothing.
    pub(crate) fn since_its_turn(&mut self) -> u64 {
        let bytes = std::mem::take(&mut self.by_minimum_bytes);
        if bytes <= LEAD_REQUESTS * self.peak_bytes { bytes } else { 0 }
    }

    /// Charges work that was served before its minimum was due: the minimum is then due one interval from
    /// now, and never later, so that service now does not reduce the minimum later.
    pub(crate) fn postpone(&mut self, clock: u64, cost: u64) {
        if self.minimum > 0 {
            let mut next = Tag::at(clock);
            next.spend(cost, self.minimum);
            self.reserve.raise_to(next.at);
        }
    }

    /// Forgets by how far it is ahead of the others or behind them, but for a request.
    pub(crate) fn begin_anew(&mut self, turn: u64) {
        let one = share_of(self.peak_bytes, self.policy.weight);
        self.share.lower_to(turn.saturating_add(one));
        self.share.raise_to(turn.saturating_sub(one));
        self.by_minimum_bytes = 0;
    }

    /// Limits by how much it is ahead of the others.
    pub(crate) fn bound_lead(&mut self, turn: &Turn) {
        let lead = share_of(LEAD_REQUESTS * self.peak_bytes, self.policy.weight).max(turn.second);
        self.share.lower_to(turn.at.saturating_add(lead));
    }

    /// How late its minimum may be and catch up. A flow that lacks outstanding requests precedes one that
    /// lacks capacity: it uses no more of it than it can.
    pub(crate) fn slack_ns(&self) -> u64 {
        if self.pressure.is_prompt() { 2 * SLACK_NS } else { SLACK_NS * 3 / 2 }
    }

    /// Whether its turn was long ago, so that only its few outstanding requests keep it behind the others.
    pub(crate) fn is_far_behind(&self, turn: u64) -> bool {
        let far = share_of(BEHIND_REQUESTS / 2 * self.peak_bytes, self.policy.weight);
        self.share.at.saturating_add(far) <= turn
    }

    /// Records a response.
    pub(crate) fn answered(&mut self, now: u64) {
        self.answered = Some(now);
    }

    /// Whether it got a response a moment ago.
    pub(crate) fn is_awake(&self, now: u64, within_ns: u64) -> bool {
        self.answered.is_some_and(|at| now.saturating_sub(at) <= within_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn of_weight(weight: u32) -> Flow {
        let mut flow = Flow::new(0, 0, 1_000_000);
        flow.set_policy(Policy { minimum_iops: 1000, weight, ..Policy::none() }, 8 * KIB, 0, 0);
        flow.start(0, Work { bytes: 8 * KIB, cost: 8 * KIB });
        flow
    }

    fn turn_at(at: u64, second: u64) -> Turn {
        let mut turn = Turn::default();
        (turn.at, turn.second) = (at, second);
        turn
    }

    /// It was charged for 16 of its requests, and had the turn again while others had less.
    #[test]
    fn a_large_weight_is_charged_for_all_that_its_minimum_gave_it_within_a_second() {
        let mut flow = of_weight(1000);
        (0..200).for_each(|_| flow.start(0, Work { bytes: 8 * KIB, cost: 8 * KIB }));
        let ahead = flow.share.at;
        assert!(ahead > 1_000_000 + 17 * share_of(8 * KIB, 1000));
        flow.bound_lead(&turn_at(1_000_000, ahead - 1_000_000));
        assert_eq!(flow.share.at, ahead);
        flow.bound_lead(&turn_at(1_000_000, 0));
        assert_eq!(flow.share.at, 1_000_000 + share_of(16 * 8 * KIB, 1000));
    }

    /// What it lacked was forgotten after 16 of its requests: a few milliseconds.
    #[test]
    fn a_large_weight_catches_up_what_it_lacks_within_a_second() {
        let (mut flow, behind) = (of_weight(1000), 40 * share_of(8 * KIB, 1000));
        flow.below = 1;
        let at = flow.share.at;
        flow.begin(0, 0, turn_at(at + behind, behind), 8 * KIB);
        assert_eq!(flow.share.at, at);
        flow.begin(0, 0, turn_at(at + behind, 0), 8 * KIB);
        assert_eq!(flow.share.at, at + behind - share_of(16 * 8 * KIB, 1000));
    }

    #[test]
    fn what_a_minimum_gave_counts_at_the_turn_unless_the_flow_lives_on_it() {
        let mut flow = of_weight(100);
        (0..16).for_each(|_| flow.reserve(8 * KIB));
        assert_eq!(flow.since_its_turn(), 16 * 8 * KIB);
        assert_eq!(flow.since_its_turn(), 0);
        (0..17).for_each(|_| flow.reserve(8 * KIB));
        assert_eq!(flow.since_its_turn(), 0);
    }
}
