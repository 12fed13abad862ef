//! A claim as the scenario states it, what was measured for it, and what became of it.

use serde::{Deserialize, Serialize};

use crate::bound::{Bound, End, Lies};
use crate::stats::Estimate;
use crate::verdict::{Verdict, verdict};
use crate::world::World;

/// What a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// What masu promises: these decide the exit status.
    Promise,
    /// A published statement that the run tries to reproduce. If it does not hold, that is a result and not a
    /// failure.
    Published,
}

/// What a claim can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// An input was calibrated to it: shown, never counted as held.
    #[serde(rename = "put in")]
    PutIn,
    /// Arithmetic of the inputs: it says that the arithmetic is right.
    #[serde(rename = "follows")]
    Follows,
    /// The product or the model could have failed it.
    #[serde(rename = "emerges")]
    Emerges,
}

impl Kind {
    /// In the words of a report.
    pub fn words(self) -> &'static str {
        match self {
            Kind::PutIn => "put in",
            Kind::Follows => "follows",
            Kind::Emerges => "emerges",
        }
    }
}

/// A published value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// In the claim's unit.
    Number(f64),
    /// As it was stated: "about 6 %", "never below".
    Words(String),
}

/// How a measure compares two times, of which others' use of the machine may have made either longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compares {
    /// How much less the one is, in percent of the other.
    Saving,
    /// How many times the one is of the other.
    Ratio,
    /// By how much they differ, in whatever unit, or which comes first: by how much others change it nobody
    /// knows.
    Difference,
}

impl Compares {
    /// The interval in which it may lie on a quiet machine, if one of the times is up to `times` too long.
    fn quiet(self, e: &Estimate, times: f64) -> Estimate {
        let all = Estimate { mean: e.mean, low: f64::NEG_INFINITY, high: f64::INFINITY };
        if !times.is_finite() {
            return all;
        }
        match self {
            Compares::Saving => {
                let [low, high] =
                    [(e.low, times), (e.high, 1.0 / times)].map(|(s, by)| 100.0 - (100.0 - s) * by);
                Estimate { mean: e.mean, low, high }
            }
            Compares::Ratio => Estimate { mean: e.mean, low: e.low / times, high: e.high * times },
            Compares::Difference => all,
        }
    }
}

/// Others' use of the machine during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbed {
    /// A time may be up to so many times as long; none: nobody else used the machine.
    pub times: Option<f64>,
}

impl From<bool> for Disturbed {
    /// Whether it was at all, nobody knows how much.
    fn from(disturbed: bool) -> Disturbed {
        Disturbed { times: disturbed.then_some(f64::INFINITY) }
    }
}

/// A claim of a scenario, `[[claim]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// What is measured: one of the names that the verification knows.
    pub id: String,
    /// How the claim is called.
    pub name: String,
    /// What it is about.
    pub about: About,
    /// What it can show.
    pub kind: Kind,
    /// Unit of its numbers.
    #[serde(default)]
    pub unit: String,
    /// The published value.
    pub published: Option<Published>,
    /// Where the published value and the bound come from.
    pub source: String,
    /// It must be this or more.
    pub at_least: Option<f64>,
    /// It must be this or less.
    pub at_most: Option<f64>,
    /// It must be more.
    pub above: Option<f64>,
    /// It must be less.
    pub below: Option<f64>,
    /// What the bound is, where the run itself measures it.
    pub measured_bound: Option<String>,
    /// Why it is shown and never judged.
    pub not_judged: Option<String>,
    /// Only in this world.
    pub world: Option<World>,
    /// Whether it counts things, which others' use of the machine does not change; what is not counted is
    /// timed.
    #[serde(default)]
    pub counted: bool,
    /// How it compares two times, where it does: others' use of the machine may then help it.
    pub compares: Option<Compares>,
    /// The figure that shows it.
    pub figure: Option<String>,
    /// A few words beside its number.
    pub note: Option<String>,
}

impl ClaimSpec {
    /// The bound of the scenario, where it has one.
    pub fn bound(&self) -> Option<Bound> {
        let end = |inclusive: Option<f64>, strict: Option<f64>| {
            let of = |value, strict| End { value, strict };
            inclusive.map(|value| of(value, false)).or(strict.map(|value| of(value, true)))
        };
        let bound = Bound { lower: end(self.at_least, self.above), upper: end(self.at_most, self.below) };
        (bound.lower.is_some() || bound.upper.is_some()).then_some(bound)
    }

