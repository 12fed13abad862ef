//! Which pages change between two classes of groups: pure decisions from counted accesses.
//!
//! ```text
//!   upper class:  free pages, coldest pages ──┐
//!                                             ├── plan ──> demote these, then promote those, because
//!   lower class:  free pages, hottest pages ──┘
//! ```
//!
//! A page's heat is the number of its accesses, of which each interval counts half of the one after it. It is counted in
//! sixteenths, so that it fades over four intervals more than a whole access would.
//!
//! What moves must be worth the copying and must not be an accident. Two pages that are used alike differ all the same, because
//! accesses come at random: a count of n scatters by about its square root. So a page changes places with another one only when it
//! is hotter by half, and by some accesses, and by several times that scatter. Therefore a uniform load moves nothing, and with a load that
//! stays as it is moves come to an end: each one makes the upper class hotter, and none can be undone without a change of the load.

/// How fast the drives of a group are, in the operator's words; the fastest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// For what is used most.
    Fast,
    /// The usual one.
    #[default]
    Capacity,
    /// For what is hardly used.
    Archive,
}

impl Class {
    /// All, the fastest first.
    pub const ALL: [Class; 3] = [Class::Fast, Class::Capacity, Class::Archive];
}

/// A single access, in the unit of heat.
pub(crate) const ACCESS: u32 = 16;
/// An access counts once for each so many bytes of it: a 4 KiB read costs a drive about what one of 64 KiB does.
pub(crate) const ACCESS_BYTES: u64 = 64 << 10;
/// New pages are taken from the fastest class of which no more than this is used: the rest is kept for pages that are known to be hot.
pub(crate) const NEW_PERCENT_MAX: u64 = 90;
/// Promotions stop here; above it the coldest pages leave. A page that leaves is free only after a commit: the rest keeps both ways open.
pub(crate) const USED_PERCENT_MAX: u64 = 95;
/// Pages that are promoted, and as many demoted, in one interval: with pages of 1 MiB and five minutes 14 MiB/s each way.
pub(crate) const MOVES_MAX: usize = 4096;
/// The hotter page must have half as many accesses again as the one whose place it takes …
const GAIN: (u64, u64) = (3, 2);
/// … and this many accesses more: below that no drive notices …
pub(crate) const FLOOR: u64 = 4 * ACCESS as u64;
/// … and this many times the scatter of their difference. The hottest and the coldest of ten million pages that are used alike lie ten
/// deviations of one page apart, seven of the difference of two, and a little more upwards than downwards; half as much again and the floor
/// cover what is missing to that.
const SCATTERS: u64 = 6;

/// A page and its heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Warm {
    pub(crate) heat: u32,
    pub(crate) page: u32,
}

/// What the planner knows of a class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tier {
    pub(crate) pages: u32,
    pub(crate) used: u32,
    /// The coldest pages, the coldest first, at most [`MOVES_MAX`].
    pub(crate) coldest: Vec<Warm>,
    /// The hottest pages, the hottest first, at most [`MOVES_MAX`].
    pub(crate) hottest: Vec<Warm>,
}

/// Why pages move, or do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The upper class has room for hot pages of the lower one.
    Room,
    /// Pages of the lower class are hotter, by more than the margin, than pages of the upper one: they change places.
    Exchange,
    /// The upper class is fuller than it is to be: its coldest pages leave.
    TooFull,
    /// Nothing in the lower class is hotter by the margin than the coldest of the upper one.
    Settled,
    /// Something is hotter, but the lower class has no room for what would leave the upper one.
    NoRoomBelow,
}

/// What is to move between two classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// From the upper class to the lower one; first.
    pub(crate) demote: Vec<u32>,
    /// From the lower class to the upper one.
    pub(crate) promote: Vec<u32>,
    /// What a page of the lower class must have to come up, as things are.
    pub(crate) threshold: u64,
    pub(crate) reason: Reason,
}

impl Tier {
    fn room_to(&self, percent: u64) -> u64 {
        (u64::from(self.pages) * percent / 100).saturating_sub(self.used.into())
    }
}

/// What a page of the next class must have to come to this one.
pub(crate) fn entrance(tier: &Tier) -> u64 {
    match tier.coldest.first() {
        Some(coldest) if tier.room_to(USED_PERCENT_MAX) == 0 => threshold(coldest.heat),
        _ => FLOOR,
    }
}

/// What a page must have to take the place of one with this heat.
///
/// Of a load with n accesses per interval the heat is 2 n on average with a variance of 4/3 n, two thirds of the heat; the difference of two
/// such pages has twice that. What is to be excluded is that both are used alike, with the mean m of what they show. With b for what gain and floor ask
/// for, the smallest surplus s above b is that of s^2 = SCATTERS^2 * 4/3 * m, where 2 m = b + s + coldest.
pub(crate) fn threshold(coldest: u32) -> u64 {
    let coldest = u64::from(coldest);
    let base = coldest * GAIN.0 / GAIN.1 + FLOOR;
    let k = SCATTERS * SCATTERS * 2 * u64::from(ACCESS) / 3;
    base + (k + (k * k + 4 * k * (base + coldest)).isqrt()).div_ceil(2)
}

/// Decides what moves between a class and the next slower one.
pub(crate) fn plan(upper: &Tier, lower: &Tier) -> Plan {
    let mut plan = Plan { demote: vec![], promote: vec![], threshold: FLOOR, reason: Reason::Settled };
    let mut cold = upper.coldest.iter().peekable();
    // Pages that may leave: the lower class is filled to the last one, as it must take what the upper one cannot.
    let mut room_below = u64::from(lower.pages.saturating_sub(lower.used)).min(MOVES_MAX as u64);
    let limit = u64::from(upper.pages) * USED_PERCENT_MAX / 100;
    let excess = u64::from(upper.used).saturating_sub(limit).min(room_below) as usize;
    plan.demote.extend(cold.by_ref().take(excess).map(|c| c.page));
    room_below -= plan.demote.len() as u64;
    if !plan.demote.is_empty() {
        plan.reason = Reason::TooFull;
    }
    let mut room_above = upper.room_to(USED_PERCENT_MAX);
    for hot in &lower.hottest {
        if room_above > 0 {
            if u64::from(hot.heat) < FLOOR {
                break;
            }
            room_above -= 1;
            plan.reason = Reason::Room;
            plan.promote.push(hot.page);
            continue;
        }
        let Some(coldest) = cold.peek() else { break };
        plan.threshold = threshold(coldest.heat);
        if u64::from(hot.heat) < plan.threshold {
            break;
        }
        // What is promoted leaves a place in the lower class, but only after what is demoted came there.
        if room_below == 0 {
            plan.reason = Reason::NoRoomBelow;
            break;
        }
        room_below -= 1;
        plan.demote.extend(cold.next().map(|c| c.page));
        plan.promote.push(hot.page);
        plan.reason = Reason::Exchange;
    }
    plan
}

#[cfg(test)]
mod tests;
