//! How long files are: distributions that are drawn from by their quantiles, so that a part of one (all files
//! above a size) is drawn exactly.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};
use world::Rng;

/// A distribution of sizes, bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Sizes {
    /// The logarithm is normal.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Its standard deviation.
        sigma: f64,
    },
    /// A power law from the least size on.
    Pareto {
        /// The least size.
        least_bytes: f64,
        /// The exponent.
        alpha: f64,
    },
    /// Measured: a share of the files up to each size, in between on a line of the logarithm.
    Table {
        /// Sizes and shares, both growing; the last share is 1.
        steps: Vec<Step>,
    },
}

/// A line of a measured distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// So long at most ...
    pub bytes: f64,
    /// ... are this share of the files.
    pub share: f64,
}

/// The published file servers (2010): the moments of their set, by which a quarter of the files has 50,000
/// bytes or more.
pub(super) const PUBLISHED: Sizes = Sizes::Lognormal { mu: 9.0624, sigma: 2.6055 };

/// No file is longer: 16 TiB less one cluster is what NTFS takes with clusters of 4 KiB; a distribution
/// without a mean is cut here.
pub(super) const SIZE_BYTES_MAX: f64 = 17_592_186_040_320.0;
/// Lines of a measured distribution.
const STEPS_MAX: usize = 10_000;

/// Why a distribution is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum SizeError {
    #[error("invalid file size {0}: must be a positive number within the supported range")]
    Parameter(&'static str),
    #[error("a table has 1 to {STEPS_MAX} steps, sizes and shares grow, and the last share is 1")]
    Table,
    #[error("invalid distribution {0:?}: expected e.g. lognormal:9.0624,2.6055 or pareto:4096,1.2")]
    Text(String),
}

impl Sizes {
    /// Whether it can be drawn from.
    pub fn check(&self) -> Result<(), SizeError> {
        let positive = |value: f64, name, most: f64| match value > 0.0 && value <= most {
            true => Ok(()),
            false => Err(SizeError::Parameter(name)),
        };
        match self {
            // e^31 bytes is beyond every file.
            Sizes::Lognormal { mu, sigma } => {
                positive(*mu, "mu", 31.0)?;
                positive(*sigma, "sigma", 10.0)
            }
            Sizes::Pareto { least_bytes, alpha } => {
                positive(*least_bytes, "the least size", SIZE_BYTES_MAX)?;
                positive(*alpha, "alpha", 1000.0)
            }
            Sizes::Table { steps } => {
                let grows = steps.is_sorted_by(|a, b| a.bytes < b.bytes && a.share < b.share);
                let inside = steps.iter().all(|s| (1.0..=SIZE_BYTES_MAX).contains(&s.bytes) && s.share > 0.0);
                let whole = steps.last().is_some_and(|s| s.share == 1.0);
                if grows && inside && whole && steps.len() <= STEPS_MAX {
                    Ok(())
                } else {
                    Err(SizeError::Table)
                }
            }
        }
    }

    /// The share of files that are shorter than this.
    pub fn share_below(&self, bytes: f64) -> f64 {
        match self {
            Sizes::Lognormal { mu, sigma } => normal().cdf((bytes.max(1.0).ln() - mu) / sigma),
            Sizes::Pareto { least_bytes, alpha } => match bytes > *least_bytes {
                true => 1.0 - (least_bytes / bytes).powf(*alpha),
                false => 0.0,
            },
            Sizes::Table { steps } => {
                let mut from = Step { bytes: 1.0, share: 0.0 };
                for step in steps {
                    if bytes < step.bytes {
                        let part = (bytes.max(1.0) / from.bytes).ln() / (step.bytes / from.bytes).ln();
                        return from.share + part.max(0.0) * (step.share - from.share);
                    }
                    from = *step;
                }
                1.0
            }
        }
    }

