//! What judged points say together.

use super::decide::{Better, Decider, Factor, deciders};
use super::design::{Design, Point};
use super::record::{AloneRecord, ClaimRecord, DeciderRecord, RangeRecord, ShareRecord, SweepRecord};
use crate::claim::{JudgedClaim, Kind};
use crate::scenario::frame::Frame;
use crate::verdict::{Counts, Verdict};

/// A point that was run, and its claims.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) point: Point,
    pub(super) claims: Vec<JudgedClaim>,
}

/// How a sweep went, besides its points.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    /// Why points were left out.
    pub(super) refused: Vec<String>,
    pub(super) stopped: bool,
}

/// Most of the inputs that decide a claim.
const DECIDERS_MAX: usize = 3;

/// The record of a sweep.
pub(super) fn summary(frame: &Frame, all: &[Judged], ended: &Ended) -> SweepRecord {
    let count = |of: fn(Design) -> bool| all.iter().filter(|judged| of(judged.point.design)).count();
    let range = |range: &crate::scenario::range::Range| RangeRecord {
        input: range.input.clone(),
        own: range.own.shown.clone(),
        values: range.words(),
        why: range.why.clone(),
        against: range.against_words(),
    };
    SweepRecord {
        together: count(|d| d == Design::Together),
        beyond: count(|d| d == Design::Beyond),
        alone: count(|d| matches!(d, Design::Alone(_))),
        refused: ended.refused.len(),
        refusal: ended.refused.first().cloned(),
        stopped: ended.stopped,
        ranges: frame.ranges.iter().map(range).collect(),
        claims: emerging(all).iter().map(|first| claim(frame, all, first)).collect(),
    }
}

/// The claims that could have failed, each once: a place that only some points have is there, too.
fn emerging(all: &[Judged]) -> Vec<&JudgedClaim> {
    let mut out: Vec<&JudgedClaim> = Vec::new();
    for claim in all.iter().flat_map(|judged| &judged.claims).filter(|claim| claim.kind == Kind::Emerges) {
        if !out.iter().any(|other| other.id == claim.id) {
            out.push(claim);
        }
    }
    out
}

fn claim(frame: &Frame, all: &[Judged], first: &JudgedClaim) -> ClaimRecord {
    let of = |judged: &'_ Judged| judged.claims.iter().find(|claim| claim.id == first.id).cloned();
    let those = |design: fn(Design) -> bool| -> Vec<(&Point, JudgedClaim)> {
        let those = all.iter().filter(|judged| design(judged.point.design));
        those.filter_map(|judged| Some((&judged.point, of(judged)?))).collect()
    };
    let own = those(|d| d == Design::Scenario).pop().map(|(_, claim)| claim);
    let (together, beyond) = (those(|d| d == Design::Together), those(|d| d == Design::Beyond));
    let alone = those(|d| matches!(d, Design::Alone(_)));
    ClaimRecord {
        id: first.id.clone(),
        name: first.name.clone(),
        about: first.about,
        unit: first.unit.clone(),
        bound: first.bound,
        verdict: own.as_ref().map(|claim| claim.verdict),
        estimate: own.as_ref().and_then(|claim| claim.estimate),
        decided_by: decided_by(frame, &together),
        together: share(&together),
        beyond: (!beyond.is_empty()).then(|| share(&beyond)),
        alone: alone
            .into_iter()
            .filter(|(_, claim)| own.as_ref().is_some_and(|own| own.verdict != claim.verdict))
            .filter_map(|(point, claim)| alone_record(frame, point, &claim))
            .collect(),
    }
}

fn alone_record(frame: &Frame, point: &Point, claim: &JudgedClaim) -> Option<AloneRecord> {
    let Design::Alone(place) = point.design else { return None };
    let value = &point.values[place];
    Some(AloneRecord {
        input: frame.ranges[place].input.clone(),
        value: value.shown.clone(),
        verdict: claim.verdict,
        estimate: claim.estimate,
        against: value.against.clone(),
    })
}

fn share(points: &[(&Point, JudgedClaim)]) -> ShareRecord {
    let counts = Counts::of(points.iter().map(|(_, claim)| claim));
    let estimates = || points.iter().filter_map(|(_, claim)| claim.estimate);
    ShareRecord {
        counts,
        held_percent: (counts.judged() > 0).then(|| 100.0 * counts.held as f64 / counts.judged() as f64),
        least: estimates().min_by(f64::total_cmp),
        most: estimates().max_by(f64::total_cmp),
    }
}