    /// What is wrong with it, if anything.
    fn fault(&self) -> Option<&'static str> {
        let decides = [self.bound().is_some(), self.measured_bound.is_some(), self.not_judged.is_some()];
        let crossed = self.bound().is_some_and(|b| match (b.lower, b.upper) {
            (Some(lower), Some(upper)) => lower.value > upper.value,
            _ => false,
        });
        match () {
            () if decides.iter().filter(|d| **d).count() != 1 => Some(
                "must have one of: a bound (at_least, at_most, above, below), measured_bound, \
                    not_judged",
            ),
            () if [self.at_least, self.at_most, self.above, self.below]
                .iter()
                .flatten()
                .any(|v| !v.is_finite()) =>
            {
                Some("has a bound that is not a finite number")
            }
            () if self.at_least.is_some() && self.above.is_some() => Some("has both at_least and above"),
            () if self.at_most.is_some() && self.below.is_some() => Some("has both at_most and below"),
            () if crossed => Some("has a lower bound that is more than the upper one"),
            () if self.source.is_empty() => Some("missing source"),
            () => None,
        }
    }

    /// Why a claim that is held may owe it to the others who used the machine.
    fn helped(&self, (bound, outcome): (Option<&Bound>, &Outcome), disturbed: Disturbed) -> Option<String> {
        let (Some(times), Some(compares), false) = (disturbed.times, self.compares, self.counted) else {
            return None;
        };
        let (Some(bound), Outcome::Estimate(estimate)) = (bound, outcome) else { return None };
        let is_alone = estimate.low.is_infinite() && estimate.high.is_infinite();
        let known = if is_alone { Estimate::exact(estimate.mean) } else { *estimate };
        let quiet = compares.quiet(&known, times);
        // Not `lies`: what is not known at all is beyond any bound.
        let keeps = |e: f64| bound.lies(&Estimate::exact(e)) == Some(Lies::Within);
        let is_sure = keeps(quiet.low) && keeps(quiet.high);
        (!is_sure).then(|| "others used this machine meanwhile, which may have helped".to_owned())
    }

    /// Judges it by a measure. `disturbed`: others used the machine meanwhile.
    fn judged(&self, measure: Measure, disturbed: Disturbed) -> JudgedClaim {
        let bound = measure.bound.or_else(|| self.bound());
        let not_judged = measure.not_judged.or_else(|| self.not_judged.clone());
        let (verdict, why) = match &not_judged {
            Some(why) => (Verdict::NotJudged, Some(why.clone())),
            None => verdict(bound.as_ref(), &measure.outcome, disturbed.times.is_some() && !self.counted),
        };
        let helped = self.helped((bound.as_ref(), &measure.outcome), disturbed);
        let (verdict, why) = match (verdict, helped) {
            (Verdict::Held, Some(helped)) => (Verdict::InDoubt, Some(helped)),
            _ => (verdict, why),
        };
        let estimate = match measure.outcome {
            Outcome::Estimate(estimate) => Some(estimate),
            Outcome::Never(_) | Outcome::Refuted(_) | Outcome::NotMeasured(_) | Outcome::Missing(_) => None,
        };
        let is_number = |e: &Estimate| !(e.mean.is_nan() || e.low.is_nan() || e.high.is_nan());
        let finite = |value: f64| value.is_finite().then_some(value);
        let interval = estimate.and_then(|e| Some((finite(e.low)?, finite(e.high)?)));
        let reasons: Vec<String> =
            why.into_iter().chain(measure.note.or_else(|| self.note.clone())).collect();
        let place = measure.place.as_deref();
        JudgedClaim {
            id: place.map_or(self.id.clone(), |place| format!("{}.{}", self.id, slug(place))),
            name: place.map_or(self.name.clone(), |place| format!("{}: {place}", self.name)),
            about: self.about,
            kind: self.kind,
            unit: self.unit.clone(),
            published: measure.published.or_else(|| self.published.clone()),
            source: self.source.clone(),
            bound: bound.filter(|_| not_judged.is_none()),
            estimate: estimate.filter(is_number).and_then(|e| finite(e.mean)),
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            verdict,
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            figure: measure.figure.or_else(|| self.figure.clone()),
        }
    }
}

