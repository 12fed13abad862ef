//! The latency of a flow below the scheduler, and whether any depth gives it its minimum.

use crate::health::WINDOW_NS;
use crate::tag::SECOND_NS;

/// The time below is the average plus so many standard errors of the requests in a window: 1 % of a normal
/// distribution is beyond 2.33 of them, and the standard deviation is 1.25 times the mean one.
const SPREADS: u64 = 3;
/// Averages follow single requests by this part.
const MEMORY: u64 = 32;
/// Adjustments at the shallowest depth that helps after which a flow that is still too slow is ignored, and
/// for how long.
const HOPELESS_LOOKS: u32 = 8;
const HOPELESS_NS_MIN: u64 = 40_000_000_000;
const HOPELESS_DOUBLINGS_MAX: u32 = 1;
/// Requests hardly wait if they do for less than this part of the time below.
const PROMPT_PART: u64 = 8;
/// They wait by little if they do for less than this part.
const SHORT_PART: u64 = 2;
/// Fractional parts of one request in which averages are counted.
pub(crate) const PARTS: u64 = 256;

/// Latency of a flow below: moving averages over some requests.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pressure {
    /// Time from dispatch to response.
    pub(crate) below_ns: u64,
    /// Deviation of requests from that.
    spread_ns: u64,
    /// Requests below at a dispatch, including the dispatched one.
    pub(crate) crowd_parts: u64,
    /// Outstanding requests of the flow at that time.
    pub(crate) own_parts: u64,
    cost_bytes: u64,
    /// Time from submission to dispatch.
    waited_ns: u64,
    /// Requests that the averages have, [`MEMORY`] at most.
    dispatched: u64,
    answered: u64,
    late_looks: u32,
    hopeless_until: u64,
    doublings: u32,
}

impl Pressure {
    pub(crate) fn dispatched(&mut self, crowd: u32, own: u32, waited_ns: u64) {
        self.waited_ns = (self.waited_ns * 7 + waited_ns) / 8;
        self.dispatched = (self.dispatched + 1).min(MEMORY);
        follow(&mut self.crowd_parts, u64::from(crowd) * PARTS, self.dispatched);
        follow(&mut self.own_parts, u64::from(own) * PARTS, self.dispatched);
    }

    pub(crate) fn answered(&mut self, below_ns: u64, cost: u64) {
        self.answered = (self.answered + 1).min(MEMORY);
        if self.answered > 1 {
            follow(&mut self.spread_ns, below_ns.abs_diff(self.below_ns), self.answered - 1);
        }
        follow(&mut self.below_ns, below_ns, self.answered);
        follow(&mut self.cost_bytes, cost, self.answered);
    }

    /// Whether no depth gives this flow its minimum, because it has too few outstanding requests.
    pub(crate) fn is_hopeless(&self, now: u64) -> bool {
        now < self.hopeless_until
    }

    /// Whether its requests hardly wait, so that it cannot be served faster: if it is late, it lacks
    /// outstanding requests.
    pub(crate) fn is_prompt(&self) -> bool {
        self.waited_ns * PROMPT_PART < self.below_ns
    }

    /// Whether it is late for lack of outstanding requests, at this pace of the reservation clock (of 1024):
    /// they are below for longer than the minimum allows, and others delay it by little.
    pub(crate) fn is_short(&self, minimum: u64, pace: u64) -> bool {
        let takes_too_long = || self.time_ns(minimum).saturating_mul(1024) / pace.max(1) < self.below_ns;
        self.is_prompt() || (self.waited_ns * SHORT_PART < self.below_ns && takes_too_long())
    }

    /// The time below to plan for, so that the minimum is kept in the worst windows.
    pub(crate) fn reckoned_ns(&self, minimum: u64) -> u64 {
        let in_window = minimum.saturating_mul(WINDOW_NS / SECOND_NS) / self.cost_bytes.max(1);
        self.below_ns + self.spread_ns.saturating_mul(SPREADS) / in_window.isqrt().max(1)
    }

    /// The time that the minimum allows per request.
    pub(crate) fn time_ns(&self, minimum: u64) -> u64 {
        let work = u128::from(self.own_parts) * u128::from(self.cost_bytes) * u128::from(SECOND_NS);
        u64::try_from(work / u128::from(PARTS * minimum.max(1))).unwrap_or(u64::MAX)
    }

    /// Another policy: what was measured stays, what was judged by the old one does not.
    pub(crate) fn reset(&mut self) {
        (self.late_looks, self.hopeless_until, self.doublings) = (0, 0, 0);
    }

    pub(crate) fn judge(&mut self, now: u64, at_bottom: bool, time_ns: u64) {
        if !at_bottom || self.below_ns <= time_ns {
            self.late_looks = 0;
            return;
        }
        self.late_looks += 1;
        if self.late_looks >= HOPELESS_LOOKS {
            self.late_looks = 0;
            self.hopeless_until = now + (HOPELESS_NS_MIN << self.doublings);
            self.doublings = (self.doublings + 1).min(HOPELESS_DOUBLINGS_MAX);
        }
    }
}

/// The average of the first samples, and then a moving one: the minimum over several flows decides, so noise
/// of a single one must not.
fn follow(average: &mut u64, sample: u64, count: u64) {
    *average = (*average * (count - 1) + sample) / count;
}
