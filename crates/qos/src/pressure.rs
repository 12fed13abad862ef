//! The latency of a flow below the scheduler, and whether any depth gives it its minimum.

use crate::tag::SECOND_NS;

/// The time below is the average plus this part of the deviation of single requests. Where requests are alike
/// it adds nothing; where some take three times as long as others (small reads beside large writes), those
/// could not be caught up within the time by which a minimum is judged.
const SPREAD_PARTS: u64 = 2;
/// Adjustments at the shallowest depth that helps after which a flow that is still too slow is ignored, and
/// for how long.
const HOPELESS_LOOKS: u32 = 8;
const HOPELESS_NS_MIN: u64 = 10_000_000_000;
const HOPELESS_DOUBLINGS_MAX: u32 = 3;
/// Requests hardly wait if they do for less than this part of the time below.
const PROMPT_PART: u64 = 8;
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
    late_looks: u32,
    hopeless_until: u64,
    doublings: u32,
}

impl Pressure {
    pub(crate) fn dispatched(&mut self, crowd: u32, own: u32, waited_ns: u64) {
        self.waited_ns = (self.waited_ns * 7 + waited_ns) / 8;
        follow(&mut self.crowd_parts, u64::from(crowd) * PARTS);
        follow(&mut self.own_parts, u64::from(own) * PARTS);
    }

    pub(crate) fn answered(&mut self, below_ns: u64, cost: u64) {
        if self.below_ns > 0 {
            follow(&mut self.spread_ns, below_ns.abs_diff(self.below_ns));
        }
        follow(&mut self.below_ns, below_ns);
        follow(&mut self.cost_bytes, cost);
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

    /// The time below to plan for.
    pub(crate) fn reckoned_ns(&self) -> u64 {
        self.below_ns + self.spread_ns / SPREAD_PARTS
    }

    /// The time that the minimum allows per request.
    pub(crate) fn time_ns(&self, minimum: u64) -> u64 {
        let work = u128::from(self.own_parts) * u128::from(self.cost_bytes) * u128::from(SECOND_NS);
        u64::try_from(work / u128::from(PARTS * minimum.max(1))).unwrap_or(u64::MAX)
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

/// A moving average of an eighth: the minimum over several flows decides, so noise of a single one must not.
fn follow(average: &mut u64, sample: u64) {
    *average = match *average {
        0 => sample,
        average => (average * 7 + sample) / 8,
    };
}
