//! Parts of a maximum, so that all together never exceed it, whatever responses take and whoever does not
//! answer.
//!
//! A scheduler starts no request while what ended in the last five seconds and what is below exceed the
//! window of its slice. So in each place at most the larger of both counts, and
//! `Σ max(window, counted) <= 5 s × maximum` holds all the time if windows are lowered first: what is raised
//! is taken from what was free by the last answers. What ended in any five seconds has been counted at their
//! end, so the sum exceeds the maximum by no more than a request of each place.

use crate::divide::ROUND_NS;
use crate::expected::{Claim, expected_with_floor};
use crate::health::WINDOW_NS;
use crate::part::{Slice, in_window};
use crate::tag::SECOND_NS;

/// Of a maximum, all places together have this part even if they ask for nothing, so that they can begin.
const BASE_PARTS: u64 = 100;

/// What a place asks for, in bytes per second, and what it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// Its part of the minimum.
    pub(crate) minimum: u64,
    pub(crate) weight: u64,
    /// None: all that it can get.
    pub(crate) demand: Option<u64>,
    /// The rate that it was given last.
    pub(crate) rate: u64,
    /// The window that may be in force, and what was counted in it.
    pub(crate) in_force: u64,
    pub(crate) counted: u64,
    /// Whether it does not answer: it goes on with what it has.
    pub(crate) is_silent: bool,
}

impl Ask {
    fn held(&self) -> u64 {
        self.in_force.max(self.counted)
    }
}

/// The slices of a maximum in bytes per second, where `gone` bytes count of places that are there no more.
pub(crate) fn slices(maximum: u64, gone: u64, asks: &[Ask]) -> Vec<Slice> {
    let rates = rates(maximum, asks);
    let windows = windows(in_window(maximum), gone, asks, &rates);
    let slice = |(bytes_per_s, window_bytes)| Slice { bytes_per_s, window_bytes };
    rates.into_iter().zip(windows).map(slice).collect()
}

fn rates(maximum: u64, asks: &[Ask]) -> Vec<u64> {
    let silent =
        asks.iter().filter(|ask| ask.is_silent).fold(0, |sum: u64, ask| sum.saturating_add(ask.rate));
    let heard: Vec<&Ask> = asks.iter().filter(|ask| !ask.is_silent).collect();
    let count = heard.len().max(1) as u64;
    let rest = maximum.saturating_sub(silent);
    let base = rest / BASE_PARTS / count;
    let claim = |ask: &&Ask| Claim {
        minimum: ask.minimum.saturating_sub(base),
        maximum: None,
        weight: ask.weight,
        demand: ask.demand.map(|demand| demand.saturating_sub(base)),
    };
    let claims: Vec<Claim> = heard.iter().map(claim).collect();
    let divided = expected_with_floor(rest - base * count, 0, &claims).rates;
    let left = (rest - base * count).saturating_sub(divided.iter().sum()) / count;
    let mut divided = divided.into_iter();
    let rate = |ask: &Ask| match ask.is_silent {
        true => ask.rate,
        false => base + left + divided.next().unwrap_or(0),
    };
    asks.iter().map(rate).collect()
}

