//! The depth: how many requests may be below the scheduler, so that a client with one outstanding request
//! gets its minimum.
//!
//! A flow with q outstanding requests gets r only if requests below complete within q x cost / r: the array
//! does not reorder.

use crate::pressure::PARTS;
use crate::scheduler::Scheduler;

/// Interval between adjustments: some requests of a flow complete meanwhile, and a phase of 5 s has many
/// adjustments.
const LOOK_NS: u64 = 100_000_000;
/// Share of the time that a minimum allows per request which may be spent below; for going deeper by trial,
/// only this share.
const FITS_PERCENT: u64 = 90;
const ROOMY_PERCENT: u64 = 75;
/// Above this pace of the reservation clock (of 1024) the minimums fit or nearly do. Then flows with a
/// minimum fill the slots, and none of them waits long; below it one slot is reserved for that wait.
const NEARLY_FITS_PACE: u64 = 922;
/// Interval between two trials of a deeper queue than measured times suggest; doubles up to the second value
/// while trials fail.
const TRY_NS_MIN: u64 = 1_000_000_000;
const TRY_NS_MAX: u64 = 16_000_000_000;
/// A flow without a response for this long is idle.
const AWAKE_NS: u64 = 1_000_000_000;
/// What the flows with a minimum allow.
#[derive(Clone, Copy)]
struct Wish {
    /// The depth that their times allow, if times grow with the depth.
    fits: u64,
    /// Whether their times allow one more, if times stay.
    roomy: bool,
    /// Requests that are really below.
    crowd: u64,
    /// Requests (in parts) that must be below for the minimums (Little's law): with fewer, flows with a
    /// minimum take slots from each other, and the total throughput falls.
    needed_parts: u64,
}

/// The depth and its adjustment.
pub(crate) struct Depth {
    now: u32,
    max: u32,
    look_at: u64,
    looked_at: u64,
    try_at: u64,
    try_ns: u64,
    tried: bool,
    held_ns: u64,
    /// Recent pace of the reservation clock, of 1024.
    pub(crate) pace: u64,
}

impl Depth {
    pub(crate) fn new(max: u32) -> Depth {
        let max = max.max(1);
        Depth {
            now: max,
            max,
            look_at: 0,
            looked_at: 0,
            try_at: 0,
            try_ns: TRY_NS_MIN,
            tried: false,
            held_ns: 0,
            pace: 1024,
        }
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
        self.try_ns = TRY_NS_MIN;
    }

    fn follow(&mut self, now: u64, wish: Wish, blocked: bool) {
        let (current, fits) = (u64::from(self.now), wish.fits.clamp(1, u64::from(self.max)));
        let real = current.min(wish.crowd.max(1));
        let next = if fits < real {
            if std::mem::take(&mut self.tried) {
                self.try_ns = (self.try_ns * 2).min(TRY_NS_MAX);
            }
            self.try_at = now + self.try_ns;
            fits.max(real / 2)
        } else if fits > current {
            self.tried = false;
            fits.min(current + (current / 4).max(1))
        } else if wish.roomy && blocked && now >= self.try_at {
            self.tried = true;
            self.try_at = now + self.try_ns;
            current + 1
        } else {
            current
        };
        let needed = wish.needed_parts.div_ceil(PARTS);
        self.now = next.max(needed).clamp(1, u64::from(self.max)) as u32;
    }
}

impl Scheduler {
    /// Adjusts the depth when the interval has passed.
    pub(crate) fn adapt_depth(&mut self, now: u64) {
        if now < self.depth.look_at || !self.settings.depth_adapts {
            return;
        }
        let (passed, held) = (now - self.depth.looked_at, self.held_ns - self.depth.held_ns);
        if let Some(lost) = (1024 * held.min(passed)).checked_div(passed) {
            let pace = 1024 - lost;
            self.depth.pace = ((self.depth.pace * 7 + pace) / 8).max(1);
        }
        (self.depth.look_at, self.depth.looked_at, self.depth.held_ns) = (now + LOOK_NS, now, self.held_ns);
        let wish = self.wish(now);
        self.depth.follow(now, wish, self.meter.blocked);
    }

    fn wish(&mut self, now: u64) -> Wish {
        let (depth, pace) = (self.depth.now(), self.depth.pace);
        let mut wish = Wish { fits: u64::MAX, roomy: true, crowd: 0, needed_parts: 0 };
        for flow in self.flows.iter_mut().filter(|f| f.in_use && f.minimum > 0) {
            let pressure = &mut flow.pressure;
            let asks = flow.think_ns <= pressure.below_ns;
            if pressure.below_ns == 0 || !asks || pressure.is_hopeless(now) {
                continue;
            }
            // If minimums are over-committed, each flow is to get its share.
            let time_ns = pressure.time_ns(flow.minimum).saturating_mul(1024) / pace;
            pressure.judge(now, depth, time_ns);
            let (below_ns, crowd, own) = (pressure.below_ns, pressure.crowd_parts, pressure.own_parts);
            let reckoned_ns = pressure.reckoned_ns();
            if flow.below == 0 && !flow.is_awake(now, AWAKE_NS) {
                continue;
            }
            let nearly_fits = pace >= NEARLY_FITS_PACE;
            let room = u128::from(time_ns) * u128::from(crowd * FITS_PERCENT);
            let fits = room / (u128::from(reckoned_ns) * u128::from(100 * PARTS));
            let for_the_slot = u64::from(!nearly_fits);
            wish.fits = wish.fits.min(u64::try_from(fits).unwrap_or(u64::MAX).saturating_sub(for_the_slot));
            // A flow that is too slow even below needs fewer requests beside it, not more.
            if nearly_fits && below_ns < time_ns {
                wish.needed_parts += own * below_ns / time_ns;
            }
            let with_one_more = reckoned_ns + reckoned_ns * PARTS / (crowd + PARTS);
            wish.roomy &= with_one_more <= time_ns / 100 * ROOMY_PERCENT;
            wish.crowd = wish.crowd.max(crowd.div_ceil(PARTS));
        }
        wish
    }
}
