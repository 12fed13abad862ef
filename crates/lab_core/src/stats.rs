//! Statistics of repeated runs: means and ratios with their intervals (science: batch means over repeats,
//! Student's t).

use statrs::distribution::{ContinuousCDF, StudentsT};

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Estimate {
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// A value that was counted, not sampled.
    pub fn exact(value: f64) -> Estimate {
        Estimate { mean: value, low: value, high: value }
    }

    /// The same in another unit.
    pub fn scaled(self, by: f64) -> Estimate {
        let (a, b) = (self.low * by, self.high * by);
        Estimate { mean: self.mean * by, low: a.min(b), high: a.max(b) }
    }

    /// How often it is contained in `of`, which is above zero like the estimate itself. One without an
    /// interval has none of this either; an interval that reaches down to zero has no upper end.
    pub fn share_of(self, of: f64) -> Estimate {
        let Estimate { mean, low, high } = self;
        let is_alone = low.is_infinite() && high.is_infinite();
        let upper = if low > 0.0 { of / low } else { f64::INFINITY };
        let lower = if is_alone { f64::NEG_INFINITY } else { of / high };
        Estimate { mean: of / mean, low: lower, high: upper }
    }

    /// The interval in which the mean of another period lies, 1/`times` as long as the one that was measured
    /// (a prediction interval): both periods are samples.
    pub fn of_another_period(self, times: f64) -> Estimate {
        let by = (1.0 + times).sqrt();
        Estimate {
            mean: self.mean,
            low: self.mean - (self.mean - self.low) * by,
            high: self.mean + (self.high - self.mean) * by,
        }
    }
}

/// Mean of independent repeats with its 95 % interval by Student's t. One sample has no interval: `low` and
/// `high` are infinite. Panics on no samples: the caller's bug.
pub fn mean(samples: &[f64]) -> Estimate {
    assert!(!samples.is_empty(), "a mean of nothing");
    let Spread { mean, error, freedom } = spread(samples);
    if freedom < 1.0 {
        return Estimate { mean, low: f64::NEG_INFINITY, high: f64::INFINITY };
    }
    let half = t_975(freedom) * error.sqrt();
    Estimate { mean, low: mean - half, high: mean + half }
}

/// Mean of windows that follow one another, with its 95 % interval. Neighbours that are alike say less than
/// as many repeats: with a correlation ρ > 0 of each window with the next one, n windows count as n·(1 −
/// ρ)/(1 + ρ), as in an autoregressive process of first order. Neighbours that alternate are not counted as
/// more. Panics on no windows: the caller's bug.
pub fn mean_of_windows(windows: &[f64]) -> Estimate {
    let plain = mean(windows);
    let rho = correlation_of_neighbours(windows).clamp(0.0, 0.99);
    let (n, half) = (windows.len() as f64, plain.high - plain.mean);
    if rho == 0.0 || !half.is_finite() || half == 0.0 {
        return plain;
    }
    let counted = (n * (1.0 - rho) / (1.0 + rho)).max(2.0);
    let half = half / t_975(n - 1.0) * t_975(counted - 1.0) * (n / counted).sqrt();
    Estimate { mean: plain.mean, low: plain.mean - half, high: plain.mean + half }
}

/// How far each window is like the next one: the autocorrelation at lag 1, nought where nothing varies.
pub fn correlation_of_neighbours(windows: &[f64]) -> f64 {
    let mean = windows.iter().sum::<f64>() / windows.len().max(1) as f64;
    let all: f64 = windows.iter().map(|x| (x - mean).powi(2)).sum();
    let next: f64 = windows.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if all > 0.0 { next / all } else { 0.0 }
}

/// A mean and how sure it is.
struct Spread {
    mean: f64,
    /// The square of its standard error.
    error: f64,
    freedom: f64,
}

fn spread(samples: &[f64]) -> Spread {
    let (n, freedom) = (samples.len() as f64, samples.len() as f64 - 1.0);
    let mean = samples.iter().sum::<f64>() / n;
    let squares = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    Spread { mean, error: squares / freedom.max(1.0) / n, freedom }
}

/// Beyond which Student's t is in 2.5 % of the cases.
fn t_975(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).expect("at least one degree of freedom").inverse_cdf(0.975)
}

