//! Finds by trial the depth from which throughput does not rise further, while clients use the pool.
//!
//! ```text
//!  search: halve, then bisect, while a depth has all but LOST_PERMILLE of the throughput
//!  found:  now and then compare with a quarter more, and with an eighth less
//! ```
//!
//! A trial compares two depths one after the other until their difference exceeds its noise. A depth at which
//! requests do not wait all the time shows nothing: the pool is not what is scarce.
//!
//! What was found goes with the pool to its next scheduler ([`Found`]), which measures whether the pool does
//! as much as that says, and searches if it does not.

use crate::found::{Found, FoundRate, FoundShallower};
use crate::series::{Series, WAITS_PERMILLE, WINDOWS_MAX, Window, compare};

/// Throughput that a depth may cost against the deepest.
const LOST_PERMILLE: i64 = 20;
/// After the search a little less is tried at a depth that has at least so much of the throughput.
const LITTLE_LESS_PERMILLE: i64 = 1000 - LOST_PERMILLE / 2;
/// Windows (of [`crate::depth::LOOK_NS`]) of a comparison, at least.
const WINDOWS_MIN: u64 = 4;
/// Square of the relative error from which on a depth is known well enough to compare others with it: 1.4 %.
const BASE_ERROR_PPM: u128 = 200;
/// Windows after which a new depth shows at the latest.
const SKIP_MAX: u64 = 20;
/// Windows at the deepest depth before the search tries small steps: their error is no less than that of what
/// they are compared with.
const WINDOWS_DEEPEST: u64 = WINDOWS_MAX / 2;
/// After so many windows the load is compared with that of the last comparison.
const CHANGE_WINDOWS: u64 = 20;
/// A hint is forgotten if the pool does something else in so many measurements that follow one another.
const DOUBTS: u32 = 2;
/// The interval between two comparisons after the search, doubled while they change nothing.
const CHECK_NS_MIN: u64 = 4_000_000_000;
const CHECK_NS_MAX: u64 = 128_000_000_000;
/// The search ends when the depth is known to a thirty-second.
const RESOLUTION: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// Measures the depth in force.
    None,
    Shallower(u32),
    Deeper(u32),
}

/// A depth that costs throughput.
#[derive(Clone, Copy)]
struct Refused {
    depth: u32,
    /// The depth that it was compared with, and its throughput relative to that, thousandths.
    of: u32,
    ratio: i64,
}

impl Refused {
    /// Compared with another depth, whose throughput relative to `of` is `ratio`.
    fn relative_to(self, of: u32, ratio: i64) -> Refused {
        Refused { of, ratio: self.ratio * 1000 / ratio.max(1), ..self }
    }
}

/// The search and its state.
pub(crate) struct Knee {
    max: u32,
    /// The deepest depth that is known to cost throughput; 0: none.
    low: u32,
    /// The depth in force: the shallowest that is known to cost none.
    high: u32,
    base: Series,
    tried: Series,
    /// At the deepest depth and at those that cost nothing, while the search goes on: errors of its steps do
    /// not add up.
    deepest: Series,
    /// Where the search began, and what that depth has of the throughput: less than all of it, if the search
    /// was begun anew.
    began: u32,
    began_kept: i64,
    trial: Trial,
    /// Windows that still show the previous depth.
    skip: u32,
    next_at: u64,
    interval_ns: u64,
    goes_up: bool,
    /// The last deeper depth had more throughput: tries twice as deep next.
    leaps: bool,
    kept_permille: i64,
    /// Whether the search goes on.
    searches: bool,
    /// Depth at which `base` is measured.
    base_depth: u32,
    /// Work and time below of a request when the depth was compared last.
    compared: (u64, u64),
    /// Requests below without a trial.
    top: u32,
    /// A refused depth of half of that or less.
    refused: Option<Refused>,
    /// What was found, as it was measured last.
    found: Option<Found>,
    /// How often this pool may yet do something else than that says, before it is forgotten; 0: it was
    /// measured here.
    doubts_left: u32,
}

