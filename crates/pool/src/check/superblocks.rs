//! The superblocks: each by itself, and against the newest of all.

use block::{Device, Pieces};
use raid::Group;

use super::report::Report;
use crate::layout::{METADATA_BLOCK, SLOTS_AT};
use crate::superblock::{Superblock, VERSION};

/// What a group's two slots hold.
pub(super) struct Found<'a> {
    pub(super) group: &'a Group,
    /// The whole ones and their slots, the newest first.
    pub(super) superblocks: Vec<(usize, Superblock)>,
    /// Slots with something else in them.
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
                report.damage(&place(slot, group), format!("it cannot be read: {error}"));
                continue;
            }
            let bytes = bytes.joined();
            match (Superblock::decode(&bytes), Superblock::newer_version(&bytes)) {
                (Some(superblock), _) => superblocks.push((slot, superblock)),
                (None, Some(version)) => {
                    let text = format!(
                        "it is of newer format version {version}, this program reads up to {VERSION}"
                    );
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
    // Of several pools the one with the most superblocks is meant; the others are strangers.
    let weight = |s: &&Superblock| (all().filter(|o| o.pool_id == s.pool_id).count(), s.generation);
    if let Some(newest) = all().filter(|s| s.checkpoint_blocks > 0).max_by_key(weight) {
        return Some(newest.clone());
    }
    match all().next() {
        Some(s) => {
            report.harmless(&format!("pool {}", s.name), "its creation was interrupted: it holds nothing")
        }
        None => report.damage("pool", "no group has a whole superblock"),
    }
    for (f, slot) in found.iter().flat_map(|f| f.broken.iter().map(move |slot| (f, *slot))) {
        report.damage(&place(slot, f.group), "it is not whole");
    }
    None
}

/// Holds all superblocks, and the groups themselves, against the newest.
pub(super) fn compare(found: &[Found<'_>], reference: &Superblock, report: &mut Report) {
    for (i, entry) in reference.table.groups.iter().enumerate() {
        let pool = format!("pool {}", reference.name);
        let Some(given) = found.iter().find(|f| f.group.id() == entry.group_id) else {
            report.damage(&pool, format!("its group {i} ({}) is missing", entry.group_id));
            continue;
        };
        let (needed, len) = (entry.len_bytes(), given.group.geometry().len_bytes);
        if len < needed {
            let text = format!("it has {len} bytes, the pool uses {needed}");
            report.damage(&format!("group {}", given.group.name()), text);
        }
        if entry.pages_at < reference.layout.checkpoint_at(1) + reference.layout.checkpoint_area {
            let text = format!("its pages begin at byte {}, within the metadata", entry.pages_at);
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
        let text = format!("it is of another pool: {} ({})", superblock.name, superblock.pool_id);
        return report.damage(&place, text);
    }
    if superblock.generation % 2 != slot as u64 {
        report.damage(&place, format!("generation {} belongs into the other slot", superblock.generation));
    }
    let mut differs = |what: &str, same: bool| {
        if !same {
            report.damage(&place, format!("its {what} is not that of the newest superblock"));
        }
    };
    differs("pool name", superblock.name == reference.name);
    differs("page size", superblock.page_bytes == reference.page_bytes);
    differs("layout", superblock.layout == reference.layout);
    let position = superblock.table.position(f.group.id());
    if position != Some(superblock.group_index as usize) {
        let text = match position {
            Some(i) => {
                format!("it says that it is on group {}, but this is group {i}", superblock.group_index)
            }
            None => "it does not name the group that it is on".to_owned(),
        };
        report.damage(&place, text);
    }
    if reference.table.position(f.group.id()).is_none() {
        report.harmless(&place, "the group is not in the pool: it left, or was about to come");
    }
}

/// After any power cut one of the two is whole; but a group that is about to come has none yet when the first is being written.
fn check_slots(f: &Found<'_>, reference: &Superblock, report: &mut Report) {
    let first = (reference.generation % 2) as usize;
    for slot in &f.broken {
        let interrupted = !f.superblocks.is_empty() || f.broken == [first];
        report.add(&place(*slot, f.group), "it is not whole".to_owned(), interrupted);
    }
    if f.superblocks.is_empty() && f.broken.is_empty() {
        let place = format!("group {}", f.group.name());
        match reference.table.position(f.group.id()) {
            Some(_) => report.damage(&place, "it has no superblock"),
            None => report.harmless(&place, "it is not in the pool"),
        }
    }
}

/// Superblocks of one generation say the same. (Those of creation on groups without metadata name no checkpoint yet.)
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
            let text = format!("generation {} is another one on group {}", s.generation, first.group.name());
            report.damage(&place(*slot, f.group), text);
        }
    }
}
