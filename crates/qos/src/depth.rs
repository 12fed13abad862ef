//! The depth: how many requests may be below the scheduler. It is the shallowest that costs no throughput
//! ([`Knee`]), so that requests wait where weights are in force; and no more than lets clients with few
//! outstanding requests get their minimums.
//!
//! A flow with q outstanding requests gets r only if requests below complete within q x cost / r: the array
//! does not reorder.

use crate::curve::{Curve, RELIEF_MIN_PERMILLE};
use crate::found::Found;
use crate::knee::Knee;
use crate::part::Part;
use crate::pressure::PARTS;
use crate::queue::Phase;
use crate::scheduler::Scheduler;
use crate::series::Window;
use crate::tag::SECOND_NS;

/// Interval between adjustments: some requests of a flow complete meanwhile, and a phase of 5 s has many
/// adjustments.
pub(crate) const LOOK_NS: u64 = 100_000_000;
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
/// Of the throughput, the minimums take no more for themselves by a shallower queue: over-committed ones are
/// not to lose by it what they lack.
const KEEPS_PERMILLE: u64 = 970;
/// With more than this part of the work dispatched while no minimum was due, capacity is not what a late
/// minimum lacks. A little is left even if minimums are over-committed, when all of them are below.
const SPARE_PERCENT: u64 = 3;
/// The time that it takes to reach a random place on a drive, as the transfer of so many bytes. Only the
/// throughputs of two depths are compared by it: their requests differ if weights are in force at one of
/// them.
const REACH_BYTES: u64 = 256 << 10;

/// What determines the depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DepthLimit {
    /// The setting: throughput still rises there, or was not compared yet.
    #[default]
    Setting,
    /// Throughput does not rise with a greater depth.
    Throughput,
    /// Clients with few outstanding requests get their minimums at this depth only.
    Minimums,
    /// No request waits: the clients have too few outstanding requests to use all of the pool. Weights do
    /// nothing.
    Outstanding,
}

/// What the flows with a minimum allow.
#[derive(Clone, Copy)]
struct Wish {
    /// The depth that their times allow, if times grow with the depth.
    fits: u64,
    /// Whether their times allow one more, if times stay.
    roomy: bool,
    /// Whether their times allow a trial of a deeper queue.
    may_try_deeper: bool,
    /// Requests that are really below.
    crowd: u64,
    /// Requests (in parts) that must be below for the minimums (Little's law): with fewer, flows with a
    /// minimum take slots from each other, and the total throughput falls.
    needed_parts: u64,
    /// Bytes per second that they ask for, as far as any depth gives it.
    asked: u128,
    /// Requests of all flows that may be below now, if the depth allows it.
    offered: u32,
}

/// The depth and its adjustment.
pub(crate) struct Depth {
    pub(crate) knee: Knee,
    /// What the minimums allow.
    allowed: u32,
    max: u32,
    look_at: u64,
    looked_at: u64,
    try_at: u64,
    try_ns: u64,
    tried: bool,
    held_ns: u64,
    /// The shallowest depth that a late minimum may bring about.
    bottom: u64,
    /// Recent pace of the reservation clock, of 1024.
    pub(crate) pace: u64,
    /// What happened since the last look; the parts and `in_flight` are set at the next one.
    seen: Window,
    waited_ns: u64,
    served_bytes: u64,
    /// Recent throughput, and requests below on average.
    bytes_per_s: u64,
    crowd_parts: u64,
    minimum_bytes: u64,
    /// Work that was dispatched while no minimum was due.
    spare_bytes: u64,
}

impl Depth {
    pub(crate) fn new(max: u32) -> Depth {
        let max = max.max(1);
        Depth {
            knee: Knee::new(max),
            allowed: max,
            max,
            look_at: 0,
            looked_at: 0,
            try_at: 0,
            try_ns: TRY_NS_MIN,
            tried: false,
            held_ns: 0,
            bottom: 0,
            pace: 1024,
            seen: Window::default(),
            waited_ns: 0,
            served_bytes: 0,
            bytes_per_s: 0,
            crowd_parts: 0,
            minimum_bytes: 0,
            spare_bytes: 0,
        }
    }

    pub(crate) fn now(&self) -> u32 {
        self.allowed.min(self.knee.depth())
    }

    /// The depth in force apart from trials of another one.
    pub(crate) fn found(&self) -> u32 {
        self.allowed.min(self.knee.found())
    }

    pub(crate) fn limit(&self) -> DepthLimit {
        let found = self.knee.found();
        match () {
            () if self.allowed < found => DepthLimit::Minimums,
            () if !self.knee.waits() => DepthLimit::Outstanding,
            () if found < self.max => DepthLimit::Throughput,
            () => DepthLimit::Setting,
        }
    }

    pub(crate) fn set_max(&mut self, max: u32) {
        self.max = max.max(1);
        self.knee.set_max(self.max);
        self.allowed = self.allowed.min(self.max);
    }

    pub(crate) fn look_soon(&mut self, now: u64) {
        self.look_at = now;
        self.try_ns = TRY_NS_MIN;
        self.knee.restart(now);
    }

