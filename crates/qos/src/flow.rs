//! A flow: an instance of a policy, with its tags and what is known of how it asks.

use crate::health::FlowWindow;
use crate::members::Ring;
use crate::policy::Policy;
use crate::pressure::Pressure;
use crate::tag::{Tag, share_of};

/// A flow that is behind its minimum may catch up what it missed in this time; what is behind by more holds the reservation clock back.
/// Two such gaps are 10 % of the 5 s over which a minimum is judged.
pub(crate) const SLACK_NS: u64 = 250_000_000;
/// Who asks again within this time has not been idle: a host's turn-around and its network.
const CONTINUES_NS: u64 = 20_000_000;
/// A maximum is paced at 99/100 of itself, so that late service of 25 ms may be caught up, an answer may come 25 ms sooner than the one before, and in
/// any 5 s there is still no more than the maximum and one request: 0.99 x (5 s + 50 ms) < 5 s.
const PACE: (u64, u64) = (99, 100);
const LATE_NS: u64 = 25_000_000;
/// Requests by which a flow that is served for its minimum may be ahead in the weight phase: for so long it is not served there when its
/// minimum falls away.
const LEAD_REQUESTS: u64 = 16;
/// Requests by which a flow that goes on asking may be behind in the weight phase, and catches up.
const BEHIND_REQUESTS: u64 = LEAD_REQUESTS;
/// A flow's largest request is remembered for so many smaller ones.
const PEAK_MEMORY: u64 = 64;

/// A flow.
#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) policy: Policy,
    pub(crate) in_use: bool,
    /// Bytes per second; 0: none.
    pub(crate) minimum: u64,
    maximum: u64,
    bandwidth: u64,
    /// On the reservation clock: when the next request is due.
    pub(crate) reserve: Tag,
    /// In real time: when the next request is allowed.
    limit: Tag,
    bytes: Tag,
    /// The turn of the next request in the weight phase.
    pub(crate) share: Tag,
    peak_bytes: u64,
    pub(crate) clients: u32,
    pub(crate) ring: Ring,
    pub(crate) waiting: u32,
    pub(crate) below: u32,
    /// When it was answered last.
    answered: Option<u64>,
    /// How long it usually takes to ask again.
    pub(crate) think_ns: u64,
    /// Until when a slot is kept for it.
    pub(crate) awaited_until: u64,
    pub(crate) pressure: Pressure,
    pub(crate) window: FlowWindow,
}

impl Flow {
    /// A new one, whose turn is now.
    pub(crate) fn new(now: u64, clock: u64, turn: u64) -> Flow {
        let (reserve, limit, share) = (Tag::at(clock), Tag::at(now), Tag::at(turn));
        Flow { in_use: true, reserve, limit, bytes: limit, share, ..Flow::default() }
    }

    /// Another policy from now on.
    pub(crate) fn set_policy(&mut self, policy: Policy, unit_bytes: u64, now: u64, clock: u64) {
        let pace = |rate: u64| (rate * PACE.0 / PACE.1).max(1);
        self.policy = policy;
        self.minimum = policy.minimum_iops * unit_bytes;
        self.maximum = policy.maximum_iops.map_or(0, |units| pace(units * unit_bytes));
        self.bandwidth = policy.bandwidth_bytes_per_s.map_or(0, pace);
        // What the old rates put off is not owed to the new ones.
        self.reserve = Tag::at(self.reserve.at.min(clock));
        self.limit = Tag::at(self.limit.at.min(now));
        self.bytes = Tag::at(self.bytes.at.min(now));
        self.pressure = Pressure::default();
    }

    /// Requests that have not ended.
    pub(crate) fn outstanding(&self) -> u32 {
        self.waiting + self.below
    }

    /// Its first request comes: where its tags begin. `turn` is that of the request served last in the weight phase.
    pub(crate) fn begin(&mut self, now: u64, clock: u64, turn: u64, unit_bytes: u64) {
        let gap = match (self.below, self.answered) {
            (0, Some(at)) => now.saturating_sub(at),
            (0, None) => u64::MAX,
            _ => 0,
        };
        if self.below == 0 {
            // What is longer than that says no more than that nobody is to wait for it.
            self.think_ns = (self.think_ns * 7 + gap.min(CONTINUES_NS)) / 8;
        }
        let goes_on = gap <= CONTINUES_NS;
        let behind = match goes_on {
            true => share_of(BEHIND_REQUESTS * self.peak_bytes, self.policy.weight),
            false => 0,
        };
        let burst = share_of(self.policy.burst_units.saturating_mul(unit_bytes), self.policy.weight);
        self.reserve.raise_to(if goes_on { clock.saturating_sub(SLACK_NS) } else { clock });
        self.share.raise_to(turn.saturating_sub(behind.max(burst)));
    }

    /// From when on its maximum lets it be served.
    pub(crate) fn free_at(&self) -> u64 {
        let at = |tag: &Tag, rate: u64| if rate > 0 { tag.at } else { 0 };
        at(&self.limit, self.maximum).max(at(&self.bytes, self.bandwidth))
    }

    /// Work is done for it that counts in everything but its minimum.
    pub(crate) fn charge(&mut self, now: u64, bytes: u64, cost: u64) {
        if self.maximum > 0 {
            self.limit.raise_to(now.saturating_sub(LATE_NS));
            self.limit.spend(cost, self.maximum);
        }
        if self.bandwidth > 0 {
            self.bytes.raise_to(now.saturating_sub(LATE_NS));
            self.bytes.spend(bytes, self.bandwidth);
        }
        self.peak_bytes = cost.max(self.peak_bytes - self.peak_bytes / PEAK_MEMORY);
        self.share.share(cost, self.policy.weight);
    }

    /// Work is done because its minimum is due.
    pub(crate) fn reserve(&mut self, cost: u64) {
        if self.minimum > 0 {
            self.reserve.spend(cost, self.minimum);
        }
    }

    /// Work is done for it while its minimum is not due: that comes one interval from now. Ahead by more it is never, so that what it has now is
    /// not taken off what it is promised later.
    pub(crate) fn postpone(&mut self, clock: u64, cost: u64) {
        if self.minimum > 0 {
            let mut next = Tag::at(clock);
            next.spend(cost, self.minimum);
            self.reserve.raise_to(next.at);
        }
    }

    /// What was done for its minimum puts it ahead of the others by no more than this.
    pub(crate) fn bound_lead(&mut self, turn: u64) {
        let lead = share_of(LEAD_REQUESTS * self.peak_bytes, self.policy.weight);
        self.share.lower_to(turn.saturating_add(lead));
    }

    /// It was answered.
    pub(crate) fn answered(&mut self, now: u64) {
        self.answered = Some(now);
    }

    /// Whether it was answered a moment ago.
    pub(crate) fn is_awake(&self, now: u64, within_ns: u64) -> bool {
        self.answered.is_some_and(|at| now.saturating_sub(at) <= within_ns)
    }
}