impl Knee {
    pub(crate) fn new(max: u32) -> Knee {
        Knee {
            max,
            low: 0,
            high: max,
            base: Series::default(),
            tried: Series::default(),
            deepest: Series::default(),
            began: max,
            began_kept: 1000,
            trial: Trial::None,
            skip: 1,
            next_at: 0,
            interval_ns: CHECK_NS_MIN,
            goes_up: false,
            leaps: false,
            kept_permille: 1000,
            searches: true,
            base_depth: max,
            compared: (0, 0),
            top: max,
            refused: None,
            found: None,
            doubts_left: 0,
        }
    }

    /// What was found, for the next scheduler of the pool.
    pub(crate) fn tell(&self) -> Option<Found> {
        self.found
    }

    /// Begins with what another scheduler has found, unless this one has found something.
    pub(crate) fn begin_with(&mut self, now: u64, found: &Found) {
        let has_begun = self.found.is_some() || self.low > 0 || self.high < self.max || !self.searches;
        if has_begun || !found.is_for(self.max) {
            return;
        }
        let refused = |FoundShallower { depth, of, kept_permille }: FoundShallower| Refused {
            depth,
            of,
            ratio: i64::from(kept_permille),
        };
        *self = Knee {
            low: found.too_shallow,
            high: found.depth,
            next_at: now + CHECK_NS_MIN,
            kept_permille: 1000 - i64::from(found.cost_permille),
            searches: false,
            base_depth: found.depth,
            refused: found.shallower.map(refused),
            found: Some(*found),
            doubts_left: DOUBTS,
            // First whether more is lost here.
            goes_up: true,
            ..Knee::new(self.max)
        };
    }

    /// Keeps what was found, while the search is over. A hint that the pool does not bear out is forgotten:
    /// then the search begins. Returns whether there is a doubt.
    fn keep_found(&mut self, depth: u32) -> bool {
        if self.searches {
            return false;
        }
        let is_measured = depth == self.high && self.base.windows >= CHANGE_WINDOWS && self.base.waits();
        let rate = is_measured.then(|| FoundRate {
            kb_per_s: u64::try_from(self.base.mean()).unwrap_or(u64::MAX),
            request_bytes: self.base.request().0,
        });
        if self.doubts_left > 0 {
            let Some(rate) = rate else { return false };
            let left = std::mem::take(&mut self.doubts_left);
            if is_other_pool(self.found, rate) {
                match left {
                    1 => *self = Knee::new(self.max),
                    // When a controller is taken over, its hosts come back one after the other.
                    _ => (self.doubts_left, self.base) = (left - 1, Series::default()),
                }
                return true;
            }
        }
        let shallower = |Refused { depth, of, ratio }: Refused| FoundShallower {
            depth,
            of,
            kept_permille: ratio.clamp(1, 2000) as u32,
        };
        let known = self.found.filter(|found| found.depth == self.high).and_then(|found| found.rate);
        self.found = Some(Found {
            depth_max: self.max,
            depth: self.high,
            too_shallow: self.low,
            cost_permille: self.cost_permille(),
            rate: rate.or(known),
            shallower: self.refused.map(shallower),
        });
        false
    }

    /// The depth to use now.
    pub(crate) fn depth(&self) -> u32 {
        match self.trial {
            Trial::None => self.high,
            Trial::Shallower(depth) | Trial::Deeper(depth) => depth,
        }
    }

    /// The depth to use apart from trials.
    pub(crate) fn found(&self) -> u32 {
        self.high
    }

    /// Of the found depth, what clients with few outstanding requests use.
    pub(crate) fn used(&self) -> u32 {
        self.high.min(self.top)
    }

    /// Throughput that the found depth costs against the deepest.
    pub(crate) fn cost_permille(&self) -> u32 {
        (1000 - self.kept_permille).clamp(0, 1000) as u32
    }

