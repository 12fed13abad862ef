//! What the runs with two controllers say, for the claims.

use lab_core::claim::{Measure, Outcome};
use lab_core::stats::Estimate;

use crate::results::{Pattern, Results, Takeover, Way};
use crate::survey::{PUBLISHED_SERVERS, pattern_words};

/// What one controller alone gives of what two did.
pub(super) fn of_before(one: &Takeover) -> f64 {
    one.after.all_iops() / one.before.all_iops().max(1.0)
}

/// One controller carries servers that get at least this share of what they got from two.
pub(super) const CARRIED: f64 = 0.95;

/// The most servers that one controller alone carries, of those that were run: up to the first that are too
/// many.
pub(super) fn carried<'a>(all: impl Iterator<Item = &'a Takeover>) -> Option<u32> {
    let mut known: Vec<(u32, bool)> = all.map(|one| (one.servers, of_before(one) >= CARRIED)).collect();
    known.sort_unstable();
    known.iter().take_while(|(_, carried)| *carried).last().map(|(servers, _)| *servers)
}

/// "controller of system disks killed, random 75/25, 8 servers".
pub(super) fn place(one: &Takeover) -> String {
    let (goes, way) = (one.goes.words(), one.way.words());
    format!("controller of {goes} {way}, {}, {} servers", pattern_words(one.pattern), one.servers)
}

/// What was measured for the claims.
pub(crate) fn measures(results: &Results) -> Vec<Measure> {
    let all = || results.takeovers.iter();
    let is_lost = |one: &&Takeover| one.way != Way::Moved;
    let worst = |id: &str, own: Vec<&Takeover>, of: &dyn Fn(&Takeover) -> f64| {
        let worst = own.into_iter().max_by(|a, b| of(a).total_cmp(&of(b)));
        let note = worst.map(|one| format!("the worst: {}", place(one)));
        Measure::new(id, worst.map(|one| Estimate::exact(of(one)))).note(note)
    };
    let published = |pattern: Pattern| -> Vec<&Takeover> {
        let is_of = |one: &&Takeover| one.pattern == pattern && one.servers == PUBLISHED_SERVERS;
        all().filter(is_lost).filter(is_of).collect()
    };
    let wrong: u64 = all().map(|one| one.wrong).sum();
    let read_back: u64 = all().map(|one| one.read_back).sum();
    let written: u64 = all().map(|one| one.written).sum();
    let blocks = (!results.takeovers.is_empty()).then(|| Estimate::exact(wrong as f64));
    let note = format!("{written} writes acknowledged, {read_back} blocks read again at the end");
    let percent = |one: &Takeover| 100.0 * of_before(one);
    let least = published(Pattern::RandomMix).into_iter().map(percent).reduce(f64::min);
    let moved =
        worst("takeover.moved", all().filter(|one| one.way == Way::Moved).collect(), &|one| one.gap_s);
    let refused = all().find_map(|one| Some((one, one.refused.as_ref()?)));
    let moved = match refused {
        Some((one, why)) => {
            Measure::new("takeover.moved", Outcome::Refuted(format!("refused: {}: {why}", place(one))))
        }
        None => moved,
    };
    let out = vec![
        worst("takeover.gap", all().filter(is_lost).collect(), &|one| one.gap_s),
        worst("takeover.others", all().collect(), &|one| one.gap_other_s),
        moved,
        Measure::new("takeover.wrong", blocks).note(Some(note)),
        Measure::new("takeover.random", least.map(Estimate::exact)),
        worst("takeover.sequential", published(Pattern::SequentialMix), &percent),
    ];
    match results.stopped {
        true => out.into_iter().map(so_far).collect(),
        false => out,
    }
}

/// What was wrong is wrong, whatever was not run any more.
fn so_far(measure: Measure) -> Measure {
    let is_wrong = |e: &Estimate| measure.id() == "takeover.wrong" && e.mean > 0.0;
    match measure.outcome() {
        Outcome::Estimate(estimate) if is_wrong(estimate) => measure,
        _ => measure.not_judged("the run was stopped before all its points"),
    }
}
