//! What the array does with more and fewer requests in flight, learnt while the nodes work. Pure.
//!
//! Less is served than was granted for one of two reasons. The array is busy: it would do no more with more
//! requests. Or too few requests reach it, because they wait for their rates, or because disks have no more:
//! then it is not the array that lacks, and what the others are granted must not fall. The curve tells them
//! apart: what was served is compared with what the array did with more requests, and not with what was
//! granted.

/// From one point to the next there are so many times as many requests.
const STEP: f64 = 1.15;
/// Weight of an interval in its point: that of an average until there are so many intervals in it.
const WEIGHT: f64 = 0.1;
/// If the array does more or less at one point, it does so at the others: by this part of it.
const ALIKE: f64 = 0.02;
/// An interval says no more of that than so many times as much or as little.
const OFF: f64 = 2.0;
/// With so many requests in flight it does all that it can which lack no more than this part of the best.
const LACKS: f64 = 0.01;
/// What an array does varies from one interval to the next. It is only known to do less with fewer if so many
/// of them saw it, and saw less than so much of that; or less by so much, and by so much of what was fewer.
const SURE: f64 = 3.0;
const FAR: f64 = 0.95;
const SURE_NEAR: f64 = 8.0;
const NEAR: f64 = 0.04;
const STEEP: f64 = 0.25;
/// Fewer requests on average are no queue.
const LEAST: f64 = 0.05;
/// Points that are kept; those with most requests.
const POINTS: usize = 64;

/// With so many requests in flight on average, so many bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) in_flight: f64,
    pub(crate) rate: f64,
}

#[derive(Clone, Copy, Debug)]
struct Mean {
    point: Point,
    intervals: f64,
}

/// The points that were seen, by the number in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    means: Vec<Mean>,
}

impl Point {
    /// How long a request is at the array, per byte per second of all.
    fn time(&self) -> f64 {
        self.in_flight / self.rate
    }

    /// Between this one and another one the time of a request is a straight line: where so much is served.
    fn reaches(&self, other: &Point, rate: f64) -> f64 {
        let slope = (other.time() - self.time()) / (other.in_flight - self.in_flight);
        let found = rate * (self.time() - slope * self.in_flight) / (1.0 - rate * slope);
        if found.is_finite() { found.clamp(self.in_flight, other.in_flight) } else { other.in_flight }
    }

    /// The same: what is served with so many in flight.
    fn between(&self, other: &Point, in_flight: f64) -> f64 {
        let slope = (other.time() - self.time()) / (other.in_flight - self.in_flight);
        in_flight / (self.time() + slope * (in_flight - self.in_flight))
    }
}

impl Curve {
    /// Goes on with the points of another leader: thousandths of a request, and bytes per second.
    pub(crate) fn resumed(points: &[(u64, u64)]) -> Curve {
        let mut curve = Curve::default();
        for (milli, rate) in points.iter().take(POINTS) {
            let point = Point { in_flight: *milli as f64 / 1000.0, rate: *rate as f64 };
            curve.means.push(Mean { point, intervals: SURE });
        }
        curve.means.retain(|mean| is_point(&mean.point));
        curve.means.sort_by(|a, b| a.point.in_flight.total_cmp(&b.point.in_flight));
        curve.means.dedup_by_key(|mean| step(&mean.point));
        curve
    }

    /// The points that were seen.
    pub(crate) fn points(&self) -> Vec<(u64, u64)> {
        let milli = |mean: &Mean| ((mean.point.in_flight * 1000.0) as u64, mean.point.rate as u64);
        self.means.iter().map(milli).collect()
    }