    /// Whether requests wait at the found depth.
    pub(crate) fn waits(&self) -> bool {
        self.base.waits()
    }

    /// Whether the depth is about to change a lot.
    pub(crate) fn searches(&self) -> bool {
        self.searches
    }

    /// How much of a reduction of the depth shortens the time below, of 1000: all of it while requests queue
    /// there, nothing if each has a slot of its own, or if it is not known. By Little's law that time is
    /// depth / throughput.
    pub(crate) fn relief_permille(&self) -> u64 {
        let Some(Refused { depth, of, ratio }) = self.shallower() else { return 0 };
        let part = u64::from(depth) * 1000 / u64::from(of);
        let time = part * 1000 / ratio.max(1) as u64;
        1000_u64.saturating_sub(time) * 1000 / (1000 - part)
    }

    /// The depth that it is measured against.
    pub(crate) fn compared_with(&self) -> u32 {
        self.shallower().map_or_else(|| self.used(), |refused| refused.of)
    }

    pub(crate) fn knows_relief(&self) -> bool {
        self.shallower().is_some()
    }

    /// The refused depth, if it is far enough below the one in force.
    fn shallower(&self) -> Option<Refused> {
        self.refused.filter(|refused| 4 * refused.depth <= 3 * refused.of)
    }

    pub(crate) fn set_max(&mut self, max: u32) {
        if max != self.max {
            *self = Knee::new(max);
        }
    }

    /// The mix of requests changes now: what was measured does not apply to it, the depth does until it is
    /// compared.
    pub(crate) fn restart(&mut self, now: u64) {
        self.leave(now);
        (self.base, self.deepest) = (Series::default(), Series::default());
        if self.searches {
            self.next_at = now;
        }
    }

    fn leave(&mut self, now: u64) {
        if self.trial != Trial::None {
            (self.trial, self.skip) = (Trial::None, 1);
        }
        self.next_at = now + self.interval_ns;
    }

    /// Whether it is not known yet which depth below `top` is the shallowest without loss.
    fn is_open(&self, top: u32) -> bool {
        top.saturating_sub(self.low) > (top / RESOLUTION).max(1)
    }

    /// Takes a window into account. `allowed`: the depth that the minimums allow; `roomy`: whether they allow
    /// a trial of a deeper one.
    pub(crate) fn look(&mut self, now: u64, window: &Window, allowed: u32, roomy: bool) {
        // What a pool serves that is asked for little says nothing of its depth.
        let shows_nothing = window.is_held
            && match self.trial {
                Trial::None => window.waits_permille < WAITS_PERMILLE,
                _ => !self.base.waits(),
            };
        if window.requests == 0 || shows_nothing {
            // A trial on an idle pool shows nothing.
            self.skip = 1;
            if self.trial != Trial::None {
                self.leave(now);
            }
            return;
        }
        if self.skip > 0 || window.in_flight > self.depth().min(allowed) {
            self.skip = self.skip.saturating_sub(1);
            return;
        }
        match self.trial {
            Trial::None => self.measure(now, window, allowed, roomy),
            Trial::Shallower(depth) => self.try_shallower(now, window, depth),
            Trial::Deeper(depth) => self.try_deeper(now, window, depth),
        }
    }