    /// The size that this share of files is shorter than.
    fn quantile(&self, share: f64) -> f64 {
        let bytes = match self {
            Sizes::Lognormal { mu, sigma } => (mu + sigma * normal().inverse_cdf(share)).exp(),
            Sizes::Pareto { least_bytes, alpha } => least_bytes * (1.0 - share).powf(-1.0 / alpha),
            Sizes::Table { steps } => {
                let at = steps.partition_point(|s| s.share < share).min(steps.len() - 1);
                let from = if at == 0 { Step { bytes: 1.0, share: 0.0 } } else { steps[at - 1] };
                let part = (share - from.share) / (steps[at].share - from.share);
                from.bytes * (steps[at].bytes / from.bytes).powf(part.clamp(0.0, 1.0))
            }
        };
        bytes.clamp(0.0, SIZE_BYTES_MAX)
    }
}

fn normal() -> Normal {
    Normal::standard()
}

/// Draws sizes from a part of a distribution.
pub(super) struct Draw<'a> {
    sizes: &'a Sizes,
    from: f64,
    to: f64,
}

impl<'a> Draw<'a> {
    /// Of the files that have so many bytes or more.
    pub(super) fn at_least(sizes: &'a Sizes, bytes: u64) -> Draw<'a> {
        Draw { sizes, from: sizes.share_below(bytes as f64), to: 1.0 }
    }

    /// Of the files that have fewer.
    pub(super) fn below(sizes: &'a Sizes, bytes: u64) -> Draw<'a> {
        Draw { sizes, from: 0.0, to: sizes.share_below(bytes as f64) }
    }

    /// Whether any file is like that.
    pub(super) fn is_empty(&self) -> bool {
        self.to <= self.from
    }

    pub(super) fn one(&self, rng: &mut Rng) -> f64 {
        self.sizes.quantile(self.from + rng.f64() * (self.to - self.from))
    }
}

impl std::str::FromStr for Sizes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Sizes, SizeError> {
        let wrong = || SizeError::Text(text.chars().take(80).collect());
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (a, b) = rest.split_once(',').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
        let (a, b) = (number(a)?, number(b)?);
        let sizes = match kind {
            "lognormal" => Sizes::Lognormal { mu: a, sigma: b },
            "pareto" => Sizes::Pareto { least_bytes: a, alpha: b },
            _ => return Err(wrong()),
        };
        sizes.check()?;
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_published_files_has_fifty_thousand_bytes() {
        let below = PUBLISHED.share_below(50_000.0);
        assert!((below - 0.75).abs() < 1e-3, "{below}");
        let mut rng = Rng::with_seed(1);
        let draw = Draw::at_least(&PUBLISHED, 50_000);
        let drawn: Vec<f64> = (0..20_000).map(|_| draw.one(&mut rng)).collect();
        assert!(drawn.iter().all(|bytes| *bytes >= 49_999.0));
        // The median of the upper quarter is the 7/8 quantile: e^(9.0624 + 2.6055 * 1.15035).
        let above = drawn.iter().filter(|bytes| **bytes > 172_900.0).count() as f64 / 20_000.0;
        assert!((above - 0.5).abs() < 0.02, "{above}");
    }

    #[test]
    fn quantiles_and_shares_are_inverse_to_each_other() {
        let table = Sizes::Table {
            steps: vec![
                Step { bytes: 1000.0, share: 0.2 },
                Step { bytes: 10_000.0, share: 0.9 },
                Step { bytes: 1e6, share: 1.0 },
            ],
        };
        for sizes in [PUBLISHED, Sizes::Pareto { least_bytes: 4096.0, alpha: 1.2 }, table] {
            sizes.check().expect("one");
            for share in [0.01, 0.2, 0.5, 0.75, 0.95] {
                let back = sizes.share_below(sizes.quantile(share));
                assert!((back - share).abs() < 1e-6, "{sizes:?} {share} {back}");
            }
        }
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for text in
            ["lognormal", "normal:1,2", "pareto:4096", "pareto:0,1", "lognormal:nan,1", "lognormal:1,99"]
        {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
        assert_eq!("lognormal:9.0624,2.6055".parse::<Sizes>(), Ok(PUBLISHED));
        let step = |bytes, share| Step { bytes, share };
        for steps in [vec![], vec![step(10.0, 0.5)], vec![step(10.0, 0.5), step(5.0, 1.0)]] {
            assert_eq!(Sizes::Table { steps }.check(), Err(SizeError::Table));
        }
    }
}
