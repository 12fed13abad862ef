//! When a pool moves from a busy controller to an idle one. Pure: fed with measured loads, it says which.
//!
//! A controller is busy for the processor time of its thread. What of it a pool causes is estimated by the
//! pool's share of the operations there. The work of ports stays where the sessions are, so the estimate is
//! an upper bound: a pool moves only where even then the other controller stays below the limit, and the
//! busier of the two is less busy afterwards.

use std::collections::{BTreeMap, VecDeque};

/// The load is looked at over this time.
const WINDOW_S: u64 = 60;
/// And over this, the latest part: a load that has ended moves nothing.
const LATEST_S: u64 = 10;
/// A controller that is busier gives a pool away, in percent.
const BUSY_PERCENT: f64 = 70.0;
/// One that is less busy takes it.
const IDLE_PERCENT: f64 = 40.0;
/// The busier of the two must be less busy afterwards by so much.
const GAIN_PERCENT: f64 = 10.0;
/// A pool that has moved stays for so long, also one that an administrator or a host has moved.
const REST_S: u64 = 600;

/// What was measured at one moment; counters since the start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// By a clock that is never set.
    pub(crate) at_s: f64,
    /// Seconds of processor time of each controller.
    pub(crate) busy_s: Vec<f64>,
    /// Each open pool: its controller, and operations since it was opened there.
    pub(crate) pools: BTreeMap<String, (usize, u64)>,
}

/// A move that pays.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Move {
    pub(crate) pool: String,
    pub(crate) to: usize,
    /// Why, in one line.
    pub(crate) why: String,
}

/// The loads of the last minute, and when pools moved.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    samples: VecDeque<Sample>,
    moved_s: BTreeMap<String, f64>,
}

impl Balance {
    /// Takes a sample, and says what is to move.
    pub(crate) fn look(&mut self, sample: Sample) -> Option<Move> {
        self.note_moves(&sample);
        let now = sample.at_s;
        self.samples.push_back(sample);
        // The oldest one is the first that is at least as old as the window.
        while self.samples.get(1).is_some_and(|next| now - next.at_s >= WINDOW_S as f64) {
            self.samples.pop_front();
        }
        self.decide(now)
    }

    /// Pools that are at another controller than before rest, whoever has moved them; and what was measured
    /// before says nothing about the loads now. Neither does it where a controller has begun anew, at another
    /// node or after one was lost: it counts from zero.
    fn note_moves(&mut self, sample: &Sample) {
        let Some(last) = self.samples.back() else { return };
        let had = |name: &String| last.pools.get(name).map(|(controller, _)| *controller);
        let moved = sample.pools.iter().filter(|(name, (now, _))| had(name).is_some_and(|had| had != *now));
        let moved: Vec<(String, f64)> = moved.map(|(name, _)| (name.clone(), sample.at_s)).collect();
        let mut counters = last.busy_s.iter().zip(&sample.busy_s);
        if !moved.is_empty() || counters.any(|(before, now)| now < before) {
            self.samples.clear();
        }
        self.moved_s.extend(moved);
        self.moved_s.retain(|name, _| sample.pools.contains_key(name));
    }

    fn decide(&self, now: f64) -> Option<Move> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        if now - first.at_s < WINDOW_S as f64 {
            return None;
        }
        let latest = self.samples.iter().rev().find(|sample| now - sample.at_s >= LATEST_S as f64)?;
        let (minute, seconds) = (loads(first, last)?, loads(latest, last)?);
        let busy = |i: usize| minute[i].min(seconds[i]) > BUSY_PERCENT;
        let idle = |i: usize| minute[i].max(seconds[i]) < IDLE_PERCENT;
        let all = 0..minute.len();
        let by_load = |a: &usize, b: &usize| minute[*a].total_cmp(&minute[*b]);
        let from = all.clone().filter(|i| busy(*i)).max_by(by_load)?;
        let to = all.filter(|i| idle(*i)).min_by(by_load)?;
        let (pool, after) = best_pool((first, last), (from, to), (minute[from], minute[to]), |name| {
            self.moved_s.get(name).is_none_or(|moved| now - moved >= REST_S as f64)
        })?;
        let why = format!(
            "controller {from} was {:.0} % busy for a minute, controller {to} {:.0} %; the busier one is expected at \
             {after:.0} %",
            minute[from], minute[to]
        );
        Some(Move { pool, to, why })
    }
}

/// How busy each controller was between two samples, in percent; none where their number has changed.
fn loads(from: &Sample, to: &Sample) -> Option<Vec<f64>> {
    let time = to.at_s - from.at_s;
    let pairs = from.busy_s.iter().zip(&to.busy_s);
    (from.busy_s.len() == to.busy_s.len() && time > 0.0)
        .then(|| pairs.map(|(a, b)| (b - a).max(0.0) / time * 100.0).collect())
}

