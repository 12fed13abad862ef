//! The page over all verifications: each with its question, its answer, what held and what did not, and the
//! way to its report.
//!
//! It is made from the records that lie there: what was not run, or could not be, is shown as that.

mod page;
mod read;

use std::path::Path;

use serde::Serialize;

use crate::record::RunRecord;
use crate::report::{WriteError, write_json};
use crate::verdict::{Standing, Tally};

/// Ends the name of a verification that was run on real hardware besides.
pub const REAL: &str = "-real";

/// What there is of a verification.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum State {
    /// Its record.
    Run(Box<RunRecord>),
    /// It began and failed, and why.
    Failed(String),
    NotRun,
}

/// One verification on the page.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Entry {
    /// As the command line calls it.
    pub name: String,
    pub question: String,
    /// What there is of it.
    pub state: State,
}

impl Entry {
    /// In a word: the run's verdict, or that there is none.
    pub fn words(&self) -> &'static str {
        match &self.state {
            State::Run(record) => record.verdict.standing.words(),
            State::Failed(_) => "could not be run",
            State::NotRun => "not run",
        }
    }

    /// The answer, or why there is none.
    pub fn answer(&self) -> String {
        match &self.state {
            State::Run(record) => record.verdict.answer.clone(),
            State::Failed(why) => why.clone(),
            State::NotRun => format!("No answer yet: masu verify {} gives one.", self.name),
        }
    }

    /// The counts of its claims.
    pub fn tally(&self) -> Option<&Tally> {
        match &self.state {
            State::Run(record) => Some(&record.verdict.tally),
            State::Failed(_) | State::NotRun => None,
        }
    }

    fn standing(&self) -> Option<Standing> {
        match &self.state {
            State::Run(record) => Some(record.verdict.standing),
            State::Failed(_) | State::NotRun => None,
        }
    }
}

/// Reads what lies under `out`, a folder for each of the verifications: their names and questions. `real`:
/// the names of those that this run does on real hardware besides; what an earlier run left of others is not
/// this run's. `failed`: those that began in this run and could not end, and why; their older records are not
/// shown.
pub fn read_all(
    out: &Path,
    verifications: &[(&str, &str)],
    real: &[&str],
    failed: &[(String, String)],
) -> Vec<Entry> {
    let one = |name: &str, question| match failed.iter().find(|(failed, _)| failed == name) {
        Some((_, why)) => read::failed(name, question, why),
        None => read::entry(out, name, question),
    };
    let mut entries = Vec::new();
    for (name, question) in verifications {
        entries.push(one(name, question));
        let of_real = format!("{name}{REAL}");
        entries.extend(real.contains(&of_real.as_str()).then(|| one(&of_real, question)));
    }
    entries
}

/// The exit status over all of them: 2 when one could not be run, 1 when a promise of one is not held, 3 when
/// some are undecided or in doubt or were not run, 0 when every promise that was judged is held.
pub fn exit_status(entries: &[Entry]) -> u8 {
    let of = |entry: &Entry| match &entry.state {
        State::Run(record) => record.verdict.exit_status,
        State::Failed(_) => 2,
        State::NotRun => 3,
    };
    let has = |status: u8| entries.iter().any(|entry| of(entry) == status);
    [2, 1, 3].into_iter().find(|status| has(*status)).unwrap_or(0)
}

/// One sentence over all of them, and how many claims there are in all.
pub fn answer(entries: &[Entry]) -> String {
    let of = |wanted: &dyn Fn(&Entry) -> bool| -> Vec<&str> {
        entries.iter().filter(|e| wanted(e)).map(|e| e.name.as_str()).collect()
    };
    let standing = |standing: Standing| of(&|e| e.standing() == Some(standing));
    let held = standing(Standing::Held);
    let mut text = match held.len() {
        n if n == entries.len() => format!("All {n} verifications hold every claim that was judged"),
        0 => "No verification holds every claim".to_owned(),
        n => format!("{n} of {} verifications hold every claim that was judged", entries.len()),
    };
    // A run with an undecided promise is undecided: what it does not reproduce is said all the same.
    let not_reproduced = of(&|e| e.tally().is_some_and(|tally| tally.published.not_held > 0));
    for (names, words) in [
        (standing(Standing::NotHeld), "does not hold every promise"),
        (not_reproduced, "does not reproduce every published statement"),
        (standing(Standing::Undecided), "is undecided"),
        (standing(Standing::InDoubt), "is in doubt"),
        (standing(Standing::NotJudged), "is not judged"),
        (of(&|e| matches!(e.state, State::Failed(_))), "could not be run"),
        (of(&|e| matches!(e.state, State::NotRun)), "was not run"),
    ] {
        if !names.is_empty() {
            let words = if names.len() > 1 { plural(words) } else { words.to_owned() };
            text += &format!("; {} {words}", joined(&names));
        }
    }
    text + "."
}

/// The claims of all runs, counted as each run counts them.
pub fn tally(entries: &[Entry]) -> Tally {
    let mut all = Tally::default();
    entries.iter().filter_map(Entry::tally).for_each(|tally| all.add(tally));
    all
}

fn plural(words: &str) -> String {
    words.replacen("does", "do", 1).replacen("is ", "are ", 1).replacen("was", "were", 1)
}

fn joined(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// The index for a machine.
#[derive(Serialize)]
struct Index<'a> {
    answer: String,
    tally: Tally,
    exit_status: u8,
    verifications: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    question: &'a str,
    verdict: &'static str,
    answer: String,
    tally: Option<&'a Tally>,
}

/// Writes index.html and, for a machine, index.json into `out`. While runs are still to come the page says
/// how many, and reloads itself.
///
/// # Errors
///
/// When a file cannot be written.
pub fn write(out: &Path, entries: &[Entry], (command, to_come): (&str, usize)) -> Result<(), WriteError> {
    let answer = answer(entries);
    let page = page::page(entries, &answer, (command, to_come));
    let path = out.join("index.html");
    std::fs::write(&path, page)
        .map_err(|e| WriteError::File { path: path.display().to_string(), cause: e.to_string() })?;
    let verifications = entries.iter().map(|entry| Row {
        name: &entry.name,
        question: &entry.question,
        verdict: entry.words(),
        answer: entry.answer(),
        tally: entry.tally(),
    });
    let verifications = verifications.collect();
    let (tally, exit_status) = (tally(entries), exit_status(entries));
    write_json(&out.join("index.json"), &Index { answer, tally, exit_status, verifications })
}

#[cfg(test)]
mod tests;
