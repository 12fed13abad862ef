//! How many requests are below the scheduler: few enough that who asks for one at a time gets its minimum.
//!
//! A flow with q requests out gets r only when what is below is answered within q x cost / r: in the array nobody overtakes.

use crate::pressure::PARTS;
use crate::scheduler::Scheduler;

/// The depth is looked at this often: some requests of a flow end meanwhile, and a phase of 5 s has many looks.
const LOOK_NS: u64 = 100_000_000;
/// Of the time that a minimum leaves to a request, this much may be spent below; to go deeper by trying, only this.
const FITS_PERCENT: u64 = 90;
const ROOMY_PERCENT: u64 = 75;
/// Above this pace of the reservation clock, of 1024, the minimums fit or nearly do. Then those who are promised something fill the slots, and nobody
/// waits long for one; below it a slot is left for that.
const NEARLY_FITS_PACE: u64 = 922;
/// Between two tries to go deeper than the flows' times say; it doubles up to the second while tries fail.
const TRY_NS_MIN: u64 = 1_000_000_000;
const TRY_NS_MAX: u64 = 16_000_000_000;
/// A flow that was not answered for this long does not ask.
const AWAKE_NS: u64 = 1_000_000_000;
/// What the flows with a minimum say about the depth.
#[derive(Clone, Copy)]
struct Wish {
    /// What their times allow if those grow with the depth.
    fits: u64,
    /// Whether their times allow one more if those stay.
    roomy: bool,
    /// Requests that are really below.
    crowd: u64,
    /// Parts of requests that must be below for the minimums (Little's law): with fewer, those who were promised something take slots from each
    /// other, and the array does less for all of them.
    needed_parts: u64,
}

/// The depth, and when it is looked at.
pub(crate) struct Depth {
    now: u32,
    max: u32,
    look_at: u64,
    looked_at: u64,
    try_at: u64,
    try_ns: u64,
    tried: bool,
    held_ns: u64,
    /// How fast the reservation clock ran of late, of 1024.
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
    /// Looks at the depth when it is time.
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
            // When more is promised than there is, each is to get its part of it.
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
            // Who is answered too late even below needs fewer beside it, not more.
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