/// "VM01-05 min 2000" is `vm01_05_min_2000`.
fn slug(place: &str) -> String {
    let parts = place.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

/// Gives each claim an id of its own: places whose names differ in signs alone have the same slug.
fn tell_apart(claims: &mut [JudgedClaim]) {
    for n in 1..claims.len() {
        let (before, own) = claims.split_at_mut(n);
        let is_taken = |id: &str| before.iter().any(|other| other.id == id);
        let id = own[0].id.clone();
        let mut number = 1;
        while is_taken(&own[0].id) {
            number += 1;
            own[0].id = format!("{id}_{number}");
        }
    }
}

/// The claims of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Claims(Vec<ClaimSpec>);

impl FromIterator<ClaimSpec> for Claims {
    fn from_iter<I: IntoIterator<Item = ClaimSpec>>(claims: I) -> Claims {
        Claims(claims.into_iter().collect())
    }
}

impl Claims {
    /// What decides a claim of a world, where the scenario says it.
    pub fn bound(&self, id: &str, world: World) -> Option<Bound> {
        self.of(world).find(|claim| claim.id == id)?.bound()
    }

    /// What each claim of a world can show.
    pub fn kinds(&self, world: World) -> Vec<Kind> {
        self.of(world).map(|claim| claim.kind).collect()
    }

    fn of(&self, world: World) -> impl Iterator<Item = &ClaimSpec> {
        self.0.iter().filter(move |claim| claim.world.is_none_or(|own| own == world))
    }

    /// Judges the claims of a world by what was measured, in the order of the scenario: one without a measure
    /// is not judged. A measure without a claim is none that the scenario makes.
    pub fn judge(
        &self,
        world: World,
        measures: &[Measure],
        disturbed: impl Into<Disturbed>,
    ) -> Vec<JudgedClaim> {
        let disturbed = disturbed.into();
        let mut judged: Vec<JudgedClaim> = self
            .of(world)
            .flat_map(|claim| {
                let mut of: Vec<Measure> = measures.iter().filter(|m| m.id == claim.id).cloned().collect();
                if of.is_empty() {
                    of.push(Measure::new(&claim.id, None));
                }
                of.into_iter().map(|measure| claim.judged(measure, disturbed)).collect::<Vec<_>>()
            })
            .collect();
        tell_apart(&mut judged);
        judged
    }

    /// What is wrong with the first that is: each has what decides it and stands there once, and its id is
    /// one of `known`.
    pub fn fault(&self, known: &[&str]) -> Option<String> {
        self.0.iter().enumerate().find_map(|(i, claim)| {
            if let Some(fault) = claim.fault() {
                return Some(format!("claim {:?} {fault}", claim.id));
            }
            if !known.contains(&claim.id.as_str()) {
                return Some(format!("unknown claim {:?}: known are {}", claim.id, known.join(", ")));
            }
            let twice = self.0[..i].iter().any(|other| other.id == claim.id && other.world == claim.world);
            twice.then(|| format!("claim {:?} stands here twice", claim.id))
        })
    }
}

/// What a run has for a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A number with its interval.
    Estimate(Estimate),
    /// What was waited for did not happen before the end of the run, and why that is known: of a run that was
    /// stopped this says nothing.
    Never(String),
    /// What happened refutes the claim, whatever comes after it, and why.
    Refuted(String),
    /// This run does not tell, and why.
    NotMeasured(String),
    /// This run was to tell and does not, and why: its scenario claims what was never measured.
    Missing(String),
}

impl From<Option<Estimate>> for Outcome {
    fn from(estimate: Option<Estimate>) -> Outcome {
        estimate.map_or_else(|| Outcome::NotMeasured("this run did not measure it".into()), Outcome::Estimate)
    }
}

impl From<Estimate> for Outcome {
    fn from(estimate: Estimate) -> Outcome {
        Outcome::Estimate(estimate)
    }
}

/// What was measured for a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    id: String,
    outcome: Outcome,
    place: Option<String>,
    note: Option<String>,
    figure: Option<String>,
    published: Option<Published>,
    bound: Option<Bound>,
    not_judged: Option<String>,
}

impl Measure {
    /// For the claim of that id; `None` is what this run does not tell.
    pub fn new(id: &str, outcome: impl Into<Outcome>) -> Measure {
        Measure {
            id: id.into(),
            outcome: outcome.into(),
            place: None,
            note: None,
            figure: None,
            published: None,
            bound: None,
            not_judged: None,
        }
    }

    /// One of several places where the claim is made: it goes into name and id.
    #[must_use]
    pub fn at(self, place: impl Into<String>) -> Measure {
        Measure { place: Some(place.into()), ..self }
    }

    /// A few words beside the number, instead of the scenario's.
    #[must_use]
    pub fn note(self, note: impl Into<Option<String>>) -> Measure {
        Measure { note: note.into(), ..self }
    }

    /// The figure that shows it, where it is not the scenario's.
    #[must_use]
    pub fn figure(self, id: impl Into<String>) -> Measure {
        Measure { figure: Some(id.into()), ..self }
    }

