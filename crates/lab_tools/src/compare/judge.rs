//! Compares one metric of two runs: ratio, interval, verdict.

use std::cmp::Ordering;

use statrs::distribution::{ContinuousCDF, StudentsT};

use lab_core::stats::Estimate;

/// What two runs show about a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The interval excludes 1.
    Differs,
    /// Different single values: their random variation is unknown.
    Single,
    /// The interval contains 1.
    Undecided,
    /// All values are equal.
    Same,
}

impl Verdict {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Differs => "differs",
            Verdict::Single => "one value each",
            Verdict::Undecided => "undecided",
            Verdict::Same => "the same",
        }
    }
}

/// A metric in both runs.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Compared {
    pub name: String,
    /// Mean in the first run.
    pub a: f64,
    /// Mean in the second.
    pub b: f64,
    /// Samples of each.
    pub samples: (usize, usize),
    /// B over A with its 95 % interval; infinite ends where there is none, nothing where A is 0.
    pub ratio: Option<Estimate>,
    /// What that shows.
    pub verdict: Verdict,
}

fn mean_and_variance(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, squares / (n - 1.0).max(1.0))
}

/// Compares; neither may be empty.
///
/// The runs are independent of each other, so the interval is that of a ratio of two means: the logarithms'
/// difference, with each mean's relative variance, and degrees of freedom after Welch and Satterthwaite. It
/// does not need the two to vary alike.
pub(super) fn compared(name: &str, a: &[f64], b: &[f64]) -> Compared {
    let ((mean_a, var_a), (mean_b, var_b)) = (mean_and_variance(a), mean_and_variance(b));
    let varies = var_a > 0.0 || var_b > 0.0;
    let (ratio, verdict) = match (mean_a, mean_b) {
        (x, y) if a == b || !varies && x == y => ((x != 0.0).then(|| Estimate::exact(1.0)), Verdict::Same),
        (x, y) if x == 0.0 || y / x <= 0.0 => (None, Verdict::Single),
        (x, y) => {
            let ratio = y / x;
            if a.len() < 2 || b.len() < 2 {
                let open = Estimate { mean: ratio, low: f64::NEG_INFINITY, high: f64::INFINITY };
                (Some(open), Verdict::Single)
            } else {
                let each = |mean: f64, var: f64, n: usize| var / (mean * mean * n as f64);
                let (ra, rb) = (each(x, var_a, a.len()), each(y, var_b, b.len()));
                let estimate = interval(ratio, (ra, a.len()), (rb, b.len()));
                let holds_1 = estimate.low <= 1.0 && 1.0 <= estimate.high;
                (Some(estimate), if holds_1 { Verdict::Undecided } else { Verdict::Differs })
            }
        }
    };
    Compared { name: name.into(), a: mean_a, b: mean_b, samples: (a.len(), b.len()), ratio, verdict }
}

/// From the relative variances of the two means.
fn interval(ratio: f64, (ra, na): (f64, usize), (rb, nb): (f64, usize)) -> Estimate {
    let sum = ra + rb;
    if sum == 0.0 {
        return Estimate::exact(ratio);
    }
    let freedom = sum * sum / (ra * ra / (na as f64 - 1.0) + rb * rb / (nb as f64 - 1.0));
    let t = StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975));
    let factor = (t * sum.sqrt()).exp();
    Estimate { mean: ratio, low: ratio / factor, high: ratio * factor }
}

/// The differing metrics, the largest difference first; then the others.
pub(super) fn most_first(x: &Compared, y: &Compared) -> Ordering {
    let far = |c: &Compared| c.ratio.map_or(0.0, |r| r.mean.ln().abs());
    x.verdict.cmp(&y.verdict).then(far(y).total_cmp(&far(x))).then(x.name.cmp(&y.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_decides() {
        let check = |a: &[f64], b: &[f64]| compared("m", a, b).verdict;
        assert_eq!(check(&[10.0, 10.1, 9.9], &[12.0, 12.1, 11.9]), Verdict::Differs);
        assert_eq!(check(&[10.0, 12.0, 8.0], &[11.0, 13.0, 9.0]), Verdict::Undecided);
        assert_eq!(check(&[10.0], &[11.0]), Verdict::Single);
        assert_eq!(check(&[10.0], &[10.0]), Verdict::Same);
        assert_eq!(check(&[0.0, 0.0], &[0.0]), Verdict::Same);
        assert_eq!(check(&[10.0, 12.0], &[10.0, 12.0]), Verdict::Same, "of one seed");
        assert_eq!(check(&[0.0], &[1.0]), Verdict::Single);
        // Counted, and the same in every repeat: what differs differs.
        assert_eq!(check(&[10.0, 10.0], &[11.0, 11.0]), Verdict::Differs);
        assert_eq!(check(&[-1.0, -1.1], &[1.0, 1.1]), Verdict::Single);
    }

    #[test]
    fn the_interval_is_that_of_welch() {
        // Relative standard error of each mean 1 %: of the ratio 1.414 %, four degrees of freedom, t 2.776.
        let s = 3.0_f64.sqrt();
        let one =
            compared("m", &[100.0 - s, 100.0, 100.0 + s], &[2.0 * (100.0 - s), 200.0, 2.0 * (100.0 + s)]);
        let ratio = one.ratio.expect("a ratio");
        assert!((ratio.mean - 2.0).abs() < 1e-12);
        assert!(((ratio.high / 2.0).ln() - 2.776_445 * 0.014_142_1).abs() < 1e-5, "{ratio:?}");
        assert!((ratio.high * ratio.low - 4.0).abs() < 1e-9, "symmetric in logarithms");
    }
}
