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

/// The values of a scenario: lines `key = value # where from`. Values of a table `[published]` are published,
/// others chosen, unless their comment begins with another kind. Claims are no inputs.
pub fn inputs(scenario: &str) -> Vec<Input> {
    let (mut table, mut out) = (String::new(), Vec::new());
    for line in scenario.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_start_matches('[').split(']').next().unwrap_or_default().to_owned();
            continue;
        }
        let Some((key, rest)) = line.split_once(" = ").filter(|(key, _)| !key.starts_with('#')) else {
            continue;
        };
        if table == "claim" || ["name", "question", "id", "title"].contains(&key) {
            continue;
        }
        let (value, comment) = value_and_comment(rest);
        let said = KINDS.iter().find(|(word, _)| comment.starts_with(word)).map(|(_, kind)| *kind);
        let otherwise = if table.starts_with("published") { InputKind::Published } else { InputKind::Chosen };
        out.push(Input {
            name: if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") },
            value: value.trim_matches('"').to_owned(),
            kind: said.unwrap_or(otherwise),
            source: comment.to_owned(),
        });
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
}