    fn measure(&mut self, now: u64, window: &Window, allowed: u32, roomy: bool) {
        let depth = self.high.min(allowed);
        if depth != self.base_depth {
            // While nothing waits, either is more than there is.
            let is_same =
                self.base.windows > 0 && !self.base.waits() && window.waits_permille < WAITS_PERMILLE;
            self.base = if is_same { self.base } else { Series::default() };
            self.base_depth = depth;
        }
        self.base.add(window);
        if self.keep_found(depth) {
            return;
        }
        if self.base.windows == CHANGE_WINDOWS && differs(self.base.request(), self.compared) {
            self.interval_ns = CHECK_NS_MIN;
            self.next_at = self.next_at.min(now + CHECK_NS_MIN);
        }
        if self.is_coarse() {
            self.deepest = self.base;
            if self.base.windows < WINDOWS_DEEPEST {
                return;
            }
        }
        let is_exact = self.deepest.windows > 0
            || self.base.error_ppm() <= BASE_ERROR_PPM
            || self.base.windows >= WINDOWS_MAX / 4;
        if now < self.next_at || self.base.windows < WINDOWS_MIN || !is_exact {
            return;
        }
        if depth < self.high && self.knows_relief() && self.base.waits() {
            // Minimums determine the depth: others are compared when they allow the one that was found.
            return;
        }
        let waits = self.base.waits();
        // If nothing waits, what is below is all that there is.
        let crowd = window.below_ns.div_ceil(window.passed_ns.max(1)).min(u64::from(u32::MAX)) as u32;
        let top = if waits { depth } else { depth.min(crowd) };
        let deeper = self.max.min(if self.leaps { 2 * self.high } else { self.high + self.high.div_ceil(4) });
        let may_go_deeper = roomy && self.high < deeper && deeper <= allowed;
        let trial = if self.leaps && may_go_deeper {
            Trial::Deeper(deeper)
        } else if self.is_open(top) {
            Trial::Shallower(self.low.midpoint(top).max(1))
        } else if waits && top > 1 && self.shallower().is_none() {
            Trial::Shallower(top / 2)
        } else if waits && self.goes_up && may_go_deeper {
            Trial::Deeper(deeper)
        } else if waits && top > 1 && self.kept_permille >= LITTLE_LESS_PERMILLE && may_lose(top, window) {
            Trial::Shallower(a_little_less(top))
        } else {
            Trial::None
        };
        (self.top, self.searches) = (top, self.is_open(top));
        if self.searches && self.deepest.windows == 0 {
            (self.began, self.began_kept) = (self.high, self.kept_permille);
        }
        self.deepest = match self.searches {
            true if self.deepest.windows == 0 => self.base,
            true => self.deepest,
            false => Series::default(),
        };
        // First whether the search ended too shallow, then whether a little less does.
        self.goes_up = self.searches || !self.goes_up;
        self.begin(now, window, trial);
    }

    /// Whether the search has refused large steps alone, and is still at the depth at which it began.
    fn is_coarse(&self) -> bool {
        self.searches && self.low > 0 && self.high == self.began && self.deepest.windows > 0
    }

    fn begin(&mut self, now: u64, window: &Window, trial: Trial) {
        if trial == Trial::None {
            return self.leave(now);
        }
        (self.trial, self.tried) = (trial, Series::default());
        self.compared = self.base.request();
        // What was dispatched before is below for this long.
        let drains_ns = window.below_ns / window.requests.max(1);
        self.skip = 1 + (drains_ns / window.passed_ns.max(1)).min(SKIP_MAX) as u32;
    }

    fn try_shallower(&mut self, now: u64, window: &Window, depth: u32) {
        self.tried.add(window);
        if self.tried.windows < WINDOWS_MIN {
            return;
        }
        let (kept, error) = self.kept();
        let decides = self.tried.windows == WINDOWS_MAX;
        if !self.tried.waits() || kept + 2 * error < 1000 - LOST_PERMILLE {
            self.refuse(now, depth);
        } else if kept - 2 * error >= 1000 - self.tolerated(depth) || decides {
            // Smaller steps follow in a search. After it what is accepted by chance stays, and adds up.
            let margin = if self.searches { error } else { -error };
            match kept + margin >= 1000 - LOST_PERMILLE {
                true => self.accept(now, depth, kept),
                false if decides => self.refuse(now, depth),
                false => {}
            }
        }
    }

    /// A large step may be wrong, because smaller ones follow.
    fn tolerated(&self, depth: u32) -> i64 {
        if 4 * depth <= 3 * self.top { 3 * LOST_PERMILLE } else { LOST_PERMILLE }
    }

