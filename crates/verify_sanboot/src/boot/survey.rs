//! What the storms of a run say: times of all repeats, and what clones give over copies.

use lab_core::claim::Measure;
use lab_core::stats::{self, Estimate};

use crate::results::{Form, Layout, Results, Storm};
use crate::survey::layout_words;

/// Storms that are alike but for their repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) layout: Layout,
    pub(super) form: Form,
    pub(super) servers: u32,
}

impl Place {
    /// Those of a run, each once, in the order of the results.
    pub(super) fn all(results: &Results) -> Vec<Place> {
        let of = |s: &Storm| Place { layout: s.layout, form: s.form, servers: s.servers };
        let mut all: Vec<Place> = results.storms.iter().map(of).collect();
        all.dedup();
        all
    }

    /// Something of each repeat.
    pub(super) fn values(self, results: &Results, of: impl Fn(&Storm) -> f64) -> Vec<f64> {
        let is = |s: &&Storm| (s.layout, s.form, s.servers) == (self.layout, self.form, self.servers);
        results.storms.iter().filter(is).map(of).collect()
    }

    /// "RAID5 × 4, clones, 64 servers".
    fn words(self) -> String {
        format!("{}, {}, {} servers", layout_words(self.layout), self.form.words(), self.servers)
    }
}

/// Seconds from power-on until the last server runs.
pub(super) fn last_s(storm: &Storm) -> f64 {
    storm.up_s.iter().copied().fold(0.0, f64::max)
}

/// Seconds from power-on until half of the servers run.
pub(super) fn median_s(storm: &Storm) -> f64 {
    stats::median(&storm.up_s).unwrap_or(0.0)
}

/// How many times one is of the other, repeat by repeat, which have the same servers; a single repeat is what
/// this seed gives.
fn ratio(results: &Results, a: Place, b: Place, of: fn(&Storm) -> f64) -> Option<Estimate> {
    let [a, b] = [a, b].map(|place| place.values(results, of));
    let each: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a / b).collect();
    match &each[..] {
        [] => None,
        [one] => Some(Estimate::exact(*one)),
        all => Some(stats::mean(all)),
    }
}

/// The worst of several, by the end that decides: the highest where more is worse, else the lowest.
fn worst(all: Vec<(String, Estimate)>, is_more_worse: bool) -> (Option<Estimate>, Option<String>) {
    let by = |e: &Estimate| if is_more_worse { e.mean } else { -e.mean };
    let note = all.iter().max_by(|a, b| by(&a.1).total_cmp(&by(&b.1)));
    let note = note.map(|(place, e)| format!("the worst: {place}: {:.1} %", e.mean));
    // Any of them may be it: one that is surely beyond the bound is not hidden by one that may be worse.
    let over = |a: f64, b: f64| if is_more_worse { a.max(b) } else { a.min(b) };
    let of_all = all.into_iter().map(|(_, e)| e).reduce(|a, b| Estimate {
        low: over(a.low, b.low),
        mean: over(a.mean, b.mean),
        high: over(a.high, b.high),
    });
    (of_all, note)
}

/// What was measured for the claims.
pub(crate) fn measures(results: &Results) -> Vec<Measure> {
    let places = Place::all(results);
    let most = places.iter().map(|place| place.servers).max().unwrap_or(0);
    // What masu promises is what its pools are unless they are declared otherwise.
    let clones = || places.iter().copied().filter(|place| place.form == Form::Clones);
    let against_copies = |of: fn(&Storm) -> f64, least: u32| {
        let all = clones().filter(|place| place.servers >= least).filter_map(|place| {
            let ratio = ratio(results, place, Place { form: Form::Copies, ..place }, of)?;
            Some((place.words(), ratio.scaled(100.0)))
        });
        worst(all.collect(), true)
    };
    let grown = places.windows(2).filter_map(|pair| {
        let (few, many) = (pair[0], pair[1]);
        let is_next = (few.layout, few.form) == (many.layout, many.form);
        let ratio = ratio(results, many, few, last_s).filter(|_| is_next)?;
        Some((many.words(), ratio.scaled(100.0)))
    });
    let measure = |id: &str, (worst, note): (Option<Estimate>, Option<String>)| {
        let measure = Measure::new(id, worst).note(note);
        match results.stopped {
            true => measure.not_judged("the run was stopped before all its storms"),
            false => measure,
        }
    };
    vec![
        measure("boot.clones", against_copies(last_s, 1)),
        measure("boot.grows", worst(grown.collect(), false)),
        measure("boot.reads", against_copies(|storm| storm.drive_read_bytes as f64, most)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{results, storm};
    use lab_core::claim::Outcome;

    fn measured(results: &Results, id: &str) -> Measure {
        measures(results).into_iter().find(|measure| measure.id() == id).expect("measured")
    }

    /// One number of servers where clones are slower decides, whatever the others give.
    #[test]
    fn the_worst_storm_decides_each_claim() {
        let mut results = results();
        for (form, times) in [(Form::Copies, [10.0, 12.0, 20.0]), (Form::Clones, [10.0, 15.0, 18.0])] {
            for (servers, last) in [1, 8, 64].into_iter().zip(times) {
                let read = if form == Form::Clones { 30 } else { 20 };
                results.storms.push(storm(Layout::Raid5x4, form, servers, (last, read)));
            }
        }
        let of = |id| measured(&results, id);
        assert_eq!(of("boot.clones").outcome(), &Estimate::exact(125.0).into());
        // Copies: 12 of 10 and 20 of 12; clones: 15 of 10 and 18 of 15. Not 10 of 20 between the forms.
        assert_eq!(of("boot.grows").outcome(), &Estimate::exact(120.0).into());
        assert_eq!(of("boot.reads").outcome(), &Estimate::exact(150.0).into());
        results.storms.retain(|storm| storm.form == Form::Copies);
        assert_eq!(measured(&results, "boot.clones").outcome(), &None.into());
    }

    /// Their means over repeats gave an interval of what repeats differ by, which is none of what the array
    /// does.
    #[test]
    fn repeats_are_compared_one_by_one() {
        let mut results = results();
        for (form, times) in [(Form::Copies, [10.0, 20.0]), (Form::Clones, [11.0, 22.0])] {
            for (repeat, last) in (0..).zip(times) {
                results.storms.push(Storm { repeat, ..storm(Layout::Raid5x4, form, 8, (last, 20)) });
            }
        }
        let Outcome::Estimate(found) = measured(&results, "boot.clones").outcome().clone() else {
            panic!("not measured")
        };
        assert!((found.mean - 110.0).abs() < 1e-9 && found.high - found.low < 1e-6, "{found:?}");
    }

    #[test]
    fn the_last_and_the_median_are_those_of_a_storm() {
        let storm = Storm { up_s: vec![3.0, 1.0, 2.0], ..storm(Layout::Raid1x8, Form::Copies, 3, (1.0, 1)) };
        assert_eq!((last_s(&storm), median_s(&storm)), (3.0, 2.0));
    }
}