    /// Takes an interval into account. `is_pressed`: disks would have taken more; if not, the array may be
    /// able to do more with as many, and no less.
    pub(crate) fn observe(&mut self, seen: Point, is_pressed: bool) {
        if !is_point(&seen) {
            return;
        }
        let place = step(&seen);
        if is_pressed && let Some(known) = self.at(seen.in_flight) {
            let off = (seen.rate / known).clamp(1.0 / OFF, OFF) - 1.0;
            self.means.iter_mut().for_each(|mean| mean.point.rate *= 1.0 + ALIKE * off);
        }
        // It does as much with more.
        let known = self.at(seen.in_flight).or(self.means.first().map(|mean| mean.point.rate));
        let is_more = known.is_some_and(|known| seen.rate > known);
        match self.means.iter_mut().find(|mean| step(&mean.point) == place) {
            Some(mean) if is_pressed || seen.rate >= mean.point.rate => {
                mean.intervals += 1.0;
                let weight = (1.0 / mean.intervals).max(WEIGHT);
                mean.point.rate += weight * (seen.rate - mean.point.rate);
                mean.point.in_flight += weight * (seen.in_flight - mean.point.in_flight);
            }
            None if is_pressed || is_more => {
                self.means.push(Mean { point: seen, intervals: 1.0 });
                self.means.sort_by(|a, b| a.point.in_flight.total_cmp(&b.point.in_flight));
                let beyond = self.means.len().saturating_sub(POINTS);
                self.means.drain(..beyond);
            }
            _ => {}
        }
    }

    /// It does so many times as much with any number in flight.
    pub(crate) fn scale(&mut self, times: f64) {
        self.means.iter_mut().for_each(|mean| mean.point.rate *= times);
    }

    /// What is served with so many in flight: with no more than these it is never more. None: fewer than ever
    /// before.
    pub(crate) fn at(&self, in_flight: f64) -> Option<f64> {
        rate_at(&self.rising(), in_flight)
    }

    /// The points as a curve that does not fall: where one does, its points are chance, and their mean counts
    /// (pool adjacent violators).
    fn rising(&self) -> Vec<Point> {
        // Rate, weight, and how many points.
        let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
        for mean in &self.means {
            let mut block = (mean.point.rate, mean.intervals.min(1.0 / WEIGHT), 1);
            while let Some(last) = blocks.pop_if(|last| last.0 >= block.0) {
                let weight = last.1 + block.1;
                block = ((last.0 * last.1 + block.0 * block.1) / weight, weight, last.2 + block.2);
            }
            blocks.push(block);
        }
        let rates = blocks.into_iter().flat_map(|(rate, _, points)| std::iter::repeat_n(rate, points));
        let points = self.means.iter().zip(rates);
        points.map(|(mean, rate)| Point { rate, ..mean.point }).collect()
    }

    /// Where it does nearly all of that: with fewer in flight it is known to do less. None: with any number.
    pub(crate) fn knee(&self, depth: f64) -> Option<Point> {
        let points = self.rising();
        let rate = rate_at(&points, depth)? * (1.0 - LACKS);
        let first = points.iter().position(|point| point.rate >= rate)?;
        let is_less = |(mean, point): (&Mean, &Point)| {
            let less = (points[first].rate / point.rate).ln();
            let fewer = (points[first].in_flight / point.in_flight).ln();
            let is_steep = less > NEAR && less > STEEP * fewer;
            let is_far = mean.intervals >= SURE && point.rate < rate * FAR;
            is_far || (mean.intervals >= SURE_NEAR && is_steep)
        };
        if !self.means.iter().zip(&points).take(first).any(is_less) {
            return None;
        }
        let [low, high] = [first.checked_sub(1)?, first].map(|place| points[place]);
        Some(Point { in_flight: low.reaches(&high, rate), rate })
    }
}

/// Whether it says anything.
fn is_point(point: &Point) -> bool {
    let is_finite = point.in_flight.is_finite() && point.rate.is_finite();
    is_finite && point.in_flight >= LEAST && point.rate >= 1.0
}

/// Which of the points it belongs to.
fn step(point: &Point) -> i64 {
    (point.in_flight.ln() / STEP.ln()).floor() as i64
}

