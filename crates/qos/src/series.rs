//! Throughput in windows, and how well it is known.

/// Windows (of [`crate::depth::LOOK_NS`]) that count: with these, 100 I/Os per second are enough to tell a
/// difference of 5 %.
pub(crate) const WINDOWS_MAX: u64 = 80;
/// Share of a window in which some request waits, from which on the depth limits the throughput.
pub(crate) const WAITS_PERMILLE: u64 = 900;
/// 2^50 bytes per second, far beyond any pool; sums of squares stay in range.
const RATE_KB_MAX: u128 = 1 << 40;
/// Of service times.
const DEVIATION_PERMILLE: u128 = 333;

/// What the pool did since the last look.
#[derive(Clone, Copy, Default)]
pub(crate) struct Window {
    pub(crate) passed_ns: u64,
    /// Work, in which a request counts its bytes and the time to reach them.
    pub(crate) work_bytes: u64,
    pub(crate) requests: u64,
    /// Sum of the times from dispatch to response.
    pub(crate) below_ns: u64,
    /// Part of the time in which a request waited for a slot.
    pub(crate) waits_permille: u64,
    /// Requests below at the end.
    pub(crate) in_flight: u32,
    /// Part of the work that was due for minimums.
    pub(crate) minimum_permille: u64,
    /// Whether a part of a maximum made requests wait: a depth may be enough for it, and too shallow for the
    /// next one.
    pub(crate) is_held: bool,
}

/// Throughput in some windows.
#[derive(Clone, Copy, Default)]
pub(crate) struct Series {
    pub(crate) windows: u64,
    pub(crate) requests: u64,
    /// Kilobytes per second, and their squares.
    sum: u128,
    squares: u128,
    waits: u64,
    work_bytes: u64,
    below_ns: u64,
}

impl Series {
    pub(crate) fn add(&mut self, window: &Window) {
        if self.windows == WINDOWS_MAX {
            // The pool and its load change: older windows count less.
            self.windows /= 2;
            self.requests /= 2;
            (self.work_bytes, self.below_ns) = (self.work_bytes / 2, self.below_ns / 2);
            (self.sum, self.squares, self.waits) = (self.sum / 2, self.squares / 2, self.waits / 2);
        }
        let rate = u128::from(window.work_bytes) * 1_000_000 / u128::from(window.passed_ns.max(1));
        let rate = rate.min(RATE_KB_MAX);
        self.windows += 1;
        self.requests += window.requests;
        self.work_bytes = self.work_bytes.saturating_add(window.work_bytes);
        self.below_ns = self.below_ns.saturating_add(window.below_ns);
        self.sum += rate;
        self.squares += rate * rate;
        self.waits += window.waits_permille;
    }

    pub(crate) fn merge(&mut self, other: &Series) {
        self.windows += other.windows;
        self.requests += other.requests;
        self.sum += other.sum;
        self.squares += other.squares;
        self.waits += other.waits;
        self.work_bytes = self.work_bytes.saturating_add(other.work_bytes);
        self.below_ns = self.below_ns.saturating_add(other.below_ns);
    }

    pub(crate) fn mean(&self) -> u128 {
        self.sum / u128::from(self.windows.max(1))
    }

    pub(crate) fn waits(&self) -> bool {
        self.windows > 0 && self.waits / self.windows >= WAITS_PERMILLE
    }

    /// Work and time below of a request.
    pub(crate) fn request(&self) -> (u64, u64) {
        let requests = self.requests.max(1);
        (self.work_bytes / requests, self.below_ns / requests)
    }

    /// Square of the relative standard error of the mean, in millionths: at least that of requests whose
    /// service times deviate by a third, because few windows do not show it.
    pub(crate) fn error_ppm(&self) -> u128 {
        let (n, mean) = (u128::from(self.windows.max(1)), self.mean().max(1));
        let variance = (self.squares / n).saturating_sub(mean * mean);
        let least = DEVIATION_PERMILLE * DEVIATION_PERMILLE / u128::from(self.requests.max(1));
        (variance * 1_000_000 / (mean * mean * n)).max(least)
    }
}

/// This one's throughput relative to another's, and its standard error; thousandths.
pub(crate) fn compare(this: &Series, other: &Series) -> (i64, i64) {
    let ratio = this.mean() * 1000 / other.mean().max(1);
    let error = (this.error_ppm() + other.error_ppm()).isqrt();
    (ratio.min(1_000_000) as i64, error.min(1_000_000) as i64)
}
