//! Checks the superblocks, separately and against the newest of all.

use block::{Device, Pieces};
use raid::Group;

use super::report::Report;
use crate::layout::{METADATA_BLOCK, SLOTS_AT};
use crate::superblock::{Superblock, VERSION};

/// The two slots of a group.
pub(super) struct Found<'a> {
    pub(super) group: &'a Group,
    /// The valid ones and their slots, the newest first.
    pub(super) superblocks: Vec<(usize, Superblock)>,
    /// Slots with other content.
    broken: Vec<usize>,
}

fn place(slot: usize, group: &Group) -> String {
    format!("superblock in slot {slot} of group {}", group.name())
}

/// Reads both slots of all groups.
pub(super) async fn read<'a>(groups: &'a [Group], report: &mut Report) -> Vec<Found<'a>> {
    let mut all = Vec::new();
    for group in groups {
        let mut superblocks = Vec::new();
        let mut broken = Vec::new();
        for (slot, at) in SLOTS_AT.into_iter().enumerate() {
            let mut bytes = Pieces::new();
            if let Err(error) = group.read(at, METADATA_BLOCK as usize, &mut bytes).await {
                report.damage(&place(slot, group), format!("cannot be read: {error}"));
                continue;
            }
            let bytes = bytes.joined();
            match (Superblock::decode(&bytes), Superblock::newer_version(&bytes)) {
                (Some(superblock), _) => superblocks.push((slot, superblock)),
                (None, Some(version)) => {
                    let text = format!("newer format version {version}, this masu reads up to {VERSION}");
                    report.damage(&place(slot, group), text);
                }
                (None, None) if bytes.iter().any(|b| *b != 0) => broken.push(slot),
                (None, None) => {}
            }
        }
        superblocks.sort_by_key(|(_, s)| std::cmp::Reverse(s.generation));
        all.push(Found { group, superblocks, broken });
    }
    all
}

/// The newest superblock that names a checkpoint.
pub(super) fn reference(found: &[Found<'_>], report: &mut Report) -> Option<Superblock> {
    let all = || found.iter().flat_map(|f| &f.superblocks).map(|(_, s)| s);
    // With several pools, the one with the most superblocks is checked; the others are foreign.
    let weight = |s: &&Superblock| (all().filter(|o| o.pool_id == s.pool_id).count(), s.generation);
    if let Some(newest) = all().filter(|s| s.checkpoint_blocks > 0).max_by_key(weight) {
        return Some(newest.clone());
    }
    match all().next() {
        Some(s) => {
            report.harmless(&format!("pool {}", s.name), "creation was interrupted: the pool is empty")
        }
        None => report.damage("pool", "no group has a valid superblock"),
    }
    for (f, slot) in found.iter().flat_map(|f| f.broken.iter().map(move |slot| (f, *slot))) {
        report.damage(&place(slot, f.group), "torn or damaged");
    }
    None
}

/// Compares all superblocks, and the groups themselves, with the newest.
pub(super) fn compare(found: &[Found<'_>], reference: &Superblock, report: &mut Report) {
    for (i, entry) in reference.table.groups.iter().enumerate() {
        let pool = format!("pool {}", reference.name);
        let Some(given) = found.iter().find(|f| f.group.id() == entry.group_id) else {
            report.damage(&pool, format!("group {i} ({}) is missing", entry.group_id));
            continue;
        };
        let (needed, len) = (entry.len_bytes(), given.group.geometry().len_bytes);
        if len < needed {
            let text = format!("too small: {len} bytes, but the pool uses {needed}");
            report.damage(&format!("group {}", given.group.name()), text);
        }
        if entry.pages_at < reference.layout.checkpoint_at(1) + reference.layout.checkpoint_area {
            let text = format!("the pages begin at byte {}, inside the metadata", entry.pages_at);
            report.damage(&format!("group {}", given.group.name()), text);
        }
    }
    for f in found {
        check_slots(f, reference, report);
        for (slot, superblock) in &f.superblocks {
            compare_one(f, *slot, superblock, reference, report);
        }
    }
    compare_generations(found, reference, report);
}

fn compare_one(
    f: &Found<'_>,
    slot: usize,
    superblock: &Superblock,
    reference: &Superblock,
    report: &mut Report,
) {
    let place = place(slot, f.group);
    if superblock.pool_id != reference.pool_id {
        let text = format!("belongs to another pool: {} ({})", superblock.name, superblock.pool_id);
        return report.damage(&place, text);
    }
    if superblock.generation % 2 != slot as u64 {
        report.damage(&place, format!("generation {} belongs in the other slot", superblock.generation));
    }
    let mut differs = |what: &str, same: bool| {
        if !same {
            report.damage(&place, format!("the {what} differs from the newest superblock"));
        }
    };
    differs("pool name", superblock.name == reference.name);
    differs("page size", superblock.page_bytes == reference.page_bytes);
    differs("layout", superblock.layout == reference.layout);
    let position = superblock.table.position(f.group.id());
    if position != Some(superblock.group_index as usize) {
        let text = match position {
            Some(i) => {
                format!("written for group {}, but found on group {i}", superblock.group_index)
            }
            None => "does not name its group".to_owned(),
        };
        report.damage(&place, text);
    }
    if reference.table.position(f.group.id()).is_none() {
        report.harmless(&place, "the group is not in the pool: it was removed, or being added");
    }
}

/// After any power failure one of the two is valid, except on a group that is being added, while its first
/// one is written.
fn check_slots(f: &Found<'_>, reference: &Superblock, report: &mut Report) {
    let first = (reference.generation % 2) as usize;
    for slot in &f.broken {
        let interrupted = !f.superblocks.is_empty() || f.broken == [first];
        report.add(&place(*slot, f.group), "torn or damaged".to_owned(), interrupted);
    }
    if f.superblocks.is_empty() && f.broken.is_empty() {
        let place = format!("group {}", f.group.name());
        match reference.table.position(f.group.id()) {
            Some(_) => report.damage(&place, "no superblock"),
            None => report.harmless(&place, "not in the pool"),
        }
    }
}

/// Superblocks of one generation must be equal. (Those of creation on groups without metadata name no
/// checkpoint yet.)
fn compare_generations(found: &[Found<'_>], reference: &Superblock, report: &mut Report) {
    let all: Vec<(usize, &Found<'_>, &Superblock)> = found
        .iter()
        .flat_map(|f| f.superblocks.iter().map(move |(slot, s)| (*slot, f, s)))
        .filter(|(_, _, s)| s.pool_id == reference.pool_id && s.generation > 0)
        .collect();
    for (i, (slot, f, s)) in all.iter().enumerate() {
        let alike = |other: &Superblock| {
            let blocks = other.checkpoint_blocks;
            let early = s.checkpoint_blocks == 0 || blocks == 0;
            let mine = Superblock { group_index: other.group_index, ..(*s).clone() };
            let mine = if early { Superblock { checkpoint_blocks: blocks, ..mine } } else { mine };
            mine == *other
        };
        let other = all[..i].iter().find(|(_, _, o)| o.generation == s.generation && !alike(o));
        if let Some((_, first, _)) = other {
            let text =
                format!("generation {} differs from the one on group {}", s.generation, first.group.name());
            report.damage(&place(*slot, f.group), text);
        }
    }
}