    /// Records a response.
    pub(crate) fn answered(&mut self, bytes: u64, below_ns: u64, phase: Phase) {
        self.seen.work_bytes = self.seen.work_bytes.saturating_add(bytes + REACH_BYTES);
        self.seen.requests += 1;
        self.served_bytes = self.served_bytes.saturating_add(bytes);
        self.minimum_bytes += if phase == Phase::Minimum { bytes + REACH_BYTES } else { 0 };
        self.seen.below_ns = self.seen.below_ns.saturating_add(below_ns);
    }

    /// Records a dispatch while no minimum was due.
    pub(crate) fn spared(&mut self, bytes: u64) {
        self.spare_bytes = self.spare_bytes.saturating_add(bytes + REACH_BYTES);
    }

    /// Ends the window of the looks.
    fn window(&mut self, passed_ns: u64, waited_ns: u64, in_flight: u32) -> Window {
        let waited = waited_ns - std::mem::replace(&mut self.waited_ns, waited_ns);
        let waits_permille = waited.saturating_mul(1000) / passed_ns.max(1);
        let served = u128::from(std::mem::take(&mut self.served_bytes)) * u128::from(SECOND_NS);
        let rate = u64::try_from(served / u128::from(passed_ns.max(1))).unwrap_or(u64::MAX);
        self.bytes_per_s = self.bytes_per_s / 8 * 7 + rate / 8;
        let crowd = self.seen.below_ns.saturating_mul(PARTS) / passed_ns.max(1);
        self.crowd_parts = self.crowd_parts / 8 * 7 + crowd / 8;
        let minimum = std::mem::take(&mut self.minimum_bytes).saturating_mul(1000);
        let minimum_permille = minimum / self.seen.work_bytes.max(1);
        Window { passed_ns, waits_permille, minimum_permille, in_flight, ..std::mem::take(&mut self.seen) }
    }

    /// The shallowest depth at which the throughput covers the minimums: below it, what one of them gains the
    /// others lose. If no depth does, the one that costs next to nothing.
    fn covers(&self, wish: &Wish, floor_percent: u64) -> u64 {
        let asked = wish.asked * 1000 / u128::from(self.bytes_per_s.max(1));
        let permille = u64::try_from(asked).unwrap_or(u64::MAX).saturating_add(10 * floor_percent);
        // More may be outstanding now than when depths were compared last.
        let used = self.knee.used().max(self.knee.found().min(wish.offered));
        let curve = self.curve();
        let whole = curve.shallowest_with(KEEPS_PERMILLE, u64::from(used) * PARTS);
        curve.shallowest_with(permille, self.crowd_parts).min(whole)
    }

    /// Whether the search has found what a shallower depth costs and brings, or that none can be tried.
    fn is_known(&self) -> bool {
        self.knee.knows_relief() || !self.knee.searches()
    }

    /// Whether the depth in force is not one that the search tries for a moment.
    pub(crate) fn is_settled(&self) -> bool {
        self.allowed < self.knee.found() || !self.knee.searches()
    }

    pub(crate) fn curve(&self) -> Curve {
        Curve::new(self.knee.compared_with(), self.knee.relief_permille())
    }

    /// Throughput that the depth costs against the deepest, of 1000.
    pub(crate) fn cost_permille(&self) -> u32 {
        let kept = u64::from(1000 - self.knee.cost_permille());
        let of_found = match self.allowed < self.knee.found() {
            true => self.curve().throughput_permille(self.allowed, self.knee.found()).min(1000),
            false => 1000,
        };
        (1000 - kept * of_found / 1000) as u32
    }

    fn follow(&mut self, now: u64, wish: Wish, covers: u64, blocked: bool) {
        let fits = wish.fits.max(covers).clamp(1, u64::from(self.max));
        let current = u64::from(self.now());
        let real = current.min(wish.crowd.max(1));
        let next = if fits < real {
            if std::mem::take(&mut self.tried) {
                self.try_ns = (self.try_ns * 2).min(TRY_NS_MAX);
            }
            self.try_at = now + self.try_ns;
            fits.max(real / 2)
        } else if fits > u64::from(self.allowed) {
            self.tried = false;
            fits.min(u64::from(self.allowed) + u64::from(self.allowed / 4).max(1))
        } else if wish.roomy && blocked && now >= self.try_at {
            self.tried = true;
            self.try_at = now + self.try_ns;
            u64::from(self.allowed) + 1
        } else {
            u64::from(self.allowed)
        };
        let needed = wish.needed_parts.div_ceil(PARTS);
        self.bottom = covers.max(needed).clamp(1, u64::from(self.max));
        self.allowed = next.max(needed).clamp(1, u64::from(self.max)) as u32;
    }
}

impl Scheduler {
    /// What it has found out about its pool; none: nothing yet.
    pub fn found(&self) -> Option<Found> {
        self.depth.knee.tell()
    }