/// Windows that fit `whole` with what is counted already. One that is lowered falls no faster than what is
/// counted there leaves it, so that no place stands still meanwhile. But it does fall: a place that uses all
/// of its rate counts nearly all of its window all the time, and would keep for good what it once had more.
fn windows(whole: u64, gone: u64, asks: &[Ask], rates: &[u64]) -> Vec<u64> {
    let wanted = |(ask, rate): (&Ask, &u64)| {
        let of_round = u128::from(*rate) * u128::from(ROUND_NS) / u128::from(SECOND_NS);
        match ask.is_silent {
            true => ask.in_force,
            false => {
                // A tenth of what is counted leaves in a round.
                let stays = ask.counted - ask.counted / (WINDOW_NS / ROUND_NS);
                let in_use = stays.saturating_add(of_round as u64);
                in_window(*rate).max(in_use.min(ask.in_force)).min(whole)
            }
        }
    };
    let wanted: Vec<u64> = asks.iter().zip(rates).map(wanted).collect();
    let held = asks.iter().fold(gone, |sum, ask| sum.saturating_add(ask.held()));
    let free = whole.saturating_sub(held);
    let more = |(ask, wanted): (&Ask, &u64)| u128::from(wanted.saturating_sub(ask.in_force));
    let asked: u128 = asks.iter().zip(&wanted).map(more).sum();
    let window = |(ask, wanted): (&Ask, &u64)| {
        let raised = more((ask, wanted)) * u128::from(free).min(asked) / asked.max(1);
        (*wanted).min(ask.in_force.saturating_add(raised as u64))
    };
    asks.iter().zip(&wanted).map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place that wants all, with what it has and what was counted there.
    fn wants(rate: u64, in_force: u64, counted: u64) -> Ask {
        Ask { minimum: 0, weight: 1, demand: None, rate, in_force, counted, is_silent: false }
    }

    fn check(maximum: u64, gone: u64, asks: &[Ask], expected: &[(u64, u64)]) {
        let got: Vec<_> =
            slices(maximum, gone, asks).iter().map(|s| (s.bytes_per_s, s.window_bytes)).collect();
        assert_eq!(got, expected, "{asks:?}");
    }

    #[test]
    fn windows_are_lowered_before_others_are_raised() {
        let idle = |ask: Ask| Ask { demand: Some(0), ..ask };
        // Both want half. The second one has nothing yet, and the first one's window is full: a tenth of it
        // ends in a round, and half of that may start anew.
        check(1000, 0, &[wants(1000, 5000, 5000), wants(0, 0, 0)], &[(500, 4750), (500, 0)]);
        check(1000, 0, &[wants(500, 4750, 4750), wants(500, 0, 0)], &[(500, 4525), (500, 250)]);
        check(1000, 0, &[wants(500, 4525, 4500), wants(500, 250, 0)], &[(500, 4300), (500, 475)]);
        check(1000, 0, &[wants(500, 2500, 2500), wants(500, 2500, 2500)], &[(500, 2500), (500, 2500)]);
        // One that stops leaves what it has not used at once, and the rest as it ends.
        check(1000, 0, &[idle(wants(1000, 5000, 3000)), wants(0, 0, 0)], &[(5, 2702), (995, 0)]);
        check(1000, 0, &[idle(wants(5, 2702, 2500)), wants(995, 0, 0)], &[(5, 2252), (995, 2298)]);
        // What is counted beyond a window, because it ended late, is not given to others.
        check(1000, 0, &[idle(wants(5, 100, 700)), wants(995, 0, 0)], &[(5, 100), (995, 4300)]);
    }

    /// Of sixteen places, fifteen had a little more once, and use all of their rate: 99 % of it in five
    /// seconds, and what is under way. What is left was nothing at all, for good.
    #[test]
    fn who_comes_last_gets_its_part_though_the_others_use_theirs() {
        let maximum = 16_000;
        let counts = |under_way: u64, window: u64| window.min(4_950 + under_way);
        for (under_way, rounds) in [(40, 10), (300, 30)] {
            let mut windows = vec![5_334; 15];
            windows.push(0);
            for _ in 0..rounds {
                let ask = |window: &u64| wants(1_000, *window, counts(under_way, *window));
                let asks: Vec<Ask> = windows.iter().map(ask).collect();
                windows = slices(maximum, 0, &asks).iter().map(|slice| slice.window_bytes).collect();
            }
            assert!(windows[15] >= 4_750, "{under_way} under way, {rounds} rounds: {windows:?}");
        }
    }

    #[test]
    fn who_does_not_answer_keeps_its_slice_and_who_is_gone_still_counts() {
        let silent = Ask { is_silent: true, ..wants(400, 2000, 100) };
        check(1000, 0, &[silent, wants(600, 2500, 2500)], &[(400, 2000), (600, 3000)]);
        check(1000, 2500, &[wants(1000, 0, 0)], &[(1000, 2500)]);
        check(1000, u64::MAX, &[wants(1000, 100, 0)], &[(1000, 100)]);
    }

    #[test]
    fn rates_follow_demand_and_a_minimum_goes_before() {
        let rates = |asks: &[Ask]| slices(1000, 0, asks).iter().map(|s| s.bytes_per_s).collect::<Vec<_>>();
        let little = Ask { demand: Some(105), ..wants(0, 0, 0) };
        assert_eq!(rates(&[little, wants(0, 0, 0)]), [105, 895]);
        assert_eq!(rates(&[Ask { weight: 3, ..wants(0, 0, 0) }, wants(0, 0, 0)]), [748, 252]);
        assert_eq!(rates(&[Ask { minimum: 905, ..wants(0, 0, 0) }, wants(0, 0, 0)]), [905, 95]);
        // What nobody asks for is there for all.
        assert_eq!(rates(&[little, little]), [500, 500]);
        assert_eq!(rates(&[]), [0; 0]);
    }

    #[test]
    fn any_numbers_are_divided_without_a_panic_and_never_raised_above_the_whole() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let mut number = || [0, 1, 8192, rng.u64(..1 << 40), u64::MAX / 2, u64::MAX][rng.usize(..6)];
            let maximum = number();
            let asks: Vec<Ask> = (0..4)
                .map(|i| Ask {
                    minimum: number(),
                    weight: number().max(1),
                    demand: Some(number()).filter(|n| *n > 1),
                    rate: number(),
                    in_force: number(),
                    counted: number(),
                    is_silent: i == 3,
                })
                .collect();
            let held = |windows: &[u64]| -> u128 {
                asks.iter().zip(windows).map(|(ask, window)| u128::from(ask.counted.max(*window))).sum()
            };
            let windows: Vec<u64> = slices(maximum, 0, &asks).iter().map(|s| s.window_bytes).collect();
            let before: Vec<u64> = asks.iter().map(|ask| ask.in_force).collect();
            assert!(
                held(&windows) <= held(&before).max(u128::from(in_window(maximum))),
                "{asks:?}: {windows:?}"
            );
        }
    }
}
