//! What a run leaves behind for machines: `results.json`, schema 1, the same of every verification.
//! `schema/results.json` describes it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::claim::JudgedClaim;
use crate::digest;
use crate::inputs::Input;
use crate::report::{Doubt, Machine};
use crate::scope::Scope;
use crate::stats::{Estimate, mean};
use crate::sweep::SweepRecord;
use crate::text_file;
use crate::verdict::{Standing, Tally, exit_status, standing};

pub use crate::world::World;

/// The version of the schema.
pub const SCHEMA: u32 = 1;
/// The longest record that is read: a run of a million samples.
const BYTES_MAX: u64 = 256 << 20;

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct RunRecord {
    pub schema: u32,
    pub verification: String,
    /// Of masu.
    pub version: String,
    /// The commit that it was built from, where the build knows it.
    pub commit: Option<String>,
    pub world: World,
    /// The first seed.
    pub seed: u64,
    /// Share of the published sizes; none: at full size.
    pub scale: Option<f64>,
    /// How and on what it was run.
    pub environment: Environment,
    /// The scenario's values.
    pub inputs: Vec<Input>,
    /// Most important first.
    pub claims: Vec<JudgedClaim>,
    /// What was measured.
    pub metrics: Vec<Metric>,
    /// What became of it.
    pub verdict: RunVerdict,
    /// What it can show at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The same with other values of the inputs, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepRecord>,
    /// Of all the rest ([`crate::digest`]), set by [`RunRecord::sealed`]; none: masu wrote the record before
    /// records had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What a record without a digest leaves open.
const WITHOUT_DIGEST: [&str; 2] = [
    "The record of this run has no digest.",
    "Whether it was changed after the run cannot be told. Run again for a record with one.",
];

/// How and on what a run was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Environment {
    /// When it ended, RFC 3339, UTC.
    pub generated: String,
    /// As it was typed.
    pub command: String,
    /// Whether it was the quick form.
    pub quick: bool,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
    /// How often it was repeated.
    pub repeats: usize,
    pub machine: Machine,
    /// What makes the run doubtful.
    pub doubts: Vec<Doubt>,
}

/// A quantity that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Metric {
    /// Its name.
    pub id: String,
    pub unit: String,
    /// What tells it apart from others of its name: `{"pattern": "R1"}`.
    pub dimensions: BTreeMap<String, String>,
    /// Repeats, or windows of one run.
    pub samples: Vec<f64>,
}

impl Metric {
    /// One from its samples; those that are no number are left out.
    pub fn new(id: &str, unit: &str, dimensions: &[(&str, &str)], samples: Vec<f64>) -> Metric {
        let dimensions = dimensions.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Metric {
            id: id.into(),
            unit: unit.into(),
            dimensions: dimensions.collect(),
            samples: samples.into_iter().filter(|sample| sample.is_finite()).collect(),
        }
    }

    /// "mb_per_s: R1, virtual".
    pub fn name(&self) -> String {
        match self.dimensions.is_empty() {
            true => self.id.clone(),
            false => {
                format!("{}: {}", self.dimensions.values().cloned().collect::<Vec<_>>().join(", "), self.id)
            }
        }
    }

    /// The mean.
    pub fn estimate(&self) -> Option<Estimate> {
        (!self.samples.is_empty()).then(|| mean(&self.samples))
    }
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunVerdict {
    /// In a word.
    pub standing: Standing,
    /// The exit status of the run.
    pub exit_status: u8,
    /// How many claims there are of which verdict.
    pub tally: Tally,
    /// The question's answer in one sentence.
    pub answer: String,
}

impl RunVerdict {
    /// Of the claims of a run.
    pub fn of(claims: &[JudgedClaim], stopped: bool, answer: String) -> RunVerdict {
        RunVerdict {
            standing: standing(claims, stopped),
            exit_status: exit_status(claims, stopped),
            tally: Tally::of(claims),
            answer,
        }
    }
}

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is none.
    #[error("{path}: no such file")]
    Missing {
        /// The file.
        path: String,
    },
    /// It cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        cause: String,
    },
    /// It is something else.
    #[error("{path} is not a record of a run (schema {SCHEMA}): {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// Where and why.
        cause: String,
    },
    /// No run writes this.
    #[error(
        "{path} contradicts itself: {cause}; it is not as a run wrote it: take it from a copy, or run again"
    )]
    Contradiction {
        /// The file.
        path: String,
        /// The first thing that does not follow from the rest.
        cause: String,
    },
    /// Somebody changed what does not follow from the rest: a sample, the answer.
    #[error(
        "{path} was changed after the run wrote it: its digest is not that of what it says; take it from a copy, or run \
         again"
    )]
    Changed {
        /// The file.
        path: String,
    },
}

