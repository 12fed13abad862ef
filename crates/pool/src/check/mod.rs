//! Inspection of a pool that nobody has open: everything that is wrong with its metadata, in words. Nothing is written.
//!
//! ```text
//!   superblocks of all groups ──> the newest ──> of each holder: checkpoint, journal ──> catalog ──> maps, names, records
//!                                                └──────────── held against each other ───┘
//! ```
//!
//! What a power cut leaves is told apart from damage: opening puts it right.

mod catalog;
mod copies;
mod superblocks;

use std::fmt;

use raid::Group;

/// Further findings are only counted: a map that makes no sense would fill a terminal for hours.
const FINDINGS_MAX: usize = 10_000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where.
    pub place: String,
    /// What.
    pub text: String,
    /// A power cut leaves this, too, and opening the pool puts it right.
    pub harmless: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = if self.harmless { " (a power cut leaves this; opening puts it right)" } else { "" };
        write!(f, "{}: {}{note}", self.place, self.text)
    }
}

/// Findings as they come.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
    more: usize,
    /// What comes now is about a copy that the pool does not count on.
    behind: bool,
}

impl Report {
    fn damage(&mut self, place: &str, text: impl Into<String>) {
        self.add(place, text.into(), false);
    }

    fn harmless(&mut self, place: &str, text: impl Into<String>) {
        self.add(place, text.into(), true);
    }

    fn add(&mut self, place: &str, text: String, harmless: bool) {
        if self.findings.len() == FINDINGS_MAX {
            self.more += 1;
        } else {
            let harmless = harmless || self.behind;
            self.findings.push(Finding { place: place.to_owned(), text, harmless });
        }
    }

    fn finish(mut self) -> Vec<Finding> {
        if self.more > 0 {
            let text = format!("{} more findings", self.more);
            self.findings.push(Finding { place: "check".to_owned(), text, harmless: false });
        }
        self.findings
    }
}

/// Examines the pool that lies on these groups, given in any order; no other handle of it is open. All findings, none when all is
/// well. Nothing is written.
pub async fn check(groups: &[Group]) -> Vec<Finding> {
    let mut report = Report::default();
    let found = superblocks::read(groups, &mut report).await;
    let Some(reference) = superblocks::reference(&found, &mut report) else { return report.finish() };
    superblocks::compare(&found, &reference, &mut report);
    let (mut copies, mut any_behind) = (Vec::new(), false);
    for holder in &reference.table.holders {
        let id = reference.table.groups[*holder as usize].group_id;
        let Some(given) = found.iter().find(|f| f.group.id() == id) else { continue };
        // One that a cut left behind may be overwritten by the recovery from the other, and that may be cut, too.
        report.behind = copies::is_behind(given, &reference);
        any_behind |= report.behind;
        if let Some(copy) = copies::read(given, &reference, &mut report).await {
            catalog::check(&copy, &reference, &mut report);
            copies.push(copy);
        }
    }
    report.behind = any_behind;
    copies::compare(&copies, &mut report);
    report.behind = false;
    if copies.is_empty() {
        report.damage(&format!("pool {}", reference.name), "no copy of its metadata can be used");
    }
    report.finish()
}