/// How much less `on` is than `off`, in percent of `off`, from paired repeats (each pair ran one after the
/// other): the mean of the pairs' savings with its interval. Where there was nothing to save from in a pair,
/// that of all pairs together, by [`ratio`]'s way: none is left out. `None`: no pairs, or nothing in `off`.
pub fn saving_percent(off: &[f64], on: &[f64]) -> Option<Estimate> {
    let pairs = || off.iter().zip(on);
    if pairs().any(|(off, _)| *off <= 0.0) {
        let Estimate { mean, low, high } = paired_ratio(on, off)?.scaled(-100.0);
        return Some(Estimate { mean: 100.0 + mean, low: 100.0 + low, high: 100.0 + high });
    }
    let savings: Vec<f64> = pairs().map(|(off, on)| 100.0 * (1.0 - on / off)).collect();
    (!savings.is_empty()).then(|| mean(&savings))
}

/// How many times `a` is of `b`, from paired repeats: the geometric mean of the pairs' ratios, with the
/// interval that Student's t gives for their logarithms. So that of `b` to `a` is its inverse, and neither
/// reaches below zero. A pair in which either is nothing has no logarithm, and is a result all the same: then
/// the ratio of the means, with the interval of the pairs' a − r·b. `None`: no pairs, or nothing in `b`.
pub fn ratio(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let pairs = || a.iter().zip(b);
    if pairs().any(|(a, b)| *a <= 0.0 || *b <= 0.0) {
        return paired_ratio(a, b);
    }
    let logs: Vec<f64> = pairs().map(|(a, b)| (a / b).ln()).collect();
    let log = (!logs.is_empty()).then(|| mean(&logs))?;
    // One pair has no interval, and e to minus infinity would be an end of one.
    let low = if log.low.is_finite() { log.low.exp() } else { log.low };
    Some(Estimate { mean: log.mean.exp(), low, high: log.high.exp() })
}

/// The ratio of the means of paired repeats.
fn paired_ratio(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
    ratio_of_pairs(&pairs, mean)
}

/// How many times the mean of `a` is that of `b`, from windows of one period in pairs. A window with nothing
/// counts as nothing. The interval is that of a ratio estimator: of the mean of a − r·b, by
/// [`mean_of_windows`]. `None`: no windows, or nothing in `b`.
pub fn ratio_of_means(pairs: &[(f64, f64)]) -> Option<Estimate> {
    ratio_of_pairs(pairs, mean_of_windows)
}

fn ratio_of_pairs(pairs: &[(f64, f64)], mean: fn(&[f64]) -> Estimate) -> Option<Estimate> {
    let mean_of = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    let (a, b) = (mean_of(|pair| pair.0), mean_of(|pair| pair.1));
    if pairs.is_empty() || b <= 0.0 {
        return None;
    }
    let ratio = a / b;
    let rests: Vec<f64> = pairs.iter().map(|(a, b)| a - ratio * b).collect();
    let rest = mean(&rests);
    let half = (rest.high - rest.mean) / b;
    Some(Estimate { mean: ratio, low: ratio - half, high: ratio + half })
}

/// The same of two periods, or of two sets of repeats, that have nothing to do with each other, however many
/// samples of each. `mean` is that of the samples: [`mean`], or [`mean_of_windows`].
pub fn quotient_of_means(a: &[f64], b: &[f64], mean: fn(&[f64]) -> Estimate) -> Option<Estimate> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    quotient_of(mean(a), mean(b))
}

/// The same of two means with their intervals: each may be that of repeats, or of windows.
pub fn quotient_of(a: Estimate, b: Estimate) -> Option<Estimate> {
    if b.mean <= 0.0 {
        return None;
    }
    let ratio = a.mean / b.mean;
    let of = |estimate: Estimate| (estimate.high - estimate.mean) / b.mean;
    let half = (of(a).powi(2) + (ratio * of(b)).powi(2)).sqrt();
    Some(Estimate { mean: ratio, low: ratio - half, high: ratio + half })
}

