//! Which input decides a claim: the share of a margin's variation that an input alone explains.
//!
//! Margins become ranks, so that neither their unit nor a single extreme counts. The points are put into
//! groups by the input (its values, or its quarters where it has many), and the share is that of the variance
//! between groups (ε², the correlation ratio without what chance adds). An input stands out when chance gives
//! as much in less than one of a hundred cases (F test, divided by the number of inputs) and the share is a
//! tenth or more.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

/// Fewer points tell nothing.
const POINTS_MIN: usize = 16;
/// An input with more values than this is put into as many groups as [`GROUPS`].
const VALUES_MAX: usize = 6;
/// Quarters of the points.
const GROUPS: usize = 4;
/// Chance gives as much as rarely.
const CHANCE_MAX: f64 = 0.01;
/// Less of the variation decides nothing.
const SHARE_MIN: f64 = 0.1;
/// Of ranks: from here on a claim moves one way with its input.
const CORRELATION_MIN: f64 = 0.3;
/// An F that no rounding explains.
const F_MAX: f64 = 1e9;

/// An input over the points.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Factor {
    pub input: String,
    /// At each point.
    pub values: Vec<f64>,
    /// Whether more and less mean something; otherwise each value is a name.
    pub is_ordered: bool,
}

/// Where the margin of a claim is larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Better {
    /// With larger values.
    More,
    /// With smaller ones.
    Less,
    /// With this one.
    At(f64),
    /// Neither with more nor with less.
    Mixed,
}

/// An input that stands out.
#[derive(Clone, Debug, PartialEq)]
pub struct Decider {
    /// The place among the factors.
    pub factor: usize,
    /// The share of the variation that it explains alone.
    pub share: f64,
    /// Where the claim holds better.
    pub better: Better,
}

