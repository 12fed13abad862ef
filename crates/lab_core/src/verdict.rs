//! The one verdict: of a claim, and of a run.

use serde::{Deserialize, Serialize};

use crate::bound::{Bound, Lies};
use crate::claim::{About, JudgedClaim, Kind, Outcome};

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// The whole interval keeps to the bound.
    #[serde(rename = "held")]
    Held,
    /// The whole interval is beyond the bound.
    #[serde(rename = "not held")]
    NotHeld,
    /// The bound lies in the interval, or the scenario claims what was never measured.
    #[serde(rename = "undecided")]
    Undecided,
    /// The interval is beyond the bound, but the machine was disturbed; or keeps to it, but the run was
    /// stopped.
    #[serde(rename = "in doubt")]
    InDoubt,
    /// Nothing was measured, for a reason.
    #[serde(rename = "not judged")]
    NotJudged,
}

impl Verdict {
    /// In the words of a report.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::NotHeld => "not held",
            Verdict::Undecided => "undecided",
            Verdict::InDoubt => "in doubt",
            Verdict::NotJudged => "not judged",
        }
    }
}

/// Judges a claim. Gives why, where the number alone does not say it. `disturbed`: others used the machine,
/// and what is measured depends on it.
///
/// What keeps to its bound on a disturbed machine is held, for disturbance adds to times; what misses it may
/// be the disturbance's work. A claim that compares two times is looked at again (`claim.rs`): the longer one
/// may be it, too.
pub fn verdict(bound: Option<&Bound>, outcome: &Outcome, disturbed: bool) -> (Verdict, Option<String>) {
    let doubtful = || (Verdict::InDoubt, Some("others used this machine meanwhile".to_owned()));
    match (outcome, bound) {
        (Outcome::NotMeasured(why), _) => (Verdict::NotJudged, Some(why.clone())),
        (Outcome::Missing(why), Some(_)) => (Verdict::Undecided, Some(why.clone())),
        (_, None) => (Verdict::NotJudged, Some("the bound was not measured".into())),
        (Outcome::Never(_) | Outcome::Refuted(_), Some(_)) if disturbed => doubtful(),
        (Outcome::Never(why) | Outcome::Refuted(why), Some(_)) => (Verdict::NotHeld, Some(why.clone())),
        (Outcome::Estimate(estimate), Some(bound)) => match bound.lies(estimate) {
            None => (Verdict::Undecided, Some("what was measured is not a number".into())),
            Some(Lies::Within) if estimate.mean.is_finite() => (Verdict::Held, None),
            Some(Lies::Within) => (Verdict::Undecided, Some("what was measured has no end".into())),
            Some(Lies::Across) => (Verdict::Undecided, Some("the bound lies in the interval".into())),
            Some(Lies::Beyond) if disturbed => doubtful(),
            Some(Lies::Beyond) => (Verdict::NotHeld, None),
        },
    }
}

/// What becomes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// Every claim that was judged is held.
    #[serde(rename = "held")]
    Held,
    /// A promise is not held.
    #[serde(rename = "not held")]
    NotHeld,
    /// No promise is refuted, and some claims are undecided.
    #[serde(rename = "undecided")]
    Undecided,
    /// The run was stopped, or the machine was disturbed.
    #[serde(rename = "in doubt")]
    InDoubt,
    /// The promises are held, and a published statement did not come out.
    #[serde(rename = "not reproduced")]
    NotReproduced,
    /// Nothing was judged.
    #[serde(rename = "not judged")]
    NotJudged,
}

impl Standing {
    /// In the words of a report.
    pub fn words(self) -> &'static str {
        match self {
            Standing::Held => "held",
            Standing::NotHeld => "not held",
            Standing::Undecided => "undecided",
            Standing::InDoubt => "in doubt",
            Standing::NotReproduced => "not reproduced",
            Standing::NotJudged => "not judged",
        }
    }
}

/// How many claims there are of each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Counts {
    pub held: usize,
    pub not_held: usize,
    pub undecided: usize,
    pub in_doubt: usize,
    pub not_judged: usize,
}

