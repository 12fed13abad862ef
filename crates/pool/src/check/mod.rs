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
mod report;
mod superblocks;

use raid::Group;

pub use self::report::Finding;
use self::report::Report;

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