impl RunRecord {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`RecordError::Missing`] where nothing lies, which callers tell apart from what cannot be read.
    pub fn read(path: &Path) -> Result<RunRecord, RecordError> {
        let shown = path.display().to_string();
        let text = text(path)?;
        let mut record: RunRecord = serde_json::from_str(&text)
            .map_err(|e| RecordError::Syntax { path: shown.clone(), cause: e.to_string() })?;
        if record.schema != SCHEMA {
            return Err(RecordError::Syntax { path: shown, cause: format!("schema {}", record.schema) });
        }
        if let Some(cause) = record.contradiction() {
            return Err(RecordError::Contradiction { path: shown, cause });
        }
        match record.digest.take() {
            Some(is) => {
                record = record.sealed();
                match record.digest.as_ref() == Some(&is) {
                    true => Ok(record),
                    false => Err(RecordError::Changed { path: shown }),
                }
            }
            None => {
                let [text, effect] = WITHOUT_DIGEST;
                record.environment.doubts.push(Doubt::new(text, Some(effect.into())));
                Ok(record)
            }
        }
    }

    /// The record with its digest, as it is written.
    #[must_use]
    pub fn sealed(self) -> RunRecord {
        let unsealed = RunRecord { digest: None, ..self };
        // Without one where it is no JSON, which the write then says.
        let digest = digest::digest(&unsealed).ok();
        RunRecord { digest, ..unsealed }
    }

    /// The first thing in it that does not follow from the rest, though a run derives it.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let (claims, stopped) = (&self.claims, self.environment.stopped);
        for (n, claim) in claims.iter().enumerate() {
            if claims[..n].iter().any(|other| other.id == claim.id) {
                return Some(format!("claim {:?} stands there twice", claim.id));
            }
            if let Some(cause) = claim.contradiction(stopped) {
                return Some(format!("claim {:?} {cause}", claim.id));
            }
        }
        let (is, follows) = (&self.verdict, RunVerdict::of(claims, stopped, String::new()));
        if is.standing != follows.standing {
            let [is, follows] = [is.standing.words(), follows.standing.words()];
            return Some(format!("the run is {is:?}, and its claims say {follows:?}"));
        }
        if is.exit_status != follows.exit_status {
            let [is, follows] = [is.exit_status, follows.exit_status];
            return Some(format!("exit_status is {is}, and its claims say {follows}"));
        }
        (is.tally != follows.tally).then(|| {
            let [is, follows] = [is.tally.words(), follows.tally.words()];
            format!("the tally is {is:?}, and its claims say {follows:?}")
        })
    }
}

fn text(path: &Path) -> Result<String, RecordError> {
    use std::io::{ErrorKind, Read};
    let shown = path.display().to_string();
    let failed = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => RecordError::Missing { path: shown.clone() },
        _ => RecordError::Read { path: shown.clone(), cause: e.to_string() },
    };
    let mut text = String::new();
    text_file::open_regular(path)
        .map_err(failed)?
        .take(BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}

