//! Decides which pages change between two classes of groups, from counted accesses; no I/O.
//!
//! ```text
//!   upper class:  free pages, coldest pages ──┐
//!                                             ├── plan ──> demote these, then promote those, because
//!   lower class:  free pages, hottest pages ──┘
//! ```
//!
//! A page's heat is the number of its accesses, halved once per interval. It is counted in sixteenths, so
//! that a whole access fades over four intervals.
//!
//! A move must be worth the copy and must not be an accident. Two equally used pages still differ, because
//! accesses come at random: a count of n scatters by about its square root. So a page replaces another one
//! only when it is hotter by half, and by some accesses, and by several times that scatter. Therefore a
//! uniform load moves nothing, and under a constant load moves come to an end: each one makes the upper class
//! hotter, and none can be undone without a change of the load.

/// The relative speed of a group's drives, declared by the operator; the fastest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// For the hottest pages.
    Fast,
    /// The default.
    #[default]
    Capacity,
    /// For the coldest pages.
    Archive,
}

impl Class {
    /// All, the fastest first.
    pub const ALL: [Class; 3] = [Class::Fast, Class::Capacity, Class::Archive];
}

/// One access, in the unit of heat.
pub(crate) const ACCESS: u32 = 16;
/// An access counts once for each of this many bytes: a 4 KiB read costs a drive about as much as one of 64
/// KiB.
pub(crate) const ACCESS_BYTES: u64 = 64 << 10;
/// New pages are allocated from the fastest class that is used no more than this; the rest is reserved for
/// pages known to be hot.
pub(crate) const NEW_PERCENT_MAX: u64 = 90;
/// Promotions stop here; above it the coldest pages are demoted. A demoted page is free only after a commit:
/// the rest keeps both directions open.
pub(crate) const USED_PERCENT_MAX: u64 = 95;
/// Pages promoted, and as many demoted, in one interval: with pages of 1 MiB and five minutes, 14 MiB/s each
/// way.
pub(crate) const MOVES_MAX: usize = 4096;
/// The hotter page must have half as many accesses again as the page that it replaces …
const GAIN: (u64, u64) = (3, 2);
/// … and this many accesses more: below that no drive notices …
pub(crate) const FLOOR: u64 = 4 * ACCESS as u64;
/// … and this many times the scatter of their difference. The hottest and the coldest of ten million equally
/// used pages are ten standard deviations of one page apart, seven of the difference of two, and a little
/// more upwards than downwards; half as much again and the floor cover the rest.
const SCATTERS: u64 = 6;

/// A page and its heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Warm {
    pub(crate) heat: u32,
    pub(crate) page: u32,
}

/// The planner's input for a class.
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
    /// Pages of the lower class are hotter than pages of the upper one by more than the margin: they are
    /// exchanged.
    Exchange,
    /// The upper class is too full: its coldest pages are demoted.
    TooFull,
    /// Nothing in the lower class is hotter than the coldest page of the upper one by the margin.
    Settled,
    /// Pages are hotter, but the lower class has no room for the pages to demote.
    NoRoomBelow,
}

/// The moves between two classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// To demote; done first.
    pub(crate) demote: Vec<u32>,
    /// To promote.
    pub(crate) promote: Vec<u32>,
    /// The heat that a page of the lower class needs for promotion.
    pub(crate) threshold: u64,
    pub(crate) reason: Reason,
}

impl Tier {
    fn room_to(&self, percent: u64) -> u64 {
        (u64::from(self.pages) * percent / 100).saturating_sub(self.used.into())
    }
}

/// The heat that a page of the next class needs to come to this one.
pub(crate) fn entrance(tier: &Tier) -> u64 {
    match tier.coldest.first() {
        Some(coldest) if tier.room_to(USED_PERCENT_MAX) == 0 => threshold(coldest.heat),
        _ => FLOOR,
    }
}

/// The heat that a page needs to replace one with this heat.
///
/// Under a load with n accesses per interval, heat is 2 n on average with a variance of 4/3 n, two thirds of
/// the heat; the difference of two such pages has twice that. The margin must exclude that both are equally
/// used, with the mean m of both. With b for gain and floor, the smallest surplus s above b follows from s^2
/// = SCATTERS^2 * 4/3 * m, where 2 m = b + s + coldest.
pub(crate) fn threshold(coldest: u32) -> u64 {
    let coldest = u64::from(coldest);
    let base = coldest * GAIN.0 / GAIN.1 + FLOOR;
    let k = SCATTERS * SCATTERS * 2 * u64::from(ACCESS) / 3;
    base + (k + (k * k + 4 * k * (base + coldest)).isqrt()).div_ceil(2)
}

/// Decides the moves between a class and the next slower one.
pub(crate) fn plan(upper: &Tier, lower: &Tier) -> Plan {
    let mut plan = Plan { demote: vec![], promote: vec![], threshold: FLOOR, reason: Reason::Settled };
    let mut cold = upper.coldest.iter().peekable();
    // Pages to demote: the lower class may be filled completely, because it must take what does not fit
    // above.
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
        // A promotion frees a page of the lower class, but only after the demotions have arrived.
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
