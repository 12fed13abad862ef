//! What a run proves, and what it does not: from its record alone.

use serde::Serialize;

use crate::claim::{JudgedClaim, Kind};
use crate::inputs::{Input, InputKind};
use crate::presentation::published_words;
use crate::record::RunRecord;
use crate::scope::{PublishedFigure, Source};
use crate::sweep;
use crate::verdict::{Counts, Verdict};
use crate::words::{capital, counted, value};

/// What the page shows of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// Who claimed what is judged.
    pub claimed_by: String,
    /// The claims that could have failed.
    pub emerging: Counts,
    /// Of these, by what became of them.
    pub held: Vec<Line>,
    /// Beyond the bound.
    pub not_held: Vec<Line>,
    /// Undecided, or in doubt.
    pub open: Vec<Line>,
    /// Not measured, or never judged.
    pub not_judged: Vec<Line>,
    /// An input was calibrated to it.
    pub put_in: Vec<Line>,
    /// Arithmetic of the inputs.
    pub follows: Vec<Line>,
    /// How many inputs there are of each kind.
    pub inputs: String,
    /// Inputs that were calibrated, and to what.
    pub calibrated: Vec<String>,
    /// What was a model.
    pub modelled: Vec<String>,
    /// What was not.
    pub real: Vec<String>,
    /// By how much it was scaled; none: at the published size.
    pub scale: Option<String>,
    /// What the sweep gave, or that there was none.
    pub sweep: String,
    /// What no run of this kind can say.
    pub cannot_say: Vec<String>,
    /// The published figures.
    pub figures: Vec<PublishedFigure>,
}

/// A claim in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Line {
    pub name: String,
    /// Measured, and the bound.
    pub numbers: String,
    /// What was published, and why it came out as it did.
    pub text: String,
    pub verdict: Verdict,
}

/// What a record proves; none of a record that does not say what it can show.
pub fn proof(record: &RunRecord) -> Option<Proof> {
    let scope = record.scope.as_ref()?;
    let of = |kind: Kind, verdicts: &'static [Verdict]| -> Vec<Line> {
        let those =
            record.claims.iter().filter(|claim| claim.kind == kind && verdicts.contains(&claim.verdict));
        those.map(line).collect()
    };
    const ALL: &[Verdict] =
        &[Verdict::Held, Verdict::NotHeld, Verdict::Undecided, Verdict::InDoubt, Verdict::NotJudged];
    Some(Proof {
        claimed_by: claimed_by(scope.source.as_ref()),
        emerging: Counts::of(record.claims.iter().filter(|claim| claim.kind == Kind::Emerges)),
        held: of(Kind::Emerges, &[Verdict::Held]),
        not_held: of(Kind::Emerges, &[Verdict::NotHeld]),
        open: of(Kind::Emerges, &[Verdict::Undecided, Verdict::InDoubt]),
        not_judged: of(Kind::Emerges, &[Verdict::NotJudged]),
        put_in: of(Kind::PutIn, ALL),
        follows: of(Kind::Follows, ALL),
        inputs: inputs_words(&record.inputs),
        calibrated: record
            .inputs
            .iter()
            .filter(|i| i.kind == InputKind::Calibrated)
            .map(calibrated)
            .collect(),
        modelled: scope.modelled.clone(),
        real: scope.real.clone(),
        scale: scope.scale.clone(),
        sweep: sweep_words(record),
        cannot_say: scope.cannot_say.clone(),
        figures: scope.published_figures.clone(),
    })
}

fn claimed_by(source: Option<&Source>) -> String {
    let Some(source) = source else {
        return "Nobody: the scenario cites no publication. Its bounds are its author's.".into();
    };
    let year = source.year.as_ref().map_or(String::new(), |year| format!(", {year}"));
    let named = [source.author.as_deref(), source.title.as_deref()].into_iter().flatten();
    let named = named.collect::<Vec<_>>().join(": ");
    let about = source.about.as_ref().map_or(String::new(), |about| format!(" ({about})"));
    match (&source.author, &source.title) {
        (Some(_), Some(_)) => format!("{named}. {}{year}{about}.", source.kind),
        (None, None) => {
            format!("{}{year}{about}. Its author and title are not known to this project.", source.kind)
        }
        (None, Some(_)) => {
            format!("{named}. {}{year}{about}. Its author is not known to this project.", source.kind)
        }
        (Some(_), None) => {
            format!("{named}. {}{year}{about}. Its title is not known to this project.", source.kind)
        }
    }
}