/// The inputs that stand out, the one that explains most first; none where nothing does.
pub fn deciders(factors: &[Factor], margins: &[f64]) -> Vec<Decider> {
    let ranks = ranks(margins);
    if margins.len() < POINTS_MIN || variance(&ranks) == 0.0 {
        return vec![];
    }
    let each = factors.iter().enumerate().filter_map(|(place, factor)| {
        let groups = groups(factor);
        let share = explained(&groups, &ranks, factors.len())?;
        Some(Decider { factor: place, share, better: better(factor, &groups, &ranks) })
    });
    let mut all: Vec<Decider> = each.collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

/// From 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let place = |value: &f64| {
        let below = values.iter().filter(|other| other.total_cmp(value).is_lt()).count();
        let equal = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(place).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// Points by the value of the input: each group's value, or none where it is a quarter, and its points.
fn groups(factor: &Factor) -> Vec<(Option<f64>, Vec<usize>)> {
    let mut distinct = factor.values.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    let of = |wanted: &dyn Fn(usize) -> bool| (0..factor.values.len()).filter(|i| wanted(*i)).collect();
    if !factor.is_ordered || distinct.len() <= VALUES_MAX {
        return distinct.iter().map(|v| (Some(*v), of(&|i| factor.values[i] == *v))).collect();
    }
    let ranks = ranks(&factor.values);
    let quarter = |i: usize| ((ranks[i] - 0.5) / ranks.len() as f64 * GROUPS as f64) as usize;
    let quarters = (0..GROUPS).map(|q| (None, of(&|i| quarter(i) == q)));
    quarters.filter(|(_, points): &(_, Vec<usize>)| !points.is_empty()).collect()
}

/// The share that groups explain, where it stands out among so many inputs.
fn explained(groups: &[(Option<f64>, Vec<usize>)], ranks: &[f64], inputs: usize) -> Option<f64> {
    let (n, k) = (ranks.len() as f64, groups.len() as f64);
    if k < 2.0 || n <= k {
        return None;
    }
    let all = mean(ranks);
    let between = groups.iter().map(|(_, points)| {
        let own = points.iter().map(|i| ranks[*i]).sum::<f64>() / points.len() as f64;
        points.len() as f64 * (own - all).powi(2)
    });
    let total = n * variance(ranks);
    let share = between.sum::<f64>() / total;
    let without_chance = 1.0 - (1.0 - share) * (n - 1.0) / (n - k);
    let f = (share / (k - 1.0)) / ((1.0 - share) / (n - k)).max(1.0 / F_MAX);
    let chance = FisherSnedecor::new(k - 1.0, n - k).map_or(1.0, |of| 1.0 - of.cdf(f.min(F_MAX)));
    (chance * (inputs as f64) < CHANCE_MAX && without_chance >= SHARE_MIN).then_some(without_chance)
}

fn better(factor: &Factor, groups: &[(Option<f64>, Vec<usize>)], ranks_of_margins: &[f64]) -> Better {
    if !factor.is_ordered {
        let level = |points: &[usize]| mean(&points.iter().map(|i| ranks_of_margins[*i]).collect::<Vec<_>>());
        let best = groups.iter().max_by(|a, b| level(&a.1).total_cmp(&level(&b.1)));
        return best.and_then(|(value, _)| *value).map_or(Better::Mixed, Better::At);
    }
    match rank_correlation(&factor.values, ranks_of_margins) {
        r if r >= CORRELATION_MIN => Better::More,
        r if r <= -CORRELATION_MIN => Better::Less,
        _ => Better::Mixed,
    }
}

/// Spearman's.
fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let (mean_a, mean_b) = (mean(&a), mean(&b));
    let both = a.iter().zip(&b).map(|(x, y)| (x - mean_a) * (y - mean_b)).sum::<f64>() / a.len() as f64;
    let scale = (variance(&a) * variance(&b)).sqrt();
    if scale > 0.0 { both / scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::sobol::coordinate;
    use super::*;

    const N: u32 = 64;

    /// Three inputs: two that are ordered, one of three names.
    fn factors() -> Vec<Factor> {
        let of = |dimension: usize| (0..N).map(move |i| coordinate(dimension, i));
        let name = |u: f64| (u * 3.0).floor();
        vec![
            Factor { input: "cache".into(), values: of(0).collect(), is_ordered: true },
            Factor { input: "depth".into(), values: of(1).collect(), is_ordered: true },
            Factor { input: "drive".into(), values: of(2).map(name).collect(), is_ordered: false },
        ]
    }

    /// The one table: how a margin comes from the three inputs and from something else, what decides it, how
    /// much of it, and where it is better.
    #[test]
    fn the_input_that_a_margin_comes_from_is_found() {
        type Margin = fn(f64, f64, f64, f64) -> f64;
        type Row = (&'static str, Margin, Option<(usize, f64, Better)>);
        let table: [Row; 8] = [
            ("rises with the cache", |c, _, _, _| c.powi(3), Some((0, 0.93, Better::More))),
            ("falls with the depth", |_, d, _, _| -d, Some((1, 0.93, Better::Less))),
            ("is best in the middle", |_, d, _, _| -(d - 0.5).abs(), Some((1, 0.7, Better::Mixed))),
            (
                "is best with one drive",
                |_, _, v, x| x + if v == 1.0 { 9.0 } else { 0.0 },
                Some((2, 0.6, Better::At(1.0))),
            ),
            ("mostly the cache", |c, d, _, _| c + d / 3.0, Some((0, 0.8, Better::More))),
            ("one point is extreme", |_, _, _, x| if x < 1.0 / 64.0 { -1e9 } else { 1.0 }, None),
            ("something else", |_, _, _, x| x, None),
            ("nothing moves", |_, _, _, _| 4.0, None),
        ];
        let factors = factors();
        for (words, margin, expected) in table {
            let value = |i: u32| {
                let at = |place: usize| factors[place].values[i as usize];
                margin(at(0), at(1), at(2), coordinate(9, i))
            };
            let found = deciders(&factors, &(0..N).map(value).collect::<Vec<_>>());
            let first = found.first().map(|d| (d.factor, d.share, d.better));
            match (first, expected) {
                (Some((factor, share, better)), Some((place, about, as_expected))) => {
                    assert_eq!((factor, better), (place, as_expected), "{words}");
                    assert!((share - about).abs() < 0.12, "{words}: {share}");
                }
                (None, None) => {}
                other => panic!("{words}: {other:?}"),
            }
        }
    }

    #[test]
    fn few_points_and_points_that_never_came_out_decide_nothing_by_themselves() {
        let few = [Factor { input: "a".into(), values: (0..8).map(f64::from).collect(), is_ordered: true }];
        assert_eq!(deciders(&few, &few[0].values), []);
        // A claim that never happened is the worst of all: it has a rank like any other.
        let factors = factors();
        let margins: Vec<f64> =
            factors[0].values.iter().map(|c| if *c < 0.5 { f64::NEG_INFINITY } else { *c }).collect();
        assert_eq!(deciders(&factors, &margins)[0].factor, 0);
    }

    #[test]
    fn equal_values_share_a_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }
}
