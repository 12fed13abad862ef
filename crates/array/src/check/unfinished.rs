//! What a kill has interrupted, as the array has recorded it: the next start completes it.

use super::examination::{Examination, Finding};
use crate::config::{Config, Made};

/// What is said of it.
const AT_NEXT_START: &str = "will be completed at the next start";

/// Says of findings that the array has a record of what it was doing there; they are no damage.
pub(super) fn pass_over(config: &Config, made: &Made, examination: &mut Examination) {
    for finding in examination.findings.iter_mut().filter(|finding| !finding.harmless) {
        if let Some(what) = interrupted(config, made, finding) {
            finding.text = format!("{}; {what} was interrupted, and {AT_NEXT_START}", finding.text);
            finding.harmless = true;
        }
    }
}

fn interrupted(config: &Config, made: &Made, finding: &Finding) -> Option<&'static str> {
    let (kind, rest) = finding.place.split_once(' ')?;
    let name = rest.split(": ").next().unwrap_or(rest);
    match kind {
        "volume" if made.discarded.contains_key(name) => Some("its deletion"),
        "volume" => match config.volume(name)? {
            of if made.deleted_pools.contains(&of.pool) => Some("the deletion of its pool"),
            // Only what is not there at all was never made.
            _ if !made.volumes.contains(name) && finding.text.starts_with("declared") => Some("its creation"),
            _ => None,
        },
        "pool" if made.deleted_pools.contains(name) => Some("its deletion"),
        "pool" if made.exported_pools.contains(name) => Some("its export"),
        "group" => of_group(config, made, name),
        "drive" => {
            let group = config.groups.iter().find(|group| group.drives.iter().any(|drive| drive == name))?;
            of_group(config, made, &group.name)
        }
        _ => None,
    }
}

/// A group that is not made whole has nothing of a host; one of a pool that leaves names no array.
fn of_group(config: &Config, made: &Made, name: &str) -> Option<&'static str> {
    if !made.has_group(name) {
        return Some("the creation of its group");
    }
    let leaves = |pool: &String| config.pool(pool)?.groups.iter().find(|group| *group == name);
    made.exported_pools.iter().find_map(leaves).map(|_| "the export of its pool")
}
