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
    let plan = Plan { seed, quick: true, layouts: SHARED.to_vec(), threads };
    Ok(run(&sanboot, &plan, &Stop::default())?.results)
}

/// Every row that is judged.
pub fn rows(results: &Results) -> Vec<Row> {
    rows_of(&Survey::new(results))
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

/// Whether a row lies within what was fitted.
pub fn is_between(row: &Row) -> bool {
    row.servers < FITTED_TO
}

/// The share of rows without a forecast.
pub fn refused(rows: &[Row]) -> f64 {
    rows.iter().filter(|row| row.forecast.is_none()).count() as f64 / rows.len().max(1) as f64
}
