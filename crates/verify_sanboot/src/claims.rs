//! What was measured for the claims of the scenario: those of the published experiment, and those of the
//! prediction.
//!
//! Drive model, outstanding I/Os and internal disk are not published, so absolute ratios prove nothing: what
//! is judged is which is more.

use std::ops::RangeInclusive;

use lab_core::claim::{Measure, Outcome};
use lab_core::stats::Estimate;

use super::bar::{self, Row};
use super::results::{Layout, Pattern, Point, Results, Window};
use super::survey::{
    FITTED_ON, FITTED_TO, PUBLISHED_SERVERS, Predicted, Survey, layout_words, numbers_words, pattern_words,
};
use super::{boot, takeover};

const RAID5: Layout = Layout::Raid5x4;
const RAID1: Layout = Layout::Raid1x8;
const OWN: (Layout, u32) = (Layout::Internal, 1);

/// Everything that the run tells.
pub(crate) fn measures(survey: &Survey<'_>) -> Vec<Measure> {
    let results = survey.results;
    let all = orderings(survey).into_iter().chain(prediction(survey));
    let all = all.chain(boot::measures(results)).chain(takeover::measures(results));
    let in_real = |measure: Measure| match NEEDS_MODEL.iter().any(|id| measure.id().starts_with(id)) {
        true => measure.not_judged("in real time it is this machine's processor that ends it"),
        false => measure,
    };
    match survey.is_real() {
        true => all.map(in_real).collect(),
        false => all.collect(),
    }
}

/// Claims on the published controller, port and servers, predictions, boot storms, and a controller that is
/// lost: real ones are other ones.
const NEEDS_MODEL: [&str; 6] = ["controller", "port", "sequential_mix", "prediction", "boot", "takeover"];

/// What the published experiment says.
fn orderings(survey: &Survey<'_>) -> Vec<Measure> {
    let mut out = random(survey);
    out.extend(sequential(survey));
    out.extend(advice(survey));
    out
}

fn percent(e: Estimate) -> Estimate {
    e.scaled(100.0)
}

fn random(survey: &Survey<'_>) -> Vec<Measure> {
    use Pattern::{RandomRead, RandomWrite};
    let over = |pattern, layout, n| survey.over(pattern, (layout, n), OWN).map(percent);
    let eight = PUBLISHED_SERVERS;
    let fall = survey.over(RandomWrite, (RAID5, eight), (RAID5, 5)).map(percent);
    vec![
        Measure::new("random_read.raid5", over(RandomRead, RAID5, eight)),
        Measure::new("random_read.crossing", first_below(survey, RandomRead, RAID5)),
        Measure::new("random_read.raid1", over(RandomRead, RAID1, eight)),
        Measure::new("random_write.fall", fall),
        Measure::new("random_write.least", least_over_own(survey, RandomWrite, RAID5).map(percent)),
    ]
}

fn sequential(survey: &Survey<'_>) -> Vec<Measure> {
    use Pattern::{SequentialMix, SequentialRead, SequentialWrite};
    let eight = PUBLISHED_SERVERS;
    let least = |pattern| {
        let of_layouts = [RAID5, RAID1].into_iter().filter_map(|l| least_over_own(survey, pattern, l));
        least(of_layouts).map(percent)
    };
    let busy = survey.controller_busy(SequentialMix, RAID1, eight).mean().map(percent);
    let own = survey.over(SequentialMix, (RAID1, eight), OWN).map(percent);
    let ninth = survey.over(SequentialMix, (RAID1, eight + 1), (RAID1, eight)).map(percent);
    vec![
        Measure::new("sequential_read.least", least(SequentialRead)),
        Measure::new("sequential_write.least", least(SequentialWrite)),
        Measure::new("controller", busy),
        Measure::new("sequential_mix.own", own),
        Measure::new("sequential_mix.ninth", ninth),
        Measure::new("port", survey.port_mb_per_s(SequentialRead, RAID1, eight).mean()),
    ]
}

