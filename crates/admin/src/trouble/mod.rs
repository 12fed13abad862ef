//! What is wrong with an array: pure functions say it of a status, for `masu status`, the metrics and the
//! events. Every trouble has its kind and its object from the status, where they come from where the fault
//! arises; what to do is a function of these, never of the words of an error.

mod caches;
mod declaration;
mod drives;
mod groups;
mod hosts;
mod images;
mod missing;
mod nodes;
mod pools;
#[cfg(test)]
mod testing;
mod told;
mod tracker;
mod volumes;

use array::Severity;
use status::{Status, Trouble};

pub(crate) use declaration::{trouble_of_declaration, trouble_of_following};
pub(crate) use told::trouble;
pub(crate) use tracker::Tracker;

/// Everything that is wrong with an array. `since_ms` is not known here: [`Tracker`] has it.
pub(crate) fn trouble_of(status: &Status) -> Vec<Trouble> {
    let mut all = Vec::new();
    status.missing.iter().for_each(|of| missing::of_missing(of, status, &mut all));
    status.groups.iter().for_each(|group| {
        groups::of_group(group, &groups::lost_of(&group.name, status), &mut all);
    });
    status.pools.iter().for_each(|pool| pools::of_refused_writes(pool, status, &mut all));
    status.pools.iter().for_each(|pool| pools::of_pool(pool, &mut all));
    status.images.iter().for_each(|image| images::of_image(image, &mut all));
    status.drives.iter().for_each(|drive| drives::of_drive(drive, &mut all));
    status.caches.iter().for_each(|cache| caches::of_cache(cache, status, &mut all));
    let journals = status.caches.iter().flat_map(|cache| &cache.journals);
    journals.for_each(|journal| caches::of_journal(journal, status, &mut all));
    status.below_minimum.iter().for_each(|below| volumes::of_minimum(below, &mut all));
    status.failover.iter().for_each(|failover| nodes::of_failover(failover, &mut all));
    hosts::of_refused(&status.refused, &mut all);
    volumes::of_undeclared(&status.undeclared, &mut all);
    let unfinished = status.unfinished.iter();
    all.extend(unfinished.map(|(object, text, to_do)| {
        trouble(Severity::Error, object.clone(), "unfinished", text.clone(), to_do.clone())
    }));
    all.extend(status.state_fault.as_ref().map(|(cause, differs)| declaration::of_state(cause, *differs)));
    all
}

/// The worst first; of one severity in the order in which they were found.
pub(crate) fn sort(all: &mut [Trouble]) {
    all.sort_by_key(|t| t.severity != "error");
}