    /// What the tried depth has of the deepest one's throughput, and the error.
    fn kept(&self) -> (i64, i64) {
        if self.deepest.windows > 0 {
            let (ratio, error) = compare(&self.tried, &self.deepest);
            return (ratio * self.began_kept / 1000, error);
        }
        let (ratio, error) = compare(&self.tried, &self.base);
        (ratio * self.kept_permille / 1000, error)
    }

    fn accept(&mut self, now: u64, depth: u32, kept: i64) {
        let (ratio, _) = compare(&self.tried, &self.base);
        self.refused = self.refused.map(|refused| refused.relative_to(depth, ratio));
        if self.deepest.windows > 0 {
            self.deepest.merge(&self.tried);
        }
        self.base_depth = depth;
        (self.high, self.base, self.kept_permille) = (depth, self.tried, kept.min(1000));
        if self.low >= depth {
            // What cost throughput before does not any more.
            self.low = depth - depth.div_ceil(4);
        }
        self.interval_ns = CHECK_NS_MIN;
        self.leave(now);
        (self.skip, self.next_at) = (0, now);
    }

    fn refuse(&mut self, now: u64, depth: u32) {
        if self.tried.waits() && 2 * depth <= self.top {
            let (ratio, _) = compare(&self.tried, &self.base);
            self.refused = Some(Refused { depth, of: self.top, ratio });
        }
        let searches = self.tried.waits() && depth > self.low;
        if searches {
            self.low = depth;
        } else {
            self.interval_ns = (self.interval_ns * 2).min(CHECK_NS_MAX);
            self.searches = false;
        }
        self.leave(now);
        if searches {
            self.next_at = now;
        }
    }

    fn try_deeper(&mut self, now: u64, window: &Window, depth: u32) {
        self.tried.add(window);
        if self.tried.windows < WINDOWS_MIN {
            return;
        }
        let (ratio, error) = compare(&self.tried, &self.base);
        let decides = self.tried.windows == WINDOWS_MAX;
        let is_better = ratio - 3 * error > 1000 + LOST_PERMILLE;
        if is_better || (decides && ratio > 1000 + LOST_PERMILLE.max(2 * error)) {
            (self.low, self.high, self.base) = (self.high, depth, self.tried);
            (self.kept_permille, self.interval_ns) = (1000, CHECK_NS_MIN);
            (self.deepest, self.leaps) = (Series::default(), true);
            self.refused = self.refused.map(|refused| refused.relative_to(depth, ratio));
            self.leave(now);
            (self.skip, self.next_at) = (0, now);
        } else if ratio + error <= 1000 + LOST_PERMILLE || decides {
            // Each further quarter brings less: all of them as much again, at most.
            self.kept_permille = (2_000_000 / ratio.max(1000) - 1000).max(0);
            self.leaps = false;
            self.interval_ns = (self.interval_ns * 2).min(CHECK_NS_MAX);
            self.leave(now);
        }
    }
}

/// Whether one of the two differs by a quarter or more.
fn differs(this: (u64, u64), other: (u64, u64)) -> bool {
    is_far(this.0, other.0) || is_far(this.1, other.1)
}

fn is_far(a: u64, b: u64) -> bool {
    a.abs_diff(b) > a.max(b) / 4
}

/// Whether a pool with this rate is another one than that of a hint. Requests of another size tell nothing.
fn is_other_pool(hint: Option<Found>, is: FoundRate) -> bool {
    let Some(was) = hint.and_then(|hint| hint.rate) else { return false };
    !is_far(was.request_bytes, is.request_bytes) && is_far(was.kb_per_s, is.kb_per_s)
}

fn a_little_less(depth: u32) -> u32 {
    depth - (depth / 8).max(1)
}

/// Whether the minimums are met even if throughput falls with the depth.
fn may_lose(depth: u32, window: &Window) -> bool {
    window.minimum_permille * u64::from(depth) < 900 * u64::from(a_little_less(depth))
}