fn advice(survey: &Survey<'_>) -> Vec<Measure> {
    let spread = |layout| {
        let of = |_: &Point, w: &Window| {
            let most = w.server_iops.iter().copied().fold(0.0, f64::max);
            w.server_iops.iter().copied().fold(f64::INFINITY, f64::min) / most
        };
        survey.batches((Pattern::RandomRead, layout, 5), of).mean().map(percent)
    };
    let both = survey.over(Pattern::RandomRead, (RAID1, PUBLISHED_SERVERS), (RAID5, PUBLISHED_SERVERS));
    vec![
        Measure::new("layouts", both),
        Measure::new("spread.raid5", spread(RAID5)),
        Measure::new("spread.raid1", spread(RAID1)),
    ]
}

fn prediction(survey: &Survey<'_>) -> Vec<Measure> {
    let rows = bar::rows_of(survey);
    let near = PUBLISHED_SERVERS;
    let error = |id: &str, servers: RangeInclusive<u32>| {
        let worst = bar::worst(rows.iter().filter(|row| servers.contains(&row.servers)));
        let note = worst.map(|(row, error)| format!("the worst: {}: {:.1} %", place(row), 100.0 * error));
        Measure::new(id, worst.map(|(_, error)| Estimate::exact(100.0 * error))).note(note)
    };
    let share = |n: usize, of: usize| (of > 0).then(|| Estimate::exact(100.0 * n as f64 / of as f64));
    let least = bar::least_held(&rows);
    let band = Measure::new("prediction.band", least.and_then(|(_, within, of)| share(within, of)));
    let held = rows.iter().filter(|row| row.forecast.is_some()).count();
    let held_least = least.map(|(pattern, within, of)| {
        let pattern = pattern_words(pattern);
        format!(
            "the worst pattern: {pattern}, {within} of {of}; {held} points that were not fitted on in all"
        )
    });
    let failed: Vec<String> = survey.tried.iter().filter_map(refused).collect();
    let ramps = survey.tried.len();
    let whole = Measure::new("prediction.whole", share(ramps - failed.len(), ramps));
    let note = match failed.is_empty() {
        true => format!("{ramps} ramps"),
        false => format!("{ramps} ramps; refused: {}", failed.join("; ")),
    };
    let all = vec![
        error("prediction.between", 1..=FITTED_TO),
        error("prediction.near", FITTED_TO + 1..=near),
        error("prediction.far", near + 1..=u32::MAX),
        lost(survey.results),
        held_out(survey.results),
        held_out_refused(survey.results),
        band.note(held_least),
        whole.note(note),
    ];
    let is_run = |p: &Predicted| {
        let run = survey.servers(p.pattern, p.layout);
        FITTED_ON.iter().all(|n| run.contains(n))
    };
    let why = match survey.results.stopped {
        // What a prediction needs besides was perhaps not run any more.
        true => "the run was stopped before all its points".to_owned(),
        false if survey.tried.iter().all(is_run) => return all,
        false => format!("not all of {} servers were run", numbers_words(FITTED_ON)),
    };
    all.into_iter().map(|measure| measure.not_judged(&why)).collect()
}

/// How many forecasts of an array that has lost a drive are beyond the bar; one that is refused is not.
fn lost(results: &Results) -> Measure {
    let results = results.with_a_drive_lost();
    let survey = Survey::new(&results);
    let rows = bar::rows_of(&survey);
    let is_beyond = |row: &&Row| row.forecast.is_some_and(|held| held.error.abs() > bar::most_off(row));
    let beyond = rows.iter().filter(is_beyond).count();
    let refused = survey.tried.iter().find_map(|one| one.forecast.as_ref().err());
    let note = match (bar::worst(&rows), refused) {
        (Some((row, error)), _) => Some(format!("the worst: {}: {:.1} %", place(row), 100.0 * error)),
        (None, Some(refusal)) => Some(format!("refused: {refusal}")),
        (None, None) => None,
    };
    let measured = (!rows.is_empty()).then(|| Estimate::exact(beyond as f64));
    Measure::new("prediction.lost", measured).note(note)
}

