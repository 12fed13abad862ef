//! Inspection of a closed pool: reports everything that is wrong with its metadata. Writes nothing.
//!
//! ```text
//!   superblocks of all groups ──> the newest ──> of each holder: checkpoint, journal ──> catalog ──> maps, names, records
//!                                                └──────────── held against each other ───┘
//! ```
//!
//! The result distinguishes the effects of a power failure, which opening repairs, from damage.

mod catalog;
mod copies;
mod report;
mod superblocks;

use raid::Group;

pub use self::report::Finding;
use self::report::Report;

/// Inspects the pool on these groups, given in any order; no other handle of it may be open. Returns all
/// findings. Writes nothing.
pub async fn check(groups: &[Group]) -> Vec<Finding> {
    let mut report = Report::default();
    let found = superblocks::read(groups, &mut report).await;
    let Some(reference) = superblocks::reference(&found, &mut report) else { return report.finish() };
    superblocks::compare(&found, &reference, &mut report);
    let holders: Vec<_> = reference
        .table
        .holders
        .iter()
        .filter_map(|holder| {
            let id = reference.table.groups[*holder as usize].group_id;
            found.iter().find(|f| f.group.id() == id)
        })
        .collect();
    let any_behind = holders.iter().any(|given| copies::is_behind(given, &reference));
    let mut copies = Vec::new();
    for given in holders {
        // A copy that an interruption left behind may be overwritten by the recovery from the other one,
        // which may be interrupted, too.
        report.behind = copies::is_behind(given, &reference);
        if let Some(copy) = copies::read(given, (&reference, any_behind), &mut report).await {
            catalog::check(&copy, &reference, &mut report);
            copies.push(copy);
        }
    }
    report.behind = any_behind;
    copies::compare(&copies, &mut report);
    report.behind = false;
    if copies.is_empty() {
        report.damage(&format!("pool {}", reference.name), "no usable copy of the metadata");
    }
    report.finish()
}
