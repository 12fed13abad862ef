//! The latency of a flow below the scheduler, and whether any depth gives it its minimum.

use crate::health::WINDOW_NS;
use crate::tag::SECOND_NS;

/// The time below is the average plus so many standard errors of the requests in a window: 1 % of a normal
/// distribution is beyond 2.33 of them, and the standard deviation is 1.25 times the mean one.
const SPREADS: u64 = 3;
/// Averages follow single requests by this part.
const MEMORY: u64 = 32;
/// Looks in a row at the shallowest depth that helps after which a flow that is still too slow is ignored,
/// and for how long. That depth falls while the throughput shows what it costs: it is not the shallowest one
/// before it stays for so many looks.
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
    late: Late,
    hopeless_until: u64,
    doublings: u32,
}

/// Looks in a row at which a flow was too slow at the shallowest depth that helps.
#[derive(Clone, Copy, Default)]
struct Late {
    looks: u32,
    /// The least depth in them.
    depth: u64,
}

impl Late {
    /// With one more look, at this depth. A depth that falls is not the shallowest yet: the count begins
    /// anew.
    fn and_at(self, depth: u64) -> Late {
        match self.looks > 0 && depth >= self.depth {
            true => Late { looks: self.looks + 1, ..self },
            false => Late { looks: 1, depth },
        }
    }
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
        (self.late, self.hopeless_until, self.doublings) = (Late::default(), 0, 0);
    }

    /// A look at which it may have `time_ns` below. `bottom`: the shallowest depth that helps, if that is in
    /// force and a shallower one is what it needs.
    pub(crate) fn judge(&mut self, now: u64, bottom: Option<u64>, time_ns: u64) {
        let Some(bottom) = bottom.filter(|_| self.below_ns > time_ns) else {
            self.late = Late::default();
            return;
        };
        self.late = self.late.and_at(bottom);
        if self.late.looks >= HOPELESS_LOOKS {
            self.late = Late::default();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// At which look a flow is given up that is too slow at each of these depths; none: at no one.
    fn given_up(bottoms: &[Option<u64>]) -> Option<usize> {
        let mut pressure = Pressure { below_ns: 10_000_000, ..Pressure::default() };
        bottoms.iter().position(|bottom| {
            pressure.judge(1, *bottom, 7_000_000);
            pressure.is_hopeless(1)
        })
    }

    /// A flow that reached its minimum at a depth of 6 was given up at 9.
    #[test]
    fn a_flow_is_given_up_when_the_depth_that_covers_the_minimums_has_stopped_falling() {
        let falling =
            |from: u64, looks: u64| (0..64).map(move |look| Some(from - (look / looks).min(from - 6)));
        let stays: Vec<_> = falling(6, 1).collect();
        let seen: Vec<_> = [[10, 10, 10, 10, 9, 9, 9, 9], [8; 8], [7; 8]].concat();
        for (what, bottoms, at) in [
            ("it stays", stays, Some(7)),
            ("it falls at each look from 10 to 6", falling(10, 1).collect(), Some(11)),
            ("it falls at each fifth", falling(10, 5).collect(), Some(27)),
            ("by turns", (0..64).map(|look| Some(6 + look % 2)).collect(), Some(7)),
            ("it rises", (6..64).map(Some).collect(), Some(7)),
            ("it is in time between", [[Some(6); 7].as_slice(), &[None], &[Some(6); 7]].concat(), None),
            ("as it was in set 254", seen[..8].iter().copied().map(Some).collect(), None),
            ("it falls slower than it is waited for", seen.iter().copied().map(Some).collect(), Some(15)),
        ] {
            assert_eq!(given_up(&bottoms), at, "{what}");
        }
    }
}