impl Counts {
    pub(crate) fn of<'a>(claims: impl Iterator<Item = &'a JudgedClaim>) -> Counts {
        let mut counts = Counts::default();
        for claim in claims {
            *match claim.verdict {
                Verdict::Held => &mut counts.held,
                Verdict::NotHeld => &mut counts.not_held,
                Verdict::Undecided => &mut counts.undecided,
                Verdict::InDoubt => &mut counts.in_doubt,
                Verdict::NotJudged => &mut counts.not_judged,
            } += 1;
        }
        counts
    }

    /// With those of another run.
    fn add(&mut self, other: &Counts) {
        self.held += other.held;
        self.not_held += other.not_held;
        self.undecided += other.undecided;
        self.in_doubt += other.in_doubt;
        self.not_judged += other.not_judged;
    }

    /// Claims that were judged.
    pub fn judged(&self) -> usize {
        self.held + self.not_held + self.undecided + self.in_doubt
    }
}

/// The claims of a run, counted: promises and published statements apart, and of these what emerges; what was
/// put in or follows is never counted as held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Promises that emerge.
    pub promises: Counts,
    /// Published statements that emerge.
    pub published: Counts,
    /// What follows from the inputs by arithmetic.
    pub follows: Counts,
    /// What an input was calibrated to.
    pub put_in: Counts,
}

impl Tally {
    /// Counts.
    pub fn of(claims: &[JudgedClaim]) -> Tally {
        let of = |kind: Kind| claims.iter().filter(move |claim| claim.kind == kind);
        let emerging = |about: About| Counts::of(of(Kind::Emerges).filter(move |claim| claim.about == about));
        Tally {
            promises: emerging(About::Promise),
            published: emerging(About::Published),
            follows: Counts::of(of(Kind::Follows)),
            put_in: Counts::of(of(Kind::PutIn)),
        }
    }

    /// With those of another run.
    pub fn add(&mut self, other: &Tally) {
        self.promises.add(&other.promises);
        self.published.add(&other.published);
        self.follows.add(&other.follows);
        self.put_in.add(&other.put_in);
    }

    /// "promises: 31 of 31 held; published: 52 reproduced, 6 not, 4 undecided; 3 put in, 1 follows".
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        let (promises, published) = (&self.promises, &self.published);
        if promises.judged() > 0 {
            let rest = rest(&[
                (promises.not_held, "not held"),
                (promises.undecided, "undecided"),
                (promises.in_doubt, "in doubt"),
            ]);
            parts.push(format!("promises: {} of {} held{rest}", promises.held, promises.judged()));
        }
        if published.judged() > 0 {
            let rest = rest(&[
                (published.not_held, "not"),
                (published.undecided, "undecided"),
                (published.in_doubt, "in doubt"),
            ]);
            parts.push(format!("published: {} reproduced{rest}", published.held));
        }
        let shown = |counts: &Counts| counts.judged();
        let open = |counts: &Counts| rest(&[(counts.undecided, "undecided"), (counts.in_doubt, "in doubt")]);
        let missed = rest(&[(self.put_in.not_held, "missed")]) + &open(&self.put_in);
        let mut apart = Vec::new();
        if shown(&self.put_in) > 0 {
            apart.push(format!("{} put in{missed}", shown(&self.put_in)));
        }
        if shown(&self.follows) > 0 {
            let failed = rest(&[(self.follows.not_held, "wrong")]) + &open(&self.follows);
            let follow = if shown(&self.follows) == 1 { "follows" } else { "follow" };
            apart.push(format!("{} {follow} from inputs{failed}", shown(&self.follows)));
        }
        let not_judged =
            [promises, published, &self.follows, &self.put_in].iter().map(|c| c.not_judged).sum::<usize>();
        if not_judged > 0 {
            apart.push(format!("{not_judged} not judged"));
        }
        parts.extend((!apart.is_empty()).then(|| apart.join(", ")));
        if parts.is_empty() { "no claims".into() } else { parts.join("; ") }
    }
}

/// ", 6 not, 4 undecided": of these what there is.
fn rest(counts: &[(usize, &str)]) -> String {
    counts.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!(", {n} {words}")).collect()
}

/// Whether a promise could have failed, and this became of it: what was put in or follows decides nothing.
fn has_promise(claims: &[JudgedClaim], verdict: Verdict) -> bool {
    let mut promises = claims.iter().filter(|c| c.about == About::Promise && c.kind == Kind::Emerges);
    promises.any(|c| c.verdict == verdict)
}

