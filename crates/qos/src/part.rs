//! A policy whose volumes are in several schedulers: each has a part of its minimum and maximum.

use crate::health::WINDOW_NS;
use crate::policy::Policy;
use crate::tag::SECOND_NS;

/// The terms of a policy, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Terms {
    pub minimum: u64,
    pub maximum: Option<u64>,
    pub bandwidth: Option<u64>,
}

/// Part of a maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The pace of starts.
    pub bytes_per_s: u64,
    /// What ended in the last five seconds and what is below may add up to, when another request starts.
    pub window_bytes: u64,
}

/// A scheduler's part of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// What flows of the scheduler are to get of the policy's minimum.
    pub minimum_bytes_per_s: u64,
    /// Of the maximum; none: the policy has none.
    pub maximum: Option<Slice>,
    /// Of the bandwidth, likewise.
    pub bandwidth: Option<Slice>,
    /// Whether the policy gets its minimum in sum, or asks for less: then no part of it is violated.
    pub is_met: bool,
}

/// What a scheduler says of its part of a policy, since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartUse {
    /// The part in force; none: all of the policy.
    pub part: Option<Part>,
    /// Work that was served.
    pub served_bytes_per_s: u64,
    /// Clients that asked.
    pub asking: u32,
    /// Whether it had outstanding requests nearly all the time.
    pub is_hungry: bool,
    /// Whether its part of a maximum made a request wait.
    pub is_held: bool,
    /// What counts in [`Slice::window_bytes`] of the maximum now.
    pub counted_bytes: u64,
    /// The same of the bandwidth.
    pub counted_bandwidth_bytes: u64,
}

/// What a scheduler says of itself, since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What it served while a request waited all the time, without the floor; none: it could do more.
    pub capacity_bytes_per_s: Option<u64>,
    /// Minimums of flows without parts that ask.
    pub claimed_bytes_per_s: u64,
}

impl Slice {
    /// A whole maximum.
    pub fn whole(bytes_per_s: u64) -> Slice {
        Slice { bytes_per_s, window_bytes: in_window(bytes_per_s) }
    }
}

/// What a rate is in a window.
pub(crate) fn in_window(bytes_per_s: u64) -> u64 {
    bytes_per_s.saturating_mul(WINDOW_NS / SECOND_NS)
}

/// `value` by the same factor as `was` to `is`.
fn scaled(value: u64, was: u64, is: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(is) / u128::from(was.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Terms {
    /// Those of a policy.
    pub fn of(policy: &Policy, unit_bytes: u64) -> Terms {
        let bytes = |units: u64| units.saturating_mul(unit_bytes);
        Terms {
            minimum: bytes(policy.minimum_iops),
            maximum: policy.maximum_iops.map(bytes),
            bandwidth: policy.bandwidth_bytes_per_s,
        }
    }

    /// All of it.
    pub fn whole(&self) -> Part {
        Part {
            minimum_bytes_per_s: self.minimum,
            maximum: self.maximum.map(Slice::whole),
            bandwidth: self.bandwidth.map(Slice::whole),
            is_met: true,
        }
    }

    /// The part of one of so many schedulers that all begin at once.
    pub fn even(&self, places: u64) -> Part {
        let places = places.max(1);
        let slice = |whole: u64| Slice::whole(whole / places);
        Part {
            minimum_bytes_per_s: self.minimum / places,
            maximum: self.maximum.map(slice),
            bandwidth: self.bandwidth.map(slice),
            is_met: true,
        }
    }

    /// The part of one that comes to others: of maximums nothing yet but a request.
    pub fn newcomer(&self, places: u64) -> Part {
        let none = |whole: u64| Slice { bytes_per_s: whole / places.max(1), window_bytes: 0 };
        Part { maximum: self.maximum.map(none), bandwidth: self.bandwidth.map(none), ..self.even(places) }
    }

    /// A part of these terms, when they become others: their sum stays what it was of the whole.
    pub fn become_of(&self, is: &Terms, part: &Part, places: u64) -> Part {
        let even = is.even(places);
        let slice = |was: Option<u64>, is: Option<u64>, part: Option<Slice>, even: Option<Slice>| {
            let (Some(was), Some(is), Some(part)) = (was, is, part) else { return even };
            Some(Slice {
                bytes_per_s: scaled(part.bytes_per_s, was, is),
                window_bytes: scaled(part.window_bytes, was, is),
            })
        };
        Part {
            minimum_bytes_per_s: match self.minimum {
                0 => even.minimum_bytes_per_s,
                was => scaled(part.minimum_bytes_per_s, was, is.minimum),
            },
            maximum: slice(self.maximum, is.maximum, part.maximum, even.maximum),
            bandwidth: slice(self.bandwidth, is.bandwidth, part.bandwidth, even.bandwidth),
            is_met: part.is_met,
        }
    }
}
