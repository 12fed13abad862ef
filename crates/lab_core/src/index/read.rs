//! What a run's folder says of it.

use std::path::Path;

use super::{Entry, State};
use crate::record::{RecordError, RunRecord};
use crate::verdict::Verdict;

fn silent(name: &str, question: &str, state: State) -> Entry {
    Entry { name: name.into(), question: question.into(), state }
}

/// One that could not be run.
pub(super) fn failed(name: &str, question: &str, why: &str) -> Entry {
    silent(name, question, State::Failed(format!("It could not be run: {why}.")))
}

/// One from its folder.
pub(super) fn entry(out: &Path, name: &str, question: &str) -> Entry {
    match RunRecord::read(&out.join(name).join("results.json")) {
        Ok(record) => silent(name, question, State::Run(Box::new(record))),
        Err(RecordError::Missing { .. }) => silent(name, question, State::NotRun),
        Err(error) => silent(name, question, State::Failed(format!("The record cannot be read: {error}."))),
    }
}

/// The claims that are not simply held, as (verdict, name): what is not held comes first, for a page shows a
/// few of them.
pub(super) fn open(record: &RunRecord) -> Vec<(&'static str, &str)> {
    let open = record.claims.iter().filter(|c| !matches!(c.verdict, Verdict::Held | Verdict::NotJudged));
    let mut open: Vec<_> = open.collect();
    open.sort_by_key(|claim| (claim.about, claim.verdict));
    open.into_iter().map(|claim| (claim.verdict.words(), claim.name.as_str())).collect()
}