    /// The published value of this place.
    #[must_use]
    pub fn published(self, published: Option<Published>) -> Measure {
        Measure { published, ..self }
    }

    /// A bound that the run has measured itself.
    #[must_use]
    pub fn bound(self, bound: Bound) -> Measure {
        Measure { bound: Some(bound), ..self }
    }

    /// Not judged in this run, whatever was measured.
    #[must_use]
    pub fn not_judged(self, why: &str) -> Measure {
        Measure { not_judged: Some(why.into()), ..self }
    }

    /// As a run has it that was stopped before its end: what did not happen might have, later.
    #[must_use]
    pub(crate) fn so_far(self) -> Measure {
        match self.outcome {
            Outcome::Never(why) => {
                let outcome = Outcome::NotMeasured(format!("the run was stopped before its end: {why}"));
                Measure { outcome, ..self }
            }
            Outcome::Missing(why) => Measure { outcome: Outcome::NotMeasured(why), ..self },
            _ => self,
        }
    }

    /// Of which claim.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the run has.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

/// A claim that was judged, as `results.json` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgedClaim {
    /// Unique in the run.
    pub id: String,
    /// For a person.
    pub name: String,
    /// What it is about.
    pub about: About,
    /// What it can show.
    pub kind: Kind,
    /// Unit of its numbers.
    pub unit: String,
    /// The published value.
    pub published: Option<Published>,
    /// Where published value and bound come from.
    pub source: String,
    /// What decides.
    pub bound: Option<Bound>,
    /// The estimate; none when nothing was measured.
    pub estimate: Option<f64>,
    /// Lower end of its interval, where it has one.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// What became of it.
    pub verdict: Verdict,
    /// Why it is not judged or in doubt; else a few words beside the number.
    pub reason: Option<String>,
    /// The figure of the report that shows it.
    pub figure: Option<String>,
}

impl JudgedClaim {
    /// As a run has it that was stopped before its end: what is not held stays so, but what keeps to its
    /// bound so far might not have in the end.
    #[must_use]
    pub(crate) fn so_far(self) -> JudgedClaim {
        if self.verdict != Verdict::Held {
            return self;
        }
        let why = "the run was stopped before its end".to_owned();
        let reason = [Some(why), self.reason].into_iter().flatten().collect::<Vec<_>>().join("; ");
        JudgedClaim { verdict: Verdict::InDoubt, reason: Some(reason), ..self }
    }

    /// Why its verdict does not follow from its numbers, if so. `stopped`: the run was, before its end.
    pub(crate) fn contradiction(&self, stopped: bool) -> Option<String> {
        let verdict = self.verdict.words();
        if let (Some(mean), Some(low), Some(high)) = (self.estimate, self.low, self.high) {
            // The ends are computed, too.
            let slack = 1e-9 * mean.abs().max(low.abs()).max(high.abs());
            if !(low - slack <= mean && mean <= high + slack) {
                return Some(format!(
                    "has an estimate of {mean} that is not in its interval, {low} to {high}"
                ));
            }
        }
        let Some(bound) = &self.bound else {
            return (self.verdict != Verdict::NotJudged).then(|| format!("is {verdict:?} without a bound"));
        };
        let lies = self.interval().and_then(|estimate| bound.lies(&estimate));
        // An interval with one end is not in a record: it may reach across the bound.
        let has_interval = self.low.is_some() && self.high.is_some();
        if stopped && self.verdict == Verdict::Held {
            return Some(format!("is {verdict:?}, though the run was stopped before its end"));
        }
        let follows = match (self.verdict, lies) {
            (Verdict::Held, lies) => lies == Some(Lies::Within),
            // What never happened has no number.
            (Verdict::NotHeld, lies) => lies.is_none_or(|lies| lies == Lies::Beyond),
            (Verdict::Undecided, lies) => !has_interval || lies == Some(Lies::Across),
            (Verdict::InDoubt, lies) => lies != Some(Lies::Across) && self.reason.is_some(),
            (Verdict::NotJudged, lies) => lies.is_none() && self.reason.is_some(),
        };
        (!follows).then(|| {
            let measured = self.estimate.map_or("nothing".to_owned(), |mean| match (self.low, self.high) {
                (Some(low), Some(high)) => format!("{mean} ({low} to {high})"),
                _ => mean.to_string(),
            });
            let bound = bound.words(&self.unit);
            format!("is {verdict:?}, which does not follow from {measured} and its bound, {bound}")
        })
    }