/// How many forecasts of patterns that the method was not made with are beyond the bar.
fn held_out(results: &Results) -> Measure {
    let results = results.of_patterns_held_out();
    let rows = bar::rows_of(&Survey::new(&results));
    let is_beyond = |row: &&Row| row.forecast.is_some_and(|held| held.error.abs() > bar::most_off(row));
    let beyond = (!rows.is_empty()).then(|| Estimate::exact(rows.iter().filter(is_beyond).count() as f64));
    let worst = bar::worst(&rows);
    let note = worst.map(|(row, error)| format!("the worst: {}: {:.1} %", place(row), 100.0 * error));
    Measure::new("prediction.held_out", beyond).note(note)
}

/// How many of them are refused, in percent.
fn held_out_refused(results: &Results) -> Measure {
    let results = results.of_patterns_held_out();
    let survey = Survey::new(&results);
    let rows = bar::rows_of(&survey);
    let share = (!rows.is_empty()).then(|| Estimate::exact(100.0 * bar::refused(&rows)));
    let refused: Vec<String> = survey.tried.iter().filter_map(refused).collect();
    let note = (!refused.is_empty()).then(|| format!("refused: {}", refused.join("; ")));
    Measure::new("prediction.held_out_refused", share).note(note)
}

fn place(row: &Row) -> String {
    format!("{}, {}, {} servers", pattern_words(row.pattern), layout_words(row.layout), row.servers)
}

/// Why, stands where predictions are told.
fn refused(predicted: &super::survey::Predicted) -> Option<String> {
    let place = format!("{}, {}", pattern_words(predicted.pattern), layout_words(predicted.layout));
    match &predicted.forecast {
        Err(_) => Some(place),
        Ok(forecast) => match (&forecast.refused, forecast.gaps.first()) {
            (Some((from, _)), _) => Some(format!("{place}, from {from} on")),
            (None, Some((servers, _))) => Some(format!("{place}, {servers}")),
            (None, None) => None,
        },
    }
}

/// From how many servers on each gets less than from a disk of its own.
fn first_below(survey: &Survey<'_>, pattern: Pattern, layout: Layout) -> Outcome {
    let servers = survey.servers(pattern, layout).into_iter();
    let over: Vec<(u32, Estimate)> =
        servers.filter_map(|n| Some((n, survey.over(pattern, (layout, n), OWN)?))).collect();
    match over.iter().find(|(_, over)| over.mean < 1.0) {
        Some((n, _)) => Estimate::exact(f64::from(*n)).into(),
        None if over.is_empty() => None.into(),
        None => Outcome::Never(format!("never with up to {} servers", over.len())),
    }
}

/// The least of all numbers of servers up to the published eight.
fn least_over_own(survey: &Survey<'_>, pattern: Pattern, layout: Layout) -> Option<Estimate> {
    let servers = survey.servers(pattern, layout).into_iter().filter(|n| *n <= PUBLISHED_SERVERS);
    least(servers.filter_map(|n| survey.over(pattern, (layout, n), OWN)))
}

/// The least of them. Any of them may be it: one that is surely short is not hidden by one that may be
/// shorter, nor one that may be short by one that surely is not.
fn least(all: impl Iterator<Item = Estimate>) -> Option<Estimate> {
    all.reduce(|a, b| Estimate { low: a.low.min(b.low), mean: a.mean.min(b.mean), high: a.high.min(b.high) })
}

#[cfg(test)]
mod tests {
    use lab_core::bound::{Bound, Lies};

    use super::*;

    /// The one with the least mean alone was judged: the wider one beside it, and the one that is surely
    /// short, were not.
    #[test]
    fn every_number_of_servers_may_be_the_least() {
        let judge = |all: [(f64, f64); 2]| {
            let of = |(low, high): (f64, f64)| Estimate { mean: (low + high) / 2.0, low, high };
            Bound::at_least(1.0).lies(&least(all.into_iter().map(of)).expect("two"))
        };
        assert_eq!(judge([(1.05, 1.15), (0.9, 1.5)]), Some(Lies::Across), "the second may be short");
        assert_eq!(judge([(0.5, 1.1), (0.9, 0.95)]), Some(Lies::Beyond), "the second is short");
        assert_eq!(judge([(1.05, 1.15), (1.0, 1.5)]), Some(Lies::Within));
    }
}