/// Judges a run by its claims. `stopped`: before its end.
pub fn standing(claims: &[JudgedClaim], stopped: bool) -> Standing {
    let has = |about: About, verdict: Verdict| match about {
        About::Promise => has_promise(claims, verdict),
        About::Published => claims.iter().any(|c| c.about == about && c.verdict == verdict),
    };
    let any = |verdict: Verdict| has(About::Promise, verdict) || has(About::Published, verdict);
    match () {
        () if has(About::Promise, Verdict::NotHeld) => Standing::NotHeld,
        () if stopped || has(About::Promise, Verdict::InDoubt) => Standing::InDoubt,
        () if has(About::Promise, Verdict::Undecided) => Standing::Undecided,
        () if has(About::Published, Verdict::NotHeld) => Standing::NotReproduced,
        () if any(Verdict::InDoubt) => Standing::InDoubt,
        () if any(Verdict::Undecided) => Standing::Undecided,
        () if any(Verdict::Held) => Standing::Held,
        () => Standing::NotJudged,
    }
}

/// The exit status of a run: 0 when every promise that was judged is held, 1 when one is not, 3 when none is
/// refuted and some are undecided or in doubt, nothing was judged, or the run was stopped. That the run could
/// not be done at all is 2, and said elsewhere.
pub fn exit_status(claims: &[JudgedClaim], stopped: bool) -> u8 {
    let of_promises = |verdict: Verdict| has_promise(claims, verdict);
    let nothing = claims.iter().all(|claim| claim.verdict == Verdict::NotJudged);
    match () {
        () if of_promises(Verdict::NotHeld) => 1,
        () if stopped || nothing || of_promises(Verdict::Undecided) || of_promises(Verdict::InDoubt) => 3,
        () => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::End;
    use crate::claim::judged_claim;
    use crate::stats::Estimate;

    fn between(low: f64, high: f64) -> Outcome {
        Outcome::Estimate(Estimate { mean: (low + high) / 2.0, low, high })
    }

    fn alone(mean: f64) -> Outcome {
        Outcome::Estimate(Estimate { mean, low: f64::NEG_INFINITY, high: f64::INFINITY })
    }

    fn strict(lower: Option<f64>, upper: Option<f64>) -> Bound {
        let end = |value: f64| End { value, strict: true };
        Bound { lower: lower.map(end), upper: upper.map(end) }
    }

    fn from_to(low: f64, high: f64) -> Bound {
        Bound { upper: Bound::at_most(high).upper, ..Bound::at_least(low) }
    }

    /// The one table: a bound, what was measured, the verdict on a quiet machine and on a disturbed one.
    #[test]
    fn a_claim_is_judged_by_its_whole_interval() {
        use Verdict::{Held, InDoubt, NotHeld, NotJudged, Undecided};
        let nan = Outcome::Estimate(Estimate::exact(f64::NAN));
        let infinite = Outcome::Estimate(Estimate::exact(f64::INFINITY));
        for (bound, outcome, quiet, disturbed) in [
            (Bound::at_least(95.0), between(95.0, 97.0), Held, Held),
            (Bound::at_least(95.0), between(94.9, 97.0), Undecided, Undecided),
            (Bound::at_least(95.0), between(90.0, 94.9), NotHeld, InDoubt),
            (Bound::at_least(95.0), between(90.0, 95.0), Undecided, Undecided),
            (strict(Some(95.0), None), between(95.0, 97.0), Undecided, Undecided),
            (strict(Some(95.0), None), between(95.1, 97.0), Held, Held),
            (strict(Some(95.0), None), between(90.0, 95.0), NotHeld, InDoubt),
            (Bound::at_most(5.0), between(4.0, 5.0), Held, Held),
            (Bound::at_most(5.0), between(4.0, 6.0), Undecided, Undecided),
            (strict(None, Some(4.0)), between(4.0, 6.0), NotHeld, InDoubt),
            (from_to(3.0, 7.0), between(4.0, 6.0), Held, Held),
            (from_to(3.0, 5.5), between(4.0, 6.0), Undecided, Undecided),
            (from_to(4.5, 5.5), between(4.0, 6.0), Undecided, Undecided),
            (from_to(7.0, 9.0), between(4.0, 6.0), NotHeld, InDoubt),
            // A value that was counted, or measured once, decides by itself, at the bound, too.
            (Bound::at_most(0.0), Outcome::Estimate(Estimate::exact(0.0)), Held, Held),
            (strict(Some(0.0), None), Outcome::Estimate(Estimate::exact(0.0)), NotHeld, InDoubt),
            (Bound::at_least(95.0), alone(95.0), Held, Held),
            (Bound::at_least(95.0), alone(94.0), NotHeld, InDoubt),
            (Bound::at_most(60.0), infinite.clone(), NotHeld, InDoubt),
            (Bound::at_least(60.0), infinite.clone(), Undecided, Undecided),
            (Bound::at_most(60.0), nan, Undecided, Undecided),
            (Bound::at_most(60.0), Outcome::Never("no event".into()), NotHeld, InDoubt),
            (Bound::at_most(60.0), Outcome::Refuted("an I/O failed".into()), NotHeld, InDoubt),
            (Bound::at_most(60.0), Outcome::NotMeasured("stopped".into()), NotJudged, NotJudged),
            // A claim of one's own that was never measured is not dropped: nobody knows whether it is held.
            (Bound::at_most(60.0), Outcome::Missing("no I/O ended".into()), Undecided, Undecided),
        ] {
            let judged = |disturbed| verdict(Some(&bound), &outcome, disturbed).0;
            assert_eq!((judged(false), judged(true)), (quiet, disturbed), "{bound:?} {outcome:?}");
        }
        assert_eq!(verdict(None, &between(1.0, 2.0), false).0, NotJudged);
    }

    /// The one table of runs: its claims, whether it was stopped, its verdict and exit status.
    #[test]
    fn promises_decide_the_exit_status_and_all_claims_the_verdict() {
        use About::{Promise, Published};
        use Verdict::{Held, InDoubt, NotHeld, NotJudged, Undecided};
        for (claims, stopped, is, status) in [
            (&[(Promise, Held), (Published, Held)][..], false, Standing::Held, 0),
            (&[(Promise, Held), (Promise, NotJudged)], false, Standing::Held, 0),
            (&[(Promise, Held), (Published, Undecided)], false, Standing::Undecided, 0),
            (&[(Promise, Held), (Published, NotHeld)], false, Standing::NotReproduced, 0),
            (&[(Promise, Held), (Published, InDoubt)], false, Standing::InDoubt, 0),
            (&[(Promise, Undecided), (Published, NotHeld)], false, Standing::Undecided, 3),
            (&[(Promise, InDoubt), (Promise, Undecided)], false, Standing::InDoubt, 3),
            (&[(Promise, NotHeld), (Promise, InDoubt)], true, Standing::NotHeld, 1),
            (&[(Promise, Held)], true, Standing::InDoubt, 3),
            (&[(Promise, NotJudged)], false, Standing::NotJudged, 3),
            (&[], false, Standing::NotJudged, 3),
        ] {
            let of = |(about, verdict): &(About, Verdict)| judged_claim("a", *about, Kind::Emerges, *verdict);
            let judged: Vec<JudgedClaim> = claims.iter().map(of).collect();
            assert_eq!(
                (standing(&judged, stopped), exit_status(&judged, stopped)),
                (is, status),
                "{claims:?}"
            );
        }
    }

    #[test]
    fn what_was_put_in_or_follows_is_never_counted_as_held() {
        use About::{Promise, Published};
        let claims = [
            judged_claim("a", Promise, Kind::Emerges, Verdict::Held),
            judged_claim("a", Published, Kind::Emerges, Verdict::Held),
            judged_claim("a", Published, Kind::Emerges, Verdict::NotHeld),
            judged_claim("a", Published, Kind::Emerges, Verdict::Undecided),
            judged_claim("a", Published, Kind::PutIn, Verdict::Held),
            judged_claim("a", Published, Kind::PutIn, Verdict::NotHeld),
            judged_claim("a", Published, Kind::Follows, Verdict::Held),
            judged_claim("a", Promise, Kind::Emerges, Verdict::NotJudged),
        ];
        let words = Tally::of(&claims).words();
        assert_eq!(
            words,
            "promises: 1 of 1 held; published: 1 reproduced, 1 not, 1 undecided; 2 put in, 1 missed, 1 follows from inputs, 1 not judged"
        );
        assert_eq!(Tally::of(&[]).words(), "no claims");
    }
}