/// "98.1 ± 0.2 %, bound 90 to 110 %", and "Published: equal. Why."
fn line(claim: &JudgedClaim) -> Line {
    let unit = if claim.unit.is_empty() { String::new() } else { format!(" {}", claim.unit) };
    let measured = claim.interval().map(|estimate| format!("{}{unit}", value(&estimate)));
    let bound = claim.bound.map(|bound| format!("bound {}", bound.words(&claim.unit)));
    let published = published_words(claim).map(|words| format!("Published: {words}"));
    let text = published.into_iter().chain(claim.reason.as_deref().map(capital)).collect::<Vec<_>>();
    Line {
        name: claim.name.clone(),
        numbers: measured.into_iter().chain(bound).collect::<Vec<_>>().join(", "),
        text: text.join(". "),
        verdict: claim.verdict,
    }
}

/// "controller.command = 18us: a command".
fn calibrated(input: &Input) -> String {
    let source = input.source.trim_start_matches("calibrated").trim_start_matches([',', ':', ' ']);
    match source.is_empty() {
        true => format!("{} = {}: the scenario does not say to what", input.name, input.value),
        false => format!("{} = {}: {source}", input.name, input.value),
    }
}

/// "Of 31 inputs 9 are published, 2 measured, 19 chosen, 1 calibrated."
fn inputs_words(inputs: &[Input]) -> String {
    let of = |kind: InputKind, words: &str| {
        let n = inputs.iter().filter(|input| input.kind == kind).count();
        (n > 0).then(|| format!("{n} {words}"))
    };
    let each = [
        of(InputKind::Published, "published"),
        of(InputKind::Measured, "measured elsewhere"),
        of(InputKind::Chosen, "chosen"),
        of(InputKind::Calibrated, "calibrated"),
    ];
    let each: Vec<String> = each.into_iter().flatten().collect();
    match each.is_empty() {
        true => "The scenario names no inputs.".into(),
        false => format!("Of {}: {}.", counted(inputs.len(), "input"), each.join(", ")),
    }
}

/// The verification of a scenario of one's own.
const OWN_SCENARIO: &str = "run";

fn sweep_words(record: &RunRecord) -> String {
    match &record.sweep {
        Some(swept) => format!("Over the ranges of its inputs: {}.", sweep::sentence(swept)),
        // A scenario of one's own is varied in its file: `masu run` has no sweep.
        None if record.verification == OWN_SCENARIO => {
            "This run does not show how the claims depend on the inputs that nobody published.".into()
        }
        None => {
            "This run does not show how the claims depend on the inputs that nobody published: --sweep does."
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Bound;
    use crate::claim::{About, judged_claim};

    #[test]
    fn a_citation_says_what_is_not_known() {
        let of = |author: Option<&str>, title: Option<&str>| {
            claimed_by(Some(&Source {
                kind: "White paper".into(),
                year: Some("2010".into()),
                author: author.map(str::to_owned),
                title: title.map(str::to_owned),
                about: None,
            }))
        };
        for (source, expected) in [
            (of(Some("A. Author"), Some("Disks")), "A. Author: Disks. White paper, 2010."),
            (of(None, None), "White paper, 2010. Its author and title are not known to this project."),
            (of(None, Some("Disks")), "Disks. White paper, 2010. Its author is not known to this project."),
            (claimed_by(None), "Nobody: the scenario cites no publication. Its bounds are its author's."),
        ] {
            assert_eq!(source, expected);
        }
    }

    #[test]
    fn a_claim_shows_its_number_its_bound_and_why() {
        let claim = JudgedClaim {
            unit: "%".into(),
            bound: Some(Bound::at_most(5.0)),
            estimate: Some(6.2),
            low: Some(6.0),
            high: Some(6.4),
            reason: Some("the cache is full".into()),
            ..judged_claim("a", About::Published, Kind::Emerges, Verdict::NotHeld)
        };
        let shown = line(&claim);
        assert_eq!(
            (shown.numbers.as_str(), shown.text.as_str()),
            ("6.2 ± 0.2 %, bound ≤ 5 %", "The cache is full")
        );
        let none = judged_claim("b", About::Promise, Kind::Emerges, Verdict::NotJudged);
        let silent = line(&JudgedClaim { bound: None, reason: None, ..none });
        assert_eq!(silent.numbers + &silent.text, "");
    }

    #[test]
    fn inputs_are_counted_by_kind_and_calibrated_ones_say_to_what() {
        let of = |name: &str, kind, source: &str| Input {
            name: name.into(),
            value: "1".into(),
            kind,
            source: source.into(),
        };
        let all = [
            of("a", InputKind::Published, ""),
            of("b", InputKind::Calibrated, "calibrated to 61 % of the controller"),
            of("c", InputKind::Calibrated, "calibrated"),
        ];
        assert_eq!(inputs_words(&all), "Of 3 inputs: 1 published, 2 calibrated.");
        assert_eq!(calibrated(&all[1]), "b = 1: to 61 % of the controller");
        assert_eq!(calibrated(&all[2]), "c = 1: the scenario does not say to what");
    }
}