    /// The estimate with its interval.
    pub fn interval(&self) -> Option<Estimate> {
        let mean = self.estimate?;
        let low = self.low.unwrap_or(f64::NEG_INFINITY);
        Some(Estimate { mean, low, high: self.high.unwrap_or(f64::INFINITY) })
    }
}

/// A claim with a verdict, and numbers from which it follows.
#[cfg(test)]
pub(crate) fn judged_claim(id: &str, about: About, kind: Kind, verdict: Verdict) -> JudgedClaim {
    let (interval, reason) = match verdict {
        Verdict::Held => (Some((1.0, 3.0)), None),
        Verdict::NotHeld => (Some((7.0, 9.0)), None),
        Verdict::Undecided => (Some((4.0, 6.0)), Some("the bound lies in the interval")),
        Verdict::InDoubt => (Some((7.0, 9.0)), Some("others used this machine meanwhile")),
        Verdict::NotJudged => (None, Some("this run did not measure it")),
    };
    JudgedClaim {
        id: id.into(),
        name: id.into(),
        about,
        kind,
        unit: String::new(),
        published: None,
        source: "a test".into(),
        bound: Some(Bound::at_most(5.0)),
        estimate: interval.map(|(low, high): (f64, f64)| f64::midpoint(low, high)),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        verdict,
        reason: reason.map(str::to_owned),
        figure: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A saving on a busy machine stayed held, though the time without offload may be the others' work.
    #[test]
    fn a_comparison_is_held_on_a_disturbed_machine_only_where_that_cannot_have_helped() {
        use Verdict::{Held, InDoubt};
        let claim = |compares: &str, bound: &str| -> ClaimSpec {
            let text = format!(
                "id = \"a\"\nname = \"a\"\nabout = \"promise\"\nkind = \"emerges\"\nsource = \"a test\"\n{compares}\n{bound}"
            );
            toml::from_str(&text).expect("a claim")
        };
        let within = |low: f64, high: f64| Estimate { mean: (low + high) / 2.0, low, high };
        let (saving, ratio) = ("compares = \"saving\"", "compares = \"ratio\"");
        for (compares, bound, measured, times, expected) in [
            ("", "at_most = 5", within(3.0, 4.0), 9.0, Held),
            (saving, "at_least = 95", within(97.5, 99.0), 2.0, Held),
            (saving, "at_least = 95", within(97.4, 99.0), 2.0, InDoubt),
            (saving, "at_least = 95", within(97.4, 99.0), 1.5, Held),
            (saving, "at_least = 95", within(99.9, 100.0), f64::INFINITY, InDoubt),
            (ratio, "at_most = 1.2", within(1.0, 1.1), 2.0, InDoubt),
            (ratio, "at_most = 1.2", within(0.4, 0.5), 2.0, Held),
            (ratio, "at_least = 90\nat_most = 110", within(99.0, 101.0), 2.0, InDoubt),
            ("compares = \"difference\"", "at_most = 10", within(1.0, 2.0), 2.0, InDoubt),
            ("compares = \"saving\"\ncounted = true", "at_least = 95", within(95.0, 96.0), 2.0, Held),
            // A value without an interval.
            (saving, "at_least = 95", within(f64::NEG_INFINITY, f64::INFINITY), 2.0, InDoubt),
        ] {
            let mean = if measured.mean.is_nan() { 96.0 } else { measured.mean };
            let measure = Measure::new("a", Estimate { mean, ..measured });
            let judged = claim(compares, bound).judged(measure.clone(), Disturbed { times: Some(times) });
            assert_eq!(judged.verdict, expected, "{compares} {bound} {measured:?} {times}");
            assert_eq!(claim(compares, bound).judged(measure, Disturbed::default()).verdict, Held);
        }
    }

    /// Places "raid 5" and "raid-5" had one id, and a record with it twice.
    #[test]
    fn each_judged_claim_has_an_id_of_its_own() {
        let spec: ClaimSpec = toml::from_str(
            "id = \"a\"\nname = \"a\"\nabout = \"promise\"\nkind = \"emerges\"\nsource = \"x\"\nat_most = 5",
        )
        .expect("a claim");
        let places = ["raid 5", "raid-5", "raid 5 2", "Raid_5"];
        let measures = places.map(|place| Measure::new("a", Estimate::exact(1.0)).at(place));
        let claims: Claims = [spec].into_iter().collect();
        let ids: Vec<String> =
            claims.judge(World::Model, &measures, false).into_iter().map(|claim| claim.id).collect();
        assert_eq!(ids, ["a.raid_5", "a.raid_5_2", "a.raid_5_2_2", "a.raid_5_3"]);
    }
}