/// What points in order tell of so many in flight; none: fewer than at any of them.
fn rate_at(points: &[Point], in_flight: f64) -> Option<f64> {
    let above = points.partition_point(|point| point.in_flight <= in_flight);
    let low = points.get(above.checked_sub(1)?)?;
    Some(points.get(above).map_or(low.rate, |high| low.between(high, in_flight)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drives on which a request takes so long alone, and longer by the others: a hundred at most.
    fn drives(in_flight: f64) -> Point {
        Point { in_flight, rate: in_flight / (0.1 + in_flight * 0.01) }
    }

    fn learnt(points: impl IntoIterator<Item = Point>) -> Curve {
        let mut curve = Curve::default();
        points.into_iter().for_each(|point| (0..6).for_each(|_| curve.observe(point, true)));
        curve
    }

    #[test]
    fn what_was_not_seen_lies_between_what_was() {
        let curve = learnt([5.0, 40.0, 190.0].map(drives));
        let at = |in_flight: f64| curve.at(in_flight).expect("between") / drives(in_flight).rate;
        assert!([6.0, 20.0, 64.0, 150.0].iter().all(|n| (at(*n) - 1.0).abs() < 0.03), "{curve:?}");
        assert_eq!(curve.at(4.0), None);
        let knee = curve.knee(64.0).expect("it does less with 5");
        assert!((55.0..64.0).contains(&knee.in_flight) && knee.rate < drives(64.0).rate * 0.995, "{knee:?}");
    }

    /// A cache in front of the drives: it does the same with any number, but for chance.
    #[test]
    fn an_array_that_does_the_same_with_few_has_no_knee() {
        let points =
            (1..10).map(|n| Point { in_flight: f64::from(n), rate: 100.0 + f64::from(n * 7 % 5) - 2.0 });
        assert_eq!(learnt(points).knee(f64::INFINITY), None);
        assert_eq!(learnt([drives(30.0)]).knee(f64::INFINITY), None, "with fewer nothing is known");
    }

    /// It was taken for one that needs eight, because the first intervals with two were bad ones.
    #[test]
    fn what_is_served_with_few_in_flight_is_served_with_more() {
        let at = |in_flight: f64, rate: f64| Point { in_flight, rate };
        let mut curve = learnt([at(2.1, 118.0), at(3.3, 119.0), at(7.7, 128.0), at(10.0, 128.0)]);
        assert!(curve.knee(64.0).is_some());
        (0..10).for_each(|_| curve.observe(at(0.4, 128.0), false));
        assert_eq!(curve.knee(64.0), None, "{curve:?}");
        curve.observe(at(0.1, 20.0), false);
        assert_eq!(curve.knee(64.0), None, "less was asked for");
    }

    #[test]
    fn an_array_that_becomes_slower_does_less_with_any_number() {
        let mut curve = learnt([5.0, 40.0].map(drives));
        (0..200).for_each(|_| curve.observe(Point { rate: drives(40.0).rate / 2.0, ..drives(40.0) }, true));
        let part = curve.at(5.0).expect("known") / drives(5.0).rate;
        assert!((0.4..0.95).contains(&part), "{curve:?}");
        // Less was asked for: that says nothing.
        let before = curve.clone();
        curve.observe(Point { in_flight: 5.0, rate: 1.0 }, false);
        assert_eq!(curve.points(), before.points());
    }

    #[test]
    fn any_points_are_kept_in_order_and_no_panic() {
        let odd = [0, 1, 999, 1000, u64::MAX];
        let all: Vec<(u64, u64)> = odd.iter().flat_map(|a| odd.map(|b| (*a, b))).collect();
        let curve = Curve::resumed(&all);
        assert_eq!(Curve::resumed(&curve.points()).points(), curve.points());
        for depth in [0.0, 1.0, 64.0, f64::INFINITY, f64::NAN] {
            let _ = (curve.knee(depth), curve.at(depth));
        }
        let many: Vec<(u64, u64)> = (1..1000).map(|n| (n * n * 1000, n * 1000)).collect();
        assert!(Curve::resumed(&many).points().len() <= POINTS);
    }
}
