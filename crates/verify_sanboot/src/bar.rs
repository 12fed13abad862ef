//! The bar of prediction: a forecast from points with 1, 2, 4, 5 and 6 servers, held against runs of 3 and of
//! 7 to 16, of every pattern and layout.

use anyhow::Result;
use lab_core::interrupt::Stop;
use lab_core::scenario::ScenarioFile;

use super::results::{Layout, Pattern, Results};
use super::run::{Plan, run};
use super::scenario::{SERVERS_MAX, Sanboot};
use super::survey::{FITTED_ON, FITTED_TO, Predicted, Survey};

/// Layouts that servers share.
const SHARED: [Layout; 2] = [Layout::Raid5x4, Layout::Raid1x8];

/// One number of servers that was run, and was not fitted on.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What the servers did.
    pub pattern: Pattern,
    /// On which layout.
    pub layout: Layout,
    /// How many.
    pub servers: u32,
    /// None: refused.
    pub forecast: Option<Held>,
}

/// A forecast, held against the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Predicted over measured, minus 1.
    pub error: f64,
    /// Whether the prediction interval holds what was measured.
    pub is_within: bool,
}

/// The points that the bar is judged by, in the windows of the quick form: fitted and held against, once
/// each.
pub fn points(seed: u64, threads: usize) -> Result<Results> {
    let (sanboot, _) = Sanboot::load(None)?;
    let mut sanboot = sanboot.quick();
    sanboot.run.servers = (1..=SERVERS_MAX).collect();
    sanboot.run.servers_beyond = vec![];
    sanboot.run.held_out_servers = sanboot.run.servers.clone();
    let plan = Plan { seed, quick: true, layouts: SHARED.to_vec(), threads };
    Ok(run(&sanboot, &plan, &Stop::default())?.results)
}

/// Every row that is judged, of patterns that the method was made with.
pub fn rows(results: &Results) -> Vec<Row> {
    rows_of(&Survey::new(results))
}

/// Those of patterns that it was not made with.
pub fn rows_held_out(results: &Results) -> Vec<Row> {
    rows_of(&Survey::new(&results.of_patterns_held_out()))
}

pub(crate) fn rows_of(survey: &Survey<'_>) -> Vec<Row> {
    let mut out = Vec::new();
    for predicted in &survey.tried {
        let (pattern, layout) = (predicted.pattern, predicted.layout);
        for servers in survey.servers(pattern, layout) {
            if !FITTED_ON.contains(&servers) {
                out.push(Row { pattern, layout, servers, forecast: held(survey, predicted, servers) });
            }
        }
    }
    out
}

fn held(survey: &Survey<'_>, predicted: &Predicted, servers: u32) -> Option<Held> {
    let forecast = predicted.forecast.as_ref().ok()?;
    let point = forecast.points.iter().find(|point| point.servers == servers)?;
    let measured = survey.estimate(predicted.pattern, predicted.layout, servers)?.mean * f64::from(servers);
    let is_within = (point.iops.low..=point.iops.high).contains(&measured);
    Some(Held { error: point.iops.median / measured - 1.0, is_within })
}

/// The worst of some rows, as a share; none where none has a forecast.
pub fn worst<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<(&'a Row, f64)> {
    let errors = rows.into_iter().filter_map(|row| Some((row, row.forecast?.error.abs())));
    errors.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The pattern of which the intervals hold least of what was measured: how many of its forecasts do, and of
/// how many. All together would hide one that they hardly ever hold behind five that they always do.
pub(crate) fn least_held(rows: &[Row]) -> Option<(Pattern, usize, usize)> {
    let of_pattern = |pattern: Pattern| {
        let own = rows.iter().filter(|row| row.pattern == pattern).filter_map(|row| row.forecast);
        let (within, all) = own.fold((0, 0), |(n, all), held| (n + usize::from(held.is_within), all + 1));
        (all > 0).then_some((pattern, within, all))
    };
    let share = |(_, within, all): &(Pattern, usize, usize)| *within as f64 / *all as f64;
    Pattern::ALL.into_iter().filter_map(of_pattern).min_by(|a, b| share(a).total_cmp(&share(b)))
}

/// Whether a row lies within what was fitted.
pub fn is_between(row: &Row) -> bool {
    row.servers < FITTED_TO
}

/// By how much a row may be off, as a share.
pub fn most_off(row: &Row) -> f64 {
    if is_between(row) { 0.08 } else { 0.10 }
}

/// The share of rows without a forecast.
pub fn refused(rows: &[Row]) -> f64 {
    rows.iter().filter(|row| row.forecast.is_none()).count() as f64 / rows.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 118 of 132 are 89 %; 130 of 132 are 98 %, with a pattern of which nine of ten are held as with one of
    /// which none is.
    #[test]
    fn one_bad_pattern_is_not_hidden_behind_five_good_ones() {
        let rows = |pattern: Pattern, all: u32, out: u32| {
            (0..all).map(move |n| Row {
                pattern,
                layout: Layout::Raid1x8,
                servers: 7 + n,
                forecast: Some(Held { error: 0.0, is_within: n >= out }),
            })
        };
        let good = Pattern::ALL.into_iter().filter(|p| *p != Pattern::SequentialMix);
        let mut all: Vec<Row> = good.flat_map(|pattern| rows(pattern, 20, 0)).collect();
        assert_eq!(least_held(&all), Some((Pattern::RandomRead, 20, 20)));
        all.extend(rows(Pattern::SequentialMix, 10, 8));
        all.push(Row { forecast: None, ..all[0].clone() });
        assert_eq!(least_held(&all), Some((Pattern::SequentialMix, 2, 10)));
        assert_eq!(least_held(&[]), None);
    }
}