/// A record of a run with these claims, and with nothing else that a test looks at.
#[cfg(test)]
pub(crate) fn record_of(
    verification: &str,
    world: World,
    claims: Vec<JudgedClaim>,
    answer: &str,
) -> RunRecord {
    RunRecord {
        schema: SCHEMA,
        verification: verification.into(),
        version: "0".into(),
        commit: None,
        world,
        seed: 1,
        scale: None,
        environment: Environment {
            generated: "2026-11-20T14:05:00Z".into(),
            command: format!("masu verify {verification}"),
            quick: false,
            stopped: false,
            repeats: 1,
            machine: Machine::default(),
            doubts: vec![],
        },
        inputs: vec![],
        metrics: vec![],
        verdict: RunVerdict::of(&claims, false, answer.into()),
        claims,
        scope: None,
        sweep: None,
        digest: None,
    }
    .sealed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{About, ClaimSpec, Claims, Measure, Outcome};
    use crate::verdict::Verdict;

    /// A claim of 5 at most for each outcome, as a run judges and records it.
    fn record(outcomes: &[Outcome], disturbed: bool) -> RunRecord {
        let spec = |n: usize| -> ClaimSpec {
            let rest = "about = \"promise\"\nkind = \"emerges\"\nsource = \"a test\"\nat_most = 5";
            toml::from_str(&format!("id = \"c{n}\"\nname = \"c{n}\"\n{rest}")).expect("a claim")
        };
        let stated: Claims = (0..outcomes.len()).map(spec).collect();
        let measures = outcomes.iter().enumerate();
        let measures: Vec<Measure> =
            measures.map(|(n, outcome)| Measure::new(&format!("c{n}"), outcome.clone())).collect();
        let claims = stated.judge(World::Real, &measures, disturbed);
        record_of("run", World::Real, claims, "Yes.")
    }

    fn read(record: &RunRecord) -> Result<RunRecord, RecordError> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("results.json");
        std::fs::write(&path, serde_json::to_string(record).expect("JSON")).expect("written");
        RunRecord::read(&path)
    }

    fn between(low: f64, high: f64) -> Outcome {
        Outcome::Estimate(Estimate { mean: (low + high) / 2.0, low, high })
    }

    #[test]
    fn whatever_a_run_judges_is_read_again() {
        let estimate = |mean: f64, low: f64, high: f64| Outcome::Estimate(Estimate { mean, low, high });
        let outcomes = [
            between(1.0, 2.0),
            between(4.0, 6.0),
            between(7.0, 8.0),
            Outcome::Estimate(Estimate::exact(5.0)),
            estimate(4.0, f64::NEG_INFINITY, f64::INFINITY),
            estimate(4.0, 4.0, f64::INFINITY),
            estimate(4.0, f64::NEG_INFINITY, 4.5),
            estimate(9.0, f64::NEG_INFINITY, 9.5),
            estimate(4.0, f64::NAN, f64::NAN),
            estimate(f64::NAN, f64::NAN, f64::NAN),
            estimate(f64::INFINITY, f64::INFINITY, f64::INFINITY),
            estimate(f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY),
            Outcome::Never("no event came".into()),
            Outcome::Refuted("an I/O failed".into()),
            Outcome::NotMeasured("no drive was pulled".into()),
            Outcome::Missing("no I/O ended".into()),
        ];
        for disturbed in [false, true] {
            for n in 0..outcomes.len() {
                let one = record(&outcomes[n..=n], disturbed);
                assert_eq!(one.contradiction(), None, "{:?}, disturbed: {disturbed}", outcomes[n]);
            }
            let all = record(&outcomes, disturbed);
            assert_eq!(read(&all).expect("reads"), all);
        }
    }

    /// The answer, samples and the rest of what does not follow from the claims could be changed in a text
    /// editor, and were shown, bundled and compared as they stood; so was a claim with a key of nobody's.
    #[test]
    fn a_record_that_was_changed_by_hand_is_refused() {
        let metric = Metric::new("iops", "1/s", &[], vec![1.0, 2.5, 1e-7]);
        let whole = RunRecord { metrics: vec![metric], ..record(&[between(1.0, 2.0)], false) }.sealed();
        let text = serde_json::to_string_pretty(&whole).expect("JSON");
        let of = |text: &str| {
            let dir = tempfile::tempdir().expect("a folder");
            let path = dir.path().join("results.json");
            std::fs::write(&path, text).expect("written");
            RunRecord::read(&path)
        };
        assert_eq!(of(&text).expect("reads"), whole);
        let closer = serde_json::to_string(&whole).expect("JSON");
        assert_eq!(of(&closer).expect("reads"), whole, "the same, laid out otherwise");
        for (was, is) in [
            ("\"Yes.\"", "\"No. 77\""),
            ("2.5", "25.0"),
            ("1e-7", "0.0"),
            ("\"seed\": 1", "\"seed\": 2"),
            ("\"source\": \"a test\"", "\"source\": \"a book\""),
            ("sha256:", "sha256:0"),
        ] {
            assert!(text.contains(was), "{was}");
            let refused = of(&text.replacen(was, is, 1)).expect_err(is).to_string();
            assert!(refused.contains("was changed after the run wrote it"), "{is}: {refused}");
        }
        for (place, key) in [
            ("\"source\": \"a test\"", "more"),
            ("\"upper\": {", "sideways"),
            ("\"strict\": false", "more"),
            ("\"promises\": {", "more"),
            ("\"cpu\": \"\"", "more"),
            ("\"tally\": {", "more"),
        ] {
            assert!(text.contains(place), "{place}: {text}");
            let with = match place.ends_with('{') {
                true => format!("{place} {key:?}: null,"),
                false => format!("{key:?}: null, {place}"),
            };
            let refused = of(&text.replacen(place, &with, 1)).expect_err(place).to_string();
            assert!(refused.contains("unknown field"), "{place}: {refused}");
        }
        let old = of(&serde_json::to_string(&RunRecord { digest: None, ..whole }).expect("JSON"));
        let doubts = old.expect("one of before digests reads").environment.doubts;
        assert_eq!(doubts.last().map(|doubt| doubt.text.as_str()), Some(WITHOUT_DIGEST[0]));
    }

    type Change = fn(&mut RunRecord);

    /// A record whose text was changed was shown, bundled and compared as it stood.
    #[test]
    fn a_record_that_contradicts_itself_is_refused_by_what_does_first() {
        let outcomes =
            [between(1.0, 2.0), between(7.0, 8.0), Outcome::NotMeasured("no drive was pulled".into())];
        let cases: [(Change, &str); 14] = [
            (
                |r| r.claims[1].verdict = Verdict::Held,
                "claim \"c1\" is \"held\", which does not follow from 7.5 (7 to 8) and its bound, ≤ 5",
            ),
            (
                |r| r.claims[0].verdict = Verdict::NotHeld,
                "claim \"c0\" is \"not held\", which does not follow",
            ),
            (|r| r.claims[0].verdict = Verdict::Undecided, "claim \"c0\" is \"undecided\", which does not"),
            (|r| r.claims[0].verdict = Verdict::InDoubt, "claim \"c0\" is \"in doubt\", which does not"),
            (|r| r.claims[1].verdict = Verdict::NotJudged, "claim \"c1\" is \"not judged\", which does not"),
            (
                |r| r.claims[2].verdict = Verdict::Held,
                "claim \"c2\" is \"held\", which does not follow from nothing",
            ),
            (|r| r.claims[0].bound = None, "claim \"c0\" is \"held\" without a bound"),
            (
                |r| r.claims[0].estimate = Some(0.5),
                "claim \"c0\" has an estimate of 0.5 that is not in its interval",
            ),
            (|r| r.claims.push(r.claims[0].clone()), "claim \"c0\" stands there twice"),
            (|r| r.environment.stopped = true, "claim \"c0\" is \"held\", though the run was stopped"),
            (|r| r.verdict.standing = Standing::Held, "the run is \"held\", and its claims say \"not held\""),
            (|r| r.verdict.exit_status = 0, "exit_status is 0, and its claims say 1"),
            (|r| r.verdict.tally.promises.held = 60, "the tally is \"promises: 60 of 61 held, 1 not held"),
            (|r| r.claims[1].about = About::Published, "the run is \"not held\", and its claims say"),
        ];
        for (change, said) in cases {
            let mut record = record(&outcomes, false);
            change(&mut record);
            let refused = read(&record).expect_err(said).to_string();
            assert!(refused.contains(&format!("results.json contradicts itself: {said}")), "{refused}");
        }
    }
}