/// The pool whose move makes the busier of the two controllers least busy, and how busy that is then.
fn best_pool(
    (first, last): (&Sample, &Sample),
    (from, to): (usize, usize),
    (from_load, to_load): (f64, f64),
    may_move: impl Fn(&String) -> bool,
) -> Option<(String, f64)> {
    let done = |name: &String, (controller, now): (usize, u64)| match first.pools.get(name) {
        // Opened there within the window: what it has done there since.
        Some((had, before)) if *had == controller => now.saturating_sub(*before),
        _ => now,
    };
    debug_assert_ne!(from, to, "a controller is not both busy and idle");
    let own = last.pools.iter().filter(|(_, (controller, _))| *controller == from);
    let own: Vec<(&String, u64)> = own.map(|(name, state)| (name, done(name, *state))).collect();
    let all: u64 = own.iter().map(|(_, operations)| operations).sum();
    if all == 0 {
        return None;
    }
    let after = |operations: u64| {
        let part = from_load * operations as f64 / all as f64;
        (from_load - part, to_load + part)
    };
    let pays =
        |(left, right): (f64, f64)| right <= BUSY_PERCENT && left.max(right) <= from_load - GAIN_PERCENT;
    own.into_iter()
        .filter(|(name, operations)| may_move(name) && pays(after(*operations)))
        .map(|(name, operations)| (name.clone(), after(operations).0.max(after(operations).1)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool, its controller, and its operations per second.
    type Rate = (&'static str, usize, u64);

    /// Two controllers and their balance.
    #[derive(Default)]
    struct Bench {
        balance: Balance,
        second: u64,
        busy_s: [f64; 2],
        done: BTreeMap<String, (usize, u64)>,
    }

    impl Bench {
        /// So many seconds, a look every two: busy in percent, and the operations per second of each pool at
        /// its controller. The first move, and when.
        fn run(&mut self, seconds: u64, busy: [f64; 2], pools: &[(&str, usize, u64)]) -> Option<(u64, Move)> {
            let end = self.second + seconds;
            while self.second < end {
                for (name, at, rate) in pools {
                    let known = self.done.entry((*name).to_owned()).or_insert((*at, 0));
                    *known = (*at, if known.0 == *at { known.1 } else { 0 } + 2 * rate);
                }
                self.done.retain(|name, _| pools.iter().any(|(pool, ..)| pool == name));
                for (sum, percent) in self.busy_s.iter_mut().zip(busy) {
                    *sum += 2.0 * percent / 100.0;
                }
                self.second += 2;
                let (busy_s, pools) = (self.busy_s.to_vec(), self.done.clone());
                let sample = Sample { at_s: self.second as f64, busy_s, pools };
                if let Some(found) = self.balance.look(sample) {
                    return Some((self.second, found));
                }
            }
            None
        }
    }

    const BOTH_AT_0: [Rate; 2] = [("p", 0, 300), ("q", 0, 700)];

    #[test]
    fn the_pool_that_levels_the_load_moves_after_a_minute() {
        let (at, found) = Bench::default().run(200, [90.0, 10.0], &BOTH_AT_0).expect("it moves");
        // The first look is after two seconds.
        assert_eq!(at, 62);
        // With q: 27 and 73 %, too much; with p: 63 and 37 %.
        assert_eq!((found.pool.as_str(), found.to), ("p", 1));
        assert!(found.why.contains("90 % busy") && found.why.ends_with("63 %"), "{}", found.why);
    }

    #[test]
    fn nothing_moves_where_it_would_not_pay() {
        let cases: [([f64; 2], &[Rate]); 5] = [
            ([69.0, 10.0], &BOTH_AT_0),
            ([90.0, 41.0], &BOTH_AT_0),
            // The only pool: the other controller would be the busy one.
            ([90.0, 10.0], &[("p", 0, 1000)]),
            // The busy controller is busy with its ports.
            ([90.0, 10.0], &[("p", 0, 0), ("q", 1, 1000)]),
            ([75.0, 39.0], &[("p", 0, 1), ("q", 0, 999)]),
        ];
        for (busy, pools) in cases {
            assert_eq!(Bench::default().run(300, busy, pools), None, "{busy:?} {pools:?}");
        }
    }

    #[test]
    fn a_load_that_has_ended_moves_nothing() {
        let mut bench = Bench::default();
        assert_eq!(bench.run(50, [100.0, 0.0], &BOTH_AT_0), None);
        assert_eq!(bench.run(100, [0.0, 0.0], &BOTH_AT_0), None);
    }

    /// A controller whose node is lost, or that changes its place, counts from zero there. For ten seconds it
    /// looked idle, and a busy one gave it a pool.
    #[test]
    fn a_controller_that_begins_anew_is_not_taken_for_an_idle_one() {
        let mut bench = Bench::default();
        let pools = [("p", 0, 300), ("q", 0, 700), ("r", 1, 1000)];
        assert_eq!(bench.run(100, [90.0, 80.0], &pools), None);
        bench.busy_s[1] = 0.0;
        assert_eq!(bench.run(100, [90.0, 80.0], &pools), None);
        let begun = bench.second;
        bench.busy_s[1] = 0.0;
        let (at, _) = bench.run(100, [90.0, 10.0], &pools).expect("it is idle there");
        assert!(at >= begun + WINDOW_S, "{at}: what it did before says nothing");
    }

    #[test]
    fn a_pool_that_has_moved_rests_and_goes_back_when_that_pays() {
        let mut bench = Bench::default();
        let (moved, _) = bench.run(200, [90.0, 10.0], &BOTH_AT_0).expect("it moves");
        // The load has turned. The pool that has moved rests for ten minutes.
        let (at, found) = bench.run(1000, [10.0, 90.0], &[("p", 1, 300), ("r", 1, 300)]).expect("r moves");
        assert_eq!((found.pool.as_str(), found.to), ("r", 0));
        assert!(at >= moved + 60, "{at}: the loads before the move say nothing");
        let both = [("p", 1, 300), ("s", 1, 950)];
        assert_eq!(bench.run(70, [10.0, 20.0], &both), None);
        let (at, found) = bench.run(1000, [10.0, 90.0], &both).expect("p goes back");
        assert_eq!((found.pool.as_str(), found.to), ("p", 0));
        assert!(at >= moved + REST_S, "{at}");
    }
}
