//! How many requests are below the scheduler: few enough that who asks for one at a time gets its minimum.
//!
//! A flow with q requests out gets r only when what is below is answered within T = q x cost / r: in the array nobody overtakes. With k below an answer
//! takes t(k), which grows with k, and so does what the array does, C(k). Two rules follow from that, and no model of the drives:
//!
//! * Who is due goes below at once. A place that it had to wait for would be time of its own, and where all who are promised something are below, fewer
//!   of them would not make room for any of them.
//! * Others go below while nobody who was promised something lags. How far a flow is behind its minimum integrates t(k) - T, so the crowd in which
//!   minimums are kept is found without knowing t(k): 25 ms of lag, half a percent of the 5 s over which a minimum is judged, let nobody else in.
//!
//! That would let a crowd in at once whenever nobody lags. So the others are also no more than what leaves the tightest flow its T, by what it was seen
//! to take in the crowd that it met.

use crate::scheduler::Scheduler;
use crate::tag::SECOND_NS;

/// The depth is looked at this often: some requests of a flow end meanwhile, and a phase of 5 s has many looks.
const LOOK_NS: u64 = 100_000_000;
/// A flow that is behind by this is helped by all means.
const LAG_NS_MAX: u64 = 25_000_000;
/// An answer may take an eighth longer than the minimum leaves it: how far the flow lags decides, this only bounds how much comes at once.
const ROOM: (u64, u64) = (9, 8);
/// Looks after which a flow that lags though it is alone below is known to be beyond help, and for how long.
const HOPELESS_LOOKS: u32 = 8;
const HOPELESS_NS_MIN: u64 = 10_000_000_000;
const HOPELESS_DOUBLINGS_MAX: u32 = 3;
/// A flow that was not answered for this long does not ask.
const AWAKE_NS: u64 = 1_000_000_000;
/// Parts of one request in which averages are counted.
const PARTS: u64 = 256;
/// Averages move by such a part: the least of several flows decides, and what is only noise in one of them must not.
const MEMORY: u64 = 16;

/// How a flow fares below: moving averages over some requests.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pressure {
    /// From dispatch to answer.
    below_ns: u64,
    /// Requests below when one was dispatched, with it.
    crowd_parts: u64,
    /// Requests that the flow had below then, and out.
    own_parts: u64,
    out_parts: u64,
    cost_bytes: u64,
    late_looks: u32,
    hopeless_until: u64,
    doublings: u32,
}

impl Pressure {
    pub(crate) fn dispatched(&mut self, crowd: u32, own: u32, out: u32) {
        follow(&mut self.crowd_parts, u64::from(crowd) * PARTS);
        follow(&mut self.own_parts, u64::from(own) * PARTS);
        follow(&mut self.out_parts, u64::from(out) * PARTS);
    }

    pub(crate) fn answered(&mut self, below_ns: u64, cost: u64) {
        follow(&mut self.below_ns, below_ns);
        follow(&mut self.cost_bytes, cost);
    }

    /// Whether no depth gives this flow its minimum: it asks for too little at a time.
    pub(crate) fn is_hopeless(&self, now: u64) -> bool {
        now < self.hopeless_until
    }

    /// The time that the minimum leaves to each request.
    fn time_ns(&self, minimum: u64) -> u64 {
        let work = u128::from(self.out_parts) * u128::from(self.cost_bytes) * u128::from(SECOND_NS);
        u64::try_from(work / u128::from(PARTS * minimum.max(1))).unwrap_or(u64::MAX)
    }

    /// Others below in such a number leave it its time.
    fn fits(&self, time_ns: u64) -> u64 {
        let room = u128::from(time_ns) * u128::from(self.crowd_parts * ROOM.0);
        let fits = room / u128::from((self.below_ns * ROOM.1 * PARTS).max(1));
        u64::try_from(fits).unwrap_or(u64::MAX)
    }

    /// What t(k) grows by with k is no more than proportional: what is left of it when only its own are below is too long, too.
    fn judge(&mut self, now: u64, time_ns: u64, lags: bool) {
        let alone = u128::from(self.below_ns) * u128::from(self.own_parts);
        if !lags || alone <= u128::from(time_ns) * u128::from(self.crowd_parts) {
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

fn follow(average: &mut u64, sample: u64) {
    *average = match *average {
        0 => sample,
        average => (average * (MEMORY - 1) + sample) / MEMORY,
    };
}

/// The depth, and when it is looked at.
pub(crate) struct Depth {
    now: u32,
    max: u32,
    look_at: u64,
}

impl Depth {
    pub(crate) fn new(max: u32) -> Depth {
        let max = max.max(1);
        Depth { now: max, max, look_at: 0 }
    }

    pub(crate) fn now(&self) -> u32 {
        self.now
    }

    pub(crate) fn set_max(&mut self, max: u32) {
        self.max = max.max(1);
        self.now = self.now.min(self.max);
    }

    pub(crate) fn look_soon(&mut self, now: u64) {
        self.look_at = now;
    }

    /// Shallower at once, deeper by a quarter.
    fn follow(&mut self, fits: u64) {
        let deeper = self.now + (self.now / 4).max(1);
        self.now = u32::try_from(fits).unwrap_or(u32::MAX).min(deeper).clamp(1, self.max);
    }
}

impl Scheduler {
    /// Looks at the depth when it is time.
    pub(crate) fn adapt_depth(&mut self, now: u64) {
        if now < self.depth.look_at || !self.settings.depth_adapts {
            return;
        }
        self.depth.look_at = now + LOOK_NS;
        let clock = self.clock(now);
        let mut fits = u64::MAX;
        for flow in self.flows.iter_mut().filter(|f| f.in_use && f.minimum > 0) {
            let pressure = &mut flow.pressure;
            if pressure.below_ns == 0 || pressure.is_hopeless(now) {
                continue;
            }
            let time_ns = pressure.time_ns(flow.minimum);
            pressure.judge(now, time_ns, clock.saturating_sub(flow.kept.at) >= LAG_NS_MAX);
            let fits_it = pressure.fits(time_ns);
            if flow.below > 0 || flow.is_awake(now, AWAKE_NS) {
                fits = fits.min(fits_it);
            }
        }
        self.depth.follow(fits);
    }

    /// Whether there is a place for anybody.
    pub(crate) fn has_place(&self) -> bool {
        self.below < self.depth.now
    }

    /// Whether there is one for a flow that is due and has nothing below.
    pub(crate) fn has_place_for_one(&self) -> bool {
        self.below < if self.settings.depth_adapts { self.depth.max } else { self.depth.now }
    }

    /// Whether somebody who is not due may go below. The first one always may: nothing is idle while somebody waits.
    pub(crate) fn has_place_for_others(&mut self, now: u64) -> bool {
        let depth = u64::from(self.depth.now);
        if self.below == 0 || !self.settings.depth_adapts || !self.has_place() {
            return self.has_place();
        }
        let left_ns = LAG_NS_MAX.saturating_sub(self.lag_ns(now));
        u64::from(self.below) * LAG_NS_MAX < depth * left_ns
    }

    /// How far the flow that is farthest behind its minimum is behind.
    fn lag_ns(&mut self, now: u64) -> u64 {
        while let Some((kept, number)) = self.owed.first() {
            let flow = &self.flows[number as usize];
            if flow.asks(now) && !flow.pressure.is_hopeless(now) {
                return self.clock(now).saturating_sub(kept);
            }
            self.owed.remove(number);
        }
        0
    }
}