    /// Begins with what another scheduler has found out about the same pool. One that has found something
    /// itself goes by that.
    pub fn begin_with(&mut self, now: u64, found: &Found) {
        self.depth.knee.begin_with(now, found);
    }

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
        let spare = std::mem::take(&mut self.depth.spare_bytes).saturating_mul(100);
        self.has_spare = spare / SPARE_PERCENT > self.depth.seen.work_bytes;
        let window = self.depth.window(passed, self.meter.waited_ns, self.below);
        let window = Window { is_held: self.is_held_by_parts(), ..window };
        let wish = self.wish(now);
        let floor_percent = if self.free_turns.is_empty() { 0 } else { self.settings.floor_percent.into() };
        let depth = &mut self.depth;
        if depth.is_known() {
            let covers = depth.covers(&wish, floor_percent);
            depth.follow(now, wish, covers, self.meter.blocked);
        } else {
            depth.allowed = depth.max;
        }
        depth.knee.look(now, &window, depth.allowed, wish.may_try_deeper);
    }

    /// Whether parts of maximums made requests wait since the last look, and the others have less
    /// outstanding than those that have such a part: they do not show what the pool can do.
    fn is_held_by_parts(&mut self) -> bool {
        let holds_now =
            self.limited.first().is_some_and(|(_, number)| self.flows[number as usize].part.is_some());
        if !std::mem::take(&mut self.part_held) && !holds_now {
            return false;
        }
        let has_limit = |part: Part| part.maximum.is_some() || part.bandwidth.is_some();
        let [mut limited, mut others] = [0_u64; 2];
        for flow in self.flows.iter().filter(|flow| flow.in_use) {
            let kind = if flow.part.is_some_and(has_limit) { &mut limited } else { &mut others };
            *kind += u64::from(flow.outstanding());
        }
        others < limited
    }

    /// What part of the minimums can be served now, of 1024. The clock does not tell while all requests are
    /// below, because the clients have few.
    fn scale(&self, now: u64) -> u64 {
        let asking = self.flows.iter().filter(|f| f.in_use && f.minimum > 0 && f.is_awake(now, AWAKE_NS));
        let promised: u128 = asking.map(|f| u128::from(f.minimum)).sum();
        let part = u128::from(self.depth.bytes_per_s) * 1024 / promised.max(1);
        u64::try_from(part).unwrap_or(u64::MAX).clamp(1, self.depth.pace)
    }

    /// Requests that are below, or wait for nothing but a slot.
    fn offered(&self) -> u32 {
        let held = self.limited.numbers().map(|number| self.flows[number as usize].waiting);
        self.below + self.waiting - held.sum::<u32>()
    }

    fn wish(&mut self, now: u64) -> Wish {
        let pace = self.scale(now);
        let mut wish = Wish {
            fits: u64::MAX,
            roomy: true,
            may_try_deeper: true,
            crowd: 0,
            needed_parts: 0,
            asked: 0,
            offered: self.offered(),
        };
        let relief = self.depth.knee.relief_permille();
        let (curve, is_known) = (self.depth.curve(), self.depth.is_known());
        let bottom = self.depth.bottom;
        for flow in self.flows.iter_mut().filter(|f| f.in_use && f.minimum > 0) {
            let is_awake = flow.below > 0 || flow.is_awake(now, AWAKE_NS);
            let pressure = &mut flow.pressure;
            let asks = flow.think_ns <= pressure.below_ns;
            if pressure.below_ns == 0 || !asks || !is_awake {
                continue;
            }
            let alone_ns = curve.alone_ns(pressure.below_ns, pressure.crowd_parts).max(1);
            let possible_ns = pressure.time_ns(flow.minimum).min(alone_ns);
            wish.asked += u128::from(flow.minimum) * u128::from(possible_ns) / u128::from(alone_ns);
            if pressure.is_hopeless(now) {
                continue;
            }
            // If minimums are over-committed, each flow is to get its share.
            let time_ns = pressure.time_ns(flow.minimum).saturating_mul(1024) / pace;
            let (below_ns, crowd, own) = (pressure.below_ns, pressure.crowd_parts, pressure.own_parts);
            let reckoned_ns = pressure.reckoned_ns(flow.minimum);
            // One that is far beyond reach is late in any case.
            wish.may_try_deeper &= reckoned_ns * 3 / 2 <= time_ns || below_ns > time_ns * 3 / 2;
            let fits = curve.depth_for(time_ns.saturating_mul(FITS_PERCENT) / 100, reckoned_ns, crowd);
            // Its requests were below with hardly more others than the shallowest depth has.
            let was_tried = 4 * crowd <= 5 * bottom * PARTS;
            let is_last = is_known && fits.is_none_or(|fits| fits == 0 && was_tried);
            pressure.judge(now, is_last.then_some(bottom), time_ns);
            let Some(fits) = fits else { continue };
            let nearly_fits = pace >= NEARLY_FITS_PACE;
            let for_the_slot = u64::from(!nearly_fits && relief >= RELIEF_MIN_PERMILLE);
            wish.fits = wish.fits.min(fits.saturating_sub(for_the_slot));
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
