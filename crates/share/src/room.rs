//! Whether the array is busy with what it is granted, or has room that no request reaches. Pure.

use crate::curve::{Curve, Point};

/// Weight of an interval in how the array is now.
const WEIGHT: f64 = 0.25;
/// Intervals after a change of claims that are of the old ones, too.
const BLIND: u32 = 2;
/// The first one: a cache fills.
const FILLS: u32 = 1;
/// It has room if so much of the best is missing: of that with minimums in force, for which the others may be
/// held back.
const MISSING: f64 = 0.01;
const MISSING_PROMISED: f64 = 0.05;
/// If it does so much less with as many in flight as before, it is slower than before.
const SLOWER: f64 = 0.07;
/// If it does so much less in so many intervals in a row, it is with any number in flight.
const MUCH_SLOWER: f64 = 0.15;
const SLOW: u32 = 3;
/// So much more than the best is granted until requests reach it.
const BEYOND: f64 = 0.1;
/// Intervals for which nothing more is granted after a minimum lacked.
const HOLD: u32 = 20;

/// What is known of the array.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    curve: Curve,
    now: Option<Point>,
    blind: u32,
    hold: u32,
    /// Intervals in a row in which it did much less than before.
    slow: u32,
    has_minimums: bool,
}

impl Room {
    /// Goes on with what another leader had found.
    pub(crate) fn resumed(points: &[(u64, u64)]) -> Room {
        Room { curve: Curve::resumed(points), now: None, blind: FILLS, hold: 0, slow: 0, has_minimums: false }
    }

    /// What was found.
    pub(crate) fn points(&self) -> Vec<(u64, u64)> {
        self.curve.points()
    }

    /// Claims have changed: the next intervals say nothing of the new ones.
    pub(crate) fn changed(&mut self) {
        (self.now, self.blind, self.hold, self.slow) = (None, BLIND, 0, 0);
    }

    /// Takes an interval into account. `is_pressed`: disks would have taken more; `lacks`: one may have less
    /// than its minimum because it waits for the array.
    pub(crate) fn observe(&mut self, seen: Point, is_pressed: bool, (has_minimums, lacks): (bool, bool)) {
        self.has_minimums = has_minimums;
        self.hold = if lacks { HOLD } else { self.hold.saturating_sub(1) };
        if seen.rate < 1.0 {
            return;
        }
        if self.blind > 0 {
            self.blind -= 1;
            return;
        }
        let now = self.now.get_or_insert(seen);
        now.in_flight += WEIGHT * (seen.in_flight - now.in_flight);
        now.rate += WEIGHT * (seen.rate - now.rate);
        let part = self.curve.at(seen.in_flight).map(|known| seen.rate / known);
        let part = part.filter(|part| is_pressed && *part < 1.0 - MUCH_SLOWER);
        self.slow = if part.is_some() { self.slow + 1 } else { 0 };
        match part {
            None => self.curve.observe(seen, is_pressed),
            // It is so with any number in flight: what it did before is no sign of room.
            Some(part) if self.slow >= SLOW => self.curve.scale(part),
            Some(_) => {}
        }
    }

    /// What is to be granted together until the array is busy, if it is not; bytes per second. At most
    /// `depth` requests are to be in flight.
    pub(crate) fn wanted(&self, depth: f64) -> Option<f64> {
        let (now, best) = (self.now?, self.curve.at(depth)?);
        if now.in_flight > depth && now.rate > best {
            return Some(best);
        }
        (self.hold == 0 && self.is_left(depth)).then_some(best * (1.0 + BEYOND))
    }

    /// Whether the others are to keep to their rates, for minimums.
    pub(crate) fn has_minimums(&self) -> bool {
        self.hold > 0 || self.has_minimums
    }

    /// Whether it would do more with more requests in flight.
    pub(crate) fn is_left(&self, depth: f64) -> bool {
        let known = || Some((self.now?, self.curve.knee(depth)?, self.curve.at(depth)?));
        known().is_some_and(|(now, knee, best)| {
            let at_now = self.curve.at(now.in_flight);
            let is_slower = at_now.is_some_and(|known| now.rate < known * (1.0 - SLOWER));
            let missing = if self.has_minimums { MISSING_PROMISED } else { MISSING };
            now.in_flight < knee.in_flight && now.rate < best * (1.0 - missing) && !is_slower
        })
    }

    /// How long requests take, as a part of what they take where the array is just busy; none: it is with any
    /// number.
    pub(crate) fn slowness(&self, depth: f64) -> Option<f64> {
        let (now, knee) = (self.now?, self.curve.knee(depth)?);
        let slowness = now.in_flight / now.rate / (knee.in_flight / knee.rate);
        (slowness.is_finite() && slowness > 0.0).then_some(slowness)
    }
}