/// Which of several is farthest from a value, by its mean, with the interval in which the farthest of all
/// lies. Any of them may be it: one that surely differs is not hidden by one that may differ more, nor one
/// that may by one that surely does not. `None` of nothing.
pub fn farthest(all: &[Estimate], from: f64) -> Option<(usize, Estimate)> {
    let off = |value: f64| (value - from).abs();
    let nearest =
        |e: &Estimate| if e.low <= from && e.high >= from { 0.0 } else { off(e.low).min(off(e.high)) };
    let most = |of: &dyn Fn(&Estimate) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let ends = [most(&nearest), most(&|e| off(e.low).max(off(e.high)))];
    let (which, Estimate { mean, .. }) =
        all.iter().enumerate().max_by(|a, b| off(a.1.mean).total_cmp(&off(b.1.mean)))?;
    let [low, high] =
        if *mean < from { [from - ends[1], from - ends[0]] } else { ends.map(|end| from + end) };
    Some((which, Estimate { mean: *mean, low, high }))
}

/// The median; of an even number the mean of the middle two. `None` of nothing.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One repeat that natively had 100.00002 % had an interval from 0 to −0, and its record was a
    /// contradiction.
    #[test]
    fn what_share_something_has_lies_in_its_interval_or_has_none() {
        let share = |mean, low, high| Estimate { mean, low, high }.share_of(100.0);
        assert_eq!(share(0.5, 0.4, 0.8), Estimate { mean: 200.0, low: 125.0, high: 250.0 });
        assert_eq!(share(0.5, -0.1, 1.0), Estimate { mean: 200.0, low: 100.0, high: f64::INFINITY });
        assert_eq!(mean(&[0.5]).share_of(100.0), mean(&[200.0]));
    }

    #[test]
    fn a_mean_has_the_interval_of_students_t() {
        // t(0.975, 4) = 2.776445; the samples' standard deviation is sqrt(2.5).
        let e = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((e.mean - 3.0).abs() < 1e-12);
        assert!((e.high - 3.0 - 2.776_445 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-4, "{e:?}");
        assert!(mean(&[7.0]).high.is_infinite());
    }

    #[test]
    fn a_ratio_is_the_inverse_of_the_other_way_round() {
        let (a, b) = ([8.0, 2.0, 9.0], [2.0, 1.0, 1.0]);
        let (over, under) = (ratio(&a, &b).expect("pairs"), ratio(&b, &a).expect("pairs"));
        assert!((over.mean - 72.0_f64.cbrt()).abs() < 1e-12 && over.low > 0.0, "{over:?}");
        for (x, y) in [(over.mean, under.mean), (over.low, under.high), (over.high, under.low)] {
            assert!((x * y - 1.0).abs() < 1e-12, "{x} and {y}");
        }
        assert!(ratio(&a[..1], &b[..1]).is_some_and(|e| (e.mean, e.high) == (4.0, f64::INFINITY)));
    }

    /// A repeat in which nothing was done was left out: of three, one of which stood still, the ratio was
    /// that of the other two.
    #[test]
    fn repeats_with_nothing_count_in_a_ratio_and_in_a_saving() {
        let (still, busy) = ([0.0, 9.0, 9.0], [9.0; 3]);
        let close = |e: Option<Estimate>, mean: f64| e.is_some_and(|e| (e.mean - mean).abs() < 1e-9);
        assert!(close(ratio(&still, &busy), 2.0 / 3.0), "{:?}", ratio(&still, &busy));
        assert!(close(ratio(&busy, &still), 1.5), "{:?}", ratio(&busy, &still));
        assert!(close(saving_percent(&still, &busy), -50.0), "{:?}", saving_percent(&still, &busy));
        // Three repeats of which one differs so much decide little.
        assert!(ratio(&still, &busy).is_some_and(|e| e.low < 0.0 && e.high > 1.0));
        assert!(ratio(&[0.0], &[1.0]).is_some_and(|e| (e.mean, e.high) == (0.0, f64::INFINITY)));
        assert_eq!((ratio(&busy, &[0.0; 3]), ratio(&[], &[])), (None, None));
        assert_eq!((saving_percent(&[0.0; 3], &busy), saving_percent(&[], &[])), (None, None));
        assert!(ratio(&[f64::NAN, 1.0], &[1.0; 2]).is_some_and(|e| e.mean.is_nan()), "undecided");
    }

    /// The one with the farthest mean alone was judged: a wider one beside it, and one that surely differs,
    /// were not.
    #[test]
    fn any_of_several_may_be_the_farthest() {
        let of = |(low, high): (f64, f64)| Estimate { mean: (low + high) / 2.0, low, high };
        let ends = |all: &[(f64, f64)]| {
            let all: Vec<Estimate> = all.iter().copied().map(of).collect();
            let (which, e) = farthest(&all, 0.0).expect("some");
            (which, e.low, e.high)
        };
        assert_eq!(ends(&[(-8.0, -6.0), (-2.0, 12.0)]), (0, -12.0, -6.0));
        assert_eq!(ends(&[(-30.0, 4.0), (11.0, 13.0)]), (0, -30.0, -11.0));
        assert_eq!(ends(&[(1.0, 3.0)]), (0, 1.0, 3.0));
        assert_eq!(farthest(&[], 0.0), None);
        let alone = farthest(&[mean(&[1.2])], 1.0).expect("one").1;
        assert_eq!((alone.mean, alone.low, alone.high), (1.2, 1.0, f64::INFINITY), "no interval");
    }

    #[test]
    fn windows_that_are_alike_count_less() {
        // Correlations by hand: of 1, 2, 3, 4 around 2.5 it is (0.75 − 0.25 + 0.75) / 5 = 0.25; what
        // alternates has a negative one.
        let (rising, alternating) = ([1.0, 2.0, 3.0, 4.0], [1.0, 4.0, 1.0, 4.0]);
        assert!((correlation_of_neighbours(&rising) - 0.25).abs() < 1e-12);
        assert!((correlation_of_neighbours(&alternating) + 0.75).abs() < 1e-12);
        assert_eq!(correlation_of_neighbours(&[5.0; 4]), 0.0);
        // 4 · 0.75 / 1.25 = 2.4 windows: t(0.975, 1.4) = 6.6 or so instead of 3.18, and an error larger by
        // the square root of 5/3.
        let (plain, by_windows) = (mean(&rising), mean_of_windows(&rising));
        assert!(by_windows.high - by_windows.mean > 1.29 * (plain.high - plain.mean), "{by_windows:?}");
        assert_eq!(by_windows.mean, plain.mean);
        assert_eq!(mean_of_windows(&alternating), mean(&alternating));
        assert!(mean_of_windows(&[7.0]).high.is_infinite());
    }

    #[test]
    fn savings_are_paired() {
        let e = saving_percent(&[100.0, 200.0], &[5.0, 10.0]).expect("two pairs");
        assert_eq!((e.mean, e.low, e.high), (95.0, 95.0, 95.0));
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), Some(2.5));
    }

    #[test]
    fn windows_with_nothing_count_in_a_ratio() {
        // Ten of fifteen windows stood still: a third of what there was.
        let before = [9.0, 11.0, 10.0, 10.0, 11.0, 9.0];
        let after: Vec<f64> = (0..15).map(|i| if i % 3 < 2 { 0.0 } else { 10.0 }).collect();
        let ratio = quotient_of_means(&after, &before, mean_of_windows).expect("both");
        assert!((ratio.mean - 1.0 / 3.0).abs() < 1e-12 && ratio.high < 0.95 && ratio.low < 0.3, "{ratio:?}");
        let pairs: Vec<(f64, f64)> = after.iter().map(|a| (*a, 10.0)).collect();
        let paired = ratio_of_means(&pairs).expect("pairs");
        assert!((paired.mean - ratio.mean).abs() < 1e-12 && paired.high < 0.95, "{paired:?}");
        assert_eq!(quotient_of_means(&before, &[0.0, 0.0], mean), None);
        // 10 ± 1 over 5 ± 1: the square root of 0.2² + (2 · 0.2)².
        let of = |mean: f64| Estimate { mean, low: mean - 1.0, high: mean + 1.0 };
        let of_estimates = quotient_of(of(10.0), of(5.0)).expect("both");
        assert!((of_estimates.high - 2.0 - 0.2_f64.sqrt()).abs() < 1e-12, "{of_estimates:?}");
        // Loads that move together: in pairs their ratio is known better.
        let loads: Vec<(f64, f64)> = (1..20).map(|i| (2.0 * f64::from(i), f64::from(i))).collect();
        let exact = ratio_of_means(&loads).expect("pairs");
        assert!((exact.high - 2.0).abs() < 1e-9 && (exact.low - 2.0).abs() < 1e-9, "{exact:?}");
    }
}
