//! Detects violated minimums: each window is judged at its end.

use crate::part::Part;
use crate::tag::SECOND_NS;

/// A minimum is judged over this window: a request of 512 KiB is 2 % of a second at 24 MB/s, and 0.4 % of
/// this.
pub const WINDOW_NS: u64 = 5 * SECOND_NS;
/// A minimum is kept if at least this share of it was served.
pub(crate) const KEPT_PERCENT: u64 = 98;
/// A flow with outstanding requests for this share of a window had unlimited demand.
const BUSY_PERCENT: u64 = 95;
/// Consecutive windows until a change is reported: 10 s, so a single outlier is not reported.
const WINDOWS: u32 = 2;
/// Requests that wait for less than this part of their time below cannot be served faster.
const PROMPT_PART: u64 = 8;

/// What a violated minimum lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its requests wait: the minimums do not fit the capacity beside the floor.
    Capacity,
    /// Its requests hardly wait: the clients have too few of them outstanding for the time that one takes.
    Outstanding,
}

/// Health of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Health {
    /// It receives its minimum, or has less demand.
    #[default]
    Ok,
    /// It receives less than its minimum despite demand. Units per second.
    BelowMinimum {
        minimum_iops: u64,
        /// Its service in the last window.
        served_iops: u64,
        /// What more of would give it its minimum.
        lacks: Lack,
    },
}

/// A flow that asked for its minimum for a whole window; bytes per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) minimum: u64,
    pub(crate) served: u64,
}

/// What was seen of a flow in a window; bytes per second.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Whether it had outstanding requests all the time.
    is_busy: bool,
    /// Whether it asked for its minimum: all the time, or for as much.
    asks: bool,
    minimum: u64,
    pub(crate) served: u64,
    /// Whether its requests hardly waited.
    is_prompt: bool,
    /// Sum of the times of its requests below.
    pub(crate) below_ns: u64,
}

impl Seen {
    pub(crate) fn lacks_outstanding(&self) -> bool {
        self.is_busy && self.is_prompt
    }

    /// None: it has no minimum, or did not ask for it.
    pub(crate) fn asked(&self) -> Option<Asked> {
        let Seen { minimum, served, .. } = *self;
        (self.asks && minimum > 0).then_some(Asked { minimum, served })
    }
}

/// A flow in the current window.
#[derive(Clone, Copy, Default)]
pub(crate) struct FlowWindow {
    pub(crate) begun_bytes: u64,
    pub(crate) served_bytes: u64,
    /// Times of its requests in the scheduler and below.
    pub(crate) waited_ns: u64,
    pub(crate) below_ns: u64,
    busy_ns: u64,
    busy_since: Option<u64>,
    /// Since the flow began.
    busy_total_ns: u64,
    pub(crate) served_total_bytes: u64,
    /// Its minimum times the time for which that was in force, in this window.
    promised: u128,
    promised_until: u64,
    /// What was seen of it at the end of the last window.
    seen: Seen,
    /// Consecutive windows that disagree with `health`.
    against: u32,
    pub(crate) health: Health,
    pub(crate) demand: Option<u64>,
}

impl FlowWindow {
    pub(crate) fn new(now: u64) -> FlowWindow {
        FlowWindow { promised_until: now, ..FlowWindow::default() }
    }

    /// Records work that was served.
    pub(crate) fn served(&mut self, bytes: u64) {
        self.served_bytes += bytes;
        self.served_total_bytes = self.served_total_bytes.saturating_add(bytes);
    }

    /// Until now, this minimum was in force.
    pub(crate) fn promise(&mut self, now: u64, minimum: u64) {
        self.promised += u128::from(minimum) * u128::from(now.saturating_sub(self.promised_until));
        self.promised_until = now;
    }

    /// How long it had outstanding requests, since it began.
    pub(crate) fn busy_total_ns(&self, now: u64) -> u64 {
        self.busy_total_ns + self.busy_since.map_or(0, |since| now.saturating_sub(since))
    }

    fn busy_for(&mut self, ns: u64) {
        self.busy_ns += ns;
        self.busy_total_ns += ns;
    }

    /// Sets the number of outstanding requests.
    pub(crate) fn changed(&mut self, now: u64, outstanding: u32) {
        match (self.busy_since, outstanding) {
            (None, 1..) => self.busy_since = Some(now),
            (Some(since), 0) => {
                self.busy_for(now.saturating_sub(since));
                self.busy_since = None;
            }
            _ => {}
        }
    }

    /// Ends the window of a flow with this minimum, or with this part of one.
    pub(crate) fn close(
        &mut self,
        (now, passed_ns): (u64, u64),
        minimum: u64,
        part: Option<&Part>,
        unit_bytes: u64,
    ) -> Seen {
        self.promise(now, minimum);
        let promised = std::mem::take(&mut self.promised);
        let minimum = match part {
            Some(_) => u64::try_from(promised / u128::from(passed_ns.max(1))).unwrap_or(u64::MAX),
            None => minimum,
        };
        if let Some(since) = self.busy_since.replace(now) {
            self.busy_for(now.saturating_sub(since));
        } else {
            self.busy_since = None;
        }
        let per_s = |bytes: u64| (u128::from(bytes) * u128::from(SECOND_NS) / u128::from(passed_ns)) as u64;
        let (begun, served) = (per_s(self.begun_bytes), per_s(self.served_bytes));
        let always_busy = self.busy_ns >= passed_ns / 100 * BUSY_PERCENT;
        self.demand = (!always_busy).then_some(served / unit_bytes);
        self.seen = Seen {
            is_busy: always_busy,
            asks: always_busy || begun >= minimum,
            minimum,
            served,
            is_prompt: self.waited_ns.saturating_mul(PROMPT_PART) < self.below_ns,
            below_ns: self.below_ns,
        };
        (self.begun_bytes, self.served_bytes, self.busy_ns) = (0, 0, 0);
        (self.waited_ns, self.below_ns) = (0, 0);
        self.seen
    }

    /// What was seen of it when the last window ended.
    pub(crate) fn seen(&self) -> Seen {
        self.seen
    }

    /// Judges the window that has ended; returns a change of health.
    pub(crate) fn judge(
        &mut self,
        part: Option<&Part>,
        overcommitted: bool,
        unit_bytes: u64,
    ) -> Option<Health> {
        let Seen { asks, minimum, served, is_prompt, .. } = self.seen;
        let lacks = if is_prompt && !overcommitted { Lack::Outstanding } else { Lack::Capacity };
        let may_lack = part.is_none_or(|part| !part.is_met);
        let found = match may_lack && asks && served < minimum / 100 * KEPT_PERCENT {
            false => Health::Ok,
            true => Health::BelowMinimum {
                minimum_iops: minimum / unit_bytes,
                served_iops: served / unit_bytes,
                lacks,
            },
        };
        if (found == Health::Ok) == (self.health == Health::Ok) {
            (self.against, self.health) = (0, found);
            return None;
        }
        self.against += 1;
        if self.against < WINDOWS {
            return None;
        }
        (self.against, self.health) = (0, found);
        Some(found)
    }
}