/// How far an estimate lies inside of its bound; less than nothing outside. What never came is the worst.
fn margin(claim: &JudgedClaim) -> Option<f64> {
    if claim.verdict == Verdict::NotJudged {
        return None;
    }
    let bound = claim.bound?;
    let Some(estimate) = claim.estimate else { return Some(f64::NEG_INFINITY) };
    let lower = bound.lower.map(|end| estimate - end.value);
    let upper = bound.upper.map(|end| end.value - estimate);
    lower.into_iter().chain(upper).min_by(f64::total_cmp)
}

/// Where every point gives the same verdict nothing is decided.
fn decided_by(frame: &Frame, points: &[(&Point, JudgedClaim)]) -> Vec<DeciderRecord> {
    let judged: Vec<(&Point, f64, Verdict)> =
        points.iter().filter_map(|(point, claim)| Some((*point, margin(claim)?, claim.verdict))).collect();
    if judged.iter().all(|(.., verdict)| *verdict == judged[0].2) {
        return vec![];
    }
    let factor = |(place, range): (usize, &crate::scenario::range::Range)| Factor {
        input: range.input.clone(),
        values: judged.iter().map(|(point, ..)| point.values[place].at).collect(),
        is_ordered: range.is_ordered(),
    };
    let factors: Vec<Factor> = frame.ranges.iter().enumerate().map(factor).collect();
    let margins: Vec<f64> = judged.iter().map(|(_, margin, _)| *margin).collect();
    let words = |decider: &Decider| match decider.better {
        Better::More => Some("more".to_owned()),
        Better::Less => Some("less".to_owned()),
        Better::Mixed => None,
        Better::At(at) => {
            let mut values = judged.iter().map(|(point, ..)| &point.values[decider.factor]);
            values.find(|value| value.at == at).map(|value| value.shown.clone())
        }
    };
    let found = deciders(&factors, &margins);
    let record = |decider: &Decider| DeciderRecord {
        input: factors[decider.factor].input.clone(),
        share_percent: 100.0 * decider.share,
        better: words(decider),
    };
    found.iter().take(DECIDERS_MAX).map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::super::design::points;
    use super::*;
    use crate::bound::Bound;
    use crate::claim::{About, judged_claim};

    const SCENARIO: &str = "[a]\nx = 50\ny = \"k\"\n\
        [[range]]\ninput = \"a.x\"\nlow = 0\nhigh = 100\nwhy = \"w\"\n\
        [[range]]\ninput = \"a.y\"\nvalues = [\"k\", \"l\"]\nwhy = \"w\"\n";

    /// A claim that x is at most 75, and one of arithmetic.
    fn judged(point: Point) -> Judged {
        let x = point.values[0].at;
        let verdict = if x <= 75.0 { Verdict::Held } else { Verdict::NotHeld };
        let of = |id: &str, kind, verdict| JudgedClaim {
            bound: Some(Bound::at_most(75.0)),
            estimate: Some(x),
            ..judged_claim(id, About::Published, kind, verdict)
        };
        let claims = vec![
            of("low", Kind::Emerges, verdict),
            of("sum", Kind::Follows, Verdict::Held),
            JudgedClaim { estimate: None, ..of("dark", Kind::Emerges, Verdict::NotJudged) },
        ];
        Judged { point, claims }
    }

    #[test]
    fn a_claim_has_its_share_its_range_and_the_input_that_decides_it() {
        let frame = Frame::read(SCENARIO, "x.toml").expect("a scenario");
        let (all, _) = points(&frame, 64, |_| None);
        let all: Vec<Judged> = all.into_iter().map(judged).collect();
        let record = summary(&frame, &all, &Ended::default());
        assert_eq!((record.together, record.beyond, record.alone), (64, 0, 3));
        let [low, dark] = &record.claims[..] else { panic!("what follows is none of them: {record:?}") };
        // 64 of 101 values in equal parts: 48 of them are at most 75.
        assert_eq!((low.together.counts.held, low.together.counts.not_held), (48, 16));
        assert_eq!((low.together.least, low.together.most), (Some(0.0), Some(100.0)));
        assert_eq!(low.decided_by.len(), 1, "{low:?}");
        assert_eq!(
            (low.decided_by[0].input.as_str(), low.decided_by[0].better.as_deref()),
            ("a.x", Some("less"))
        );
        assert_eq!(low.alone.len(), 1);
        assert_eq!((low.alone[0].value.as_str(), low.alone[0].verdict), ("100", Verdict::NotHeld));
        assert_eq!((dark.together.held_percent, dark.decided_by.len(), dark.alone.len()), (None, 0, 0));
    }
}
