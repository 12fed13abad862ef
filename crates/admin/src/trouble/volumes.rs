//! Volumes that no declaration has, and promises that are not kept.

use array::Severity;
use status::{BelowMinimum, Trouble};

use super::told::trouble;

/// Undeclared volumes that are named.
const UNDECLARED_MAX: usize = 8;

/// Volumes that no host can have, as far as they are named.
pub(super) fn of_undeclared(undeclared: &[(String, String)], all: &mut Vec<Trouble>) {
    for (pool, name) in undeclared.iter().take(UNDECLARED_MAX) {
        let text = format!("is in pool {pool} with its data, and no declaration has it: it takes space");
        let to_do = format!(
            "to have it as it is, add a [[volume]] with name = \"{name}\", pool = \"{pool}\" and its size to what masu \
             config export prints, and apply that: masu config import FILE; or delete it: masu volume delete {name}"
        );
        all.push(trouble(Severity::Warning, format!("volume {name}"), "undeclared", text, to_do));
    }
    if let Some(more) = undeclared.len().checked_sub(UNDECLARED_MAX).filter(|more| *more > 0) {
        let text = format!("{more} more volumes are in its pools, and no declaration has them");
        all.push(trouble(Severity::Warning, "array", "undeclared", text, "see masu check DATA"));
    }
}

/// A volume, an image or a policy that gets less than it is promised.
pub(super) fn of_minimum(below: &BelowMinimum, all: &mut Vec<Trouble>) {
    let text = format!("gets less than its policy promises: {}", below.text);
    let to_do = "lower other minimums, or add drives to the pool: masu policy list";
    all.push(trouble(Severity::Warning, below.object.clone(), "minimum", text, to_do));
}
