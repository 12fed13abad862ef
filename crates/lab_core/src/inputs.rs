//! The inputs of a run: every value of its scenario, with where it comes from, as the scenario's own comments
//! say it.
//!
//! ```text
//!   [controller]
//!   command = "140us"     # calibrated: to the published 61 %
//! ```

use serde::{Deserialize, Serialize};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// The experiment states it.
    Published,
    /// The experiment does not state it, and this is ours.
    Chosen,
    /// Set so that a published statement comes out.
    Calibrated,
    /// Measured elsewhere.
    Measured,
}

/// A value of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Table and key.
    pub name: String,
    /// As the scenario has it.
    pub value: String,
    /// Where it comes from.
    pub kind: InputKind,
    /// What the scenario says of it; nothing where it says nothing.
    pub source: String,
}

const KINDS: [(&str, InputKind); 4] = [
    ("published", InputKind::Published),
    ("calibrated", InputKind::Calibrated),
    ("measured", InputKind::Measured),
    ("chosen", InputKind::Chosen),
];

/// Tables that say something of a run, and are no inputs of it.
const NO_INPUTS: [&str; 5] = ["claim", "range", "sweep", "source", "published_figure"];

/// Why a chosen input, or all of a table, is not varied: stands in its comment.
const NO_RANGE: &str = "no range:";

/// The values of a scenario: lines `key = value # where from`. Values of a table `[published]` are published,
/// others chosen, unless their comment begins with another kind. Claims are no inputs.
pub fn inputs(scenario: &str) -> Vec<Input> {
    with_reasons(scenario).into_iter().map(|(input, _)| input).collect()
}

/// Names of the inputs that are ours and do not say why they have no range.
pub fn unexplained(scenario: &str) -> Vec<String> {
    let is_ours = |input: &Input| matches!(input.kind, InputKind::Chosen | InputKind::Calibrated);
    let all = with_reasons(scenario).into_iter().filter(|(input, has_reason)| is_ours(input) && !has_reason);
    all.map(|(input, _)| input.name).collect()
}

/// The inputs, and whether each says why it has no range, or a table that it is in does.
fn with_reasons(scenario: &str) -> Vec<(Input, bool)> {
    let (mut table, mut out, mut reasons) = (String::new(), Vec::new(), Vec::new());
    let is_in = |table: &str, outer: &str| {
        table.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    for line in scenario.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_start_matches('[').split(']').next().unwrap_or_default().to_owned();
            if line.contains(NO_RANGE) {
                reasons.push(table.clone());
            }
            continue;
        }
        let Some((key, rest)) = line.split_once(" = ").filter(|(key, _)| !key.starts_with(['#', '"'])) else {
            continue;
        };
        let is_other = NO_INPUTS.iter().any(|other| is_in(&table, other));
        if is_other || ["name", "question", "cannot_say", "id", "title"].contains(&key) {
            continue;
        }
        let (value, comment) = value_and_comment(rest);
        let said = KINDS.iter().find(|(word, _)| comment.starts_with(word)).map(|(_, kind)| *kind);
        let otherwise = if table.starts_with("published") { InputKind::Published } else { InputKind::Chosen };
        let input = Input {
            name: if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") },
            value: value.trim_matches('"').to_owned(),
            kind: said.unwrap_or(otherwise),
            source: comment.to_owned(),
        };
        let has_reason = comment.contains(NO_RANGE) || reasons.iter().any(|outer| is_in(&table, outer));
        out.push((input, has_reason));
    }
    out
}

/// A comment begins with the first `#` outside of quotes.
fn value_and_comment(text: &str) -> (&str, &str) {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return (text[..at].trim(), text[at + 1..].trim()),
            _ => {}
        }
    }
    (text.trim(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_kind_that_their_comments_say() {
        let text = "name = \"x\"\n[published]\nvms = 10 # VMs\n[array]\ncost = \"1us\" # calibrated: to the published 61 %\npage = \"16 # MiB\"\n# depth = 1\n[[claim]]\nid = \"a\"\n";
        let got = inputs(text);
        let short: Vec<_> =
            got.iter().map(|i| (i.name.as_str(), i.value.as_str(), i.kind, i.source.as_str())).collect();
        assert_eq!(
            short,
            [
                ("published.vms", "10", InputKind::Published, "VMs"),
                ("array.cost", "1us", InputKind::Calibrated, "calibrated: to the published 61 %"),
                ("array.page", "16 # MiB", InputKind::Chosen, ""),
            ]
        );
    }

    #[test]
    fn an_input_of_ours_says_why_it_has_no_range_or_its_table_does() {
        let text = "[run] # no range: how long\na = 1\n[run.more]\nb = 1\n[runs]\nc = 1 # chosen\nd = 1 # chosen, no range: x\n\
            e = 1 # measured\nf = 1 # calibrated\n[published]\ng = 1\n[[range]]\ninput = \"runs.c\"\nlow = 1\n";
        assert_eq!(unexplained(text), ["runs.c", "runs.f"]);
    }
}
