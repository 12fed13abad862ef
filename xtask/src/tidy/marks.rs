//! Marks of unfinished work, and meaningless module names.

use super::{Finding, Source};

/// Names that fit any content (style: modules are nouns of the field or verbs of a life cycle).
const NAMES_THAT_SAY_NOTHING: [&str; 7] =
    ["util", "utils", "common", "helper", "helpers", "manager", "handler"];

/// The marks; joined here, so that this file does not find itself.
fn marks() -> [String; 4] {
    [["FIX", "ME"], ["XX", "X"], ["todo", "!("], ["unimplemented", "!("]].map(|parts| parts.concat())
}

/// Checks one file.
pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    for (i, line) in source.text.lines().enumerate() {
        for mark in marks().iter().filter(|mark| has_word(line, mark)) {
            findings.push(Finding::error(
                &source.path,
                i + 1,
                format!("unfinished work: `{mark}` must not be committed"),
            ));
        }
    }
    let parts = source.path.split('/').map(|p| p.trim_end_matches(".rs"));
    for name in parts.filter(|p| NAMES_THAT_SAY_NOTHING.contains(p)) {
        findings.push(Finding::error(
            &source.path,
            0,
            format!("meaningless module name `{name}`: use a noun of the field"),
        ));
    }
}

/// Whether `word` stands in the line, and not as a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !joins(before) && (word.ends_with('(') || !joins(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::parsed;

    #[test]
    fn marks_are_found_as_words() {
        let text = format!("//! Doc.\n// {}: later\n// mkstemp {}{}\n", marks()[0], marks()[1], marks()[1]);
        let mut findings = Vec::new();
        check(&parsed("crates/a/src/util.rs", &text), &mut findings);
        let found: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("error: crates/a/src/util.rs:2: "), "{found:?}");
        assert_eq!(
            found[1],
            "error: crates/a/src/util.rs: meaningless module name `util`: use a noun of the field"
        );
    }
}
