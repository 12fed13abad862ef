//! The copies of the metadata: each is read to its end, and copies with the same last commit must be equal.

use block::{Data, Device, Pieces};

use super::report::Report;
use super::superblocks::Found;
use crate::catalog::{Catalog, Cataloged};
use crate::checkpoint::{Unpacker, block_body};
use crate::journal::{claims, read_half};
use crate::layout::CHECKPOINT_BLOCK;
use crate::recover::read_journal;
use crate::superblock::Superblock;

/// The state of a holder's copy.
pub(super) struct Copy {
    /// The name of the group.
    pub(super) group: String,
    pub(super) catalog: Catalog,
    /// The last commit.
    sequence: u64,
}

/// Whether a holder has only an older superblock than the newest.
pub(super) fn is_behind(given: &Found<'_>, reference: &Superblock) -> bool {
    let mine = given.superblocks.iter().filter(|(_, s)| s.pool_id == reference.pool_id);
    mine.map(|(_, s)| s.generation).max().unwrap_or(0) < reference.generation
}

/// Reads the copy of a holder as opening does: checkpoint and journal of the newest superblock, or of the one
/// before. `any_behind`: of the newest one some holder has none. That holder may have a later commit in the
/// journal of its own; the recovery from it overwrites the newest checkpoint here, and may be interrupted.
pub(super) async fn read(
    given: &Found<'_>,
    (reference, any_behind): (&Superblock, bool),
    report: &mut Report,
) -> Option<Copy> {
    let mine = || given.superblocks.iter().map(|(_, s)| s).filter(|s| s.pool_id == reference.pool_id);
    if is_behind(given, reference) {
        let newest = mine().map(|s| s.generation).max().unwrap_or(0);
        let place = format!("metadata on group {}", given.group.name());
        let text = format!(
            "ends with generation {newest}, but the pool has generation \
            {}",
            reference.generation
        );
        report.harmless(&place, text);
    }
    let (usable, behind) = (|| mine().filter(|s| s.checkpoint_blocks > 0), report.behind);
    for superblock in usable() {
        let has_older = usable().any(|other| other.generation < superblock.generation);
        report.behind = behind || any_behind && has_older;
        let catalog = read_checkpoint(given, superblock, report).await;
        report.behind = behind;
        let Some(catalog) = catalog else { continue };
        let (pages, entries_max) = (reference.table.next_page, superblock.layout.entries_max());
        return read_journals(given, superblock, Catalog { pages, entries_max, ..catalog }, report).await;
    }
    let place = format!("metadata on group {}", given.group.name());
    report.damage(&place, "no usable checkpoint");
    None
}

/// Reads every block; returns the catalog if all are valid.
async fn read_checkpoint(given: &Found<'_>, superblock: &Superblock, report: &mut Report) -> Option<Catalog> {
    let (id, generation) = (superblock.pool_id, superblock.generation);
    let place = format!("checkpoint {generation} on group {}", given.group.name());
    let blocks = superblock.checkpoint_blocks;
    if u64::from(blocks) * CHECKPOINT_BLOCK > superblock.layout.checkpoint_area {
        report.damage(&place, format!("{blocks} blocks exceed the checkpoint area"));
        return None;
    }
    // Page numbers are checked later, for all entries.
    let mut unpacker = Some(Unpacker::new(id, generation, u32::MAX, u64::MAX));
    for index in 0..blocks {
        let at = superblock.layout.checkpoint_at(generation) + u64::from(index) * CHECKPOINT_BLOCK;
        let fault = match read_block(given, at).await {
            Ok(block) => match block_body(id, generation, index, &block) {
                Ok(_) => unpacker.as_mut().and_then(|u| u.push(&block).err()).map(|e| e.to_string()),
                Err(cause) => Some(cause.to_owned()),
            },
            Err(error) => Some(format!("cannot be read: {error}")),
        };
        if let Some(fault) = fault {
            report.damage(&place, format!("block {index}: {fault}"));
            unpacker = None;
        }
    }
    match unpacker?.finish() {
        Ok(catalog) => Some(catalog),
        Err(error) => {
            report.damage(&place, error.to_string());
            None
        }
    }
}

async fn read_block(given: &Found<'_>, at: u64) -> Result<Data, block::BlockError> {
    let mut pieces = Pieces::new();
    given.group.read(at, CHECKPOINT_BLOCK as usize, &mut pieces).await?;
    Ok(pieces.joined())
}

/// Applies both halves of the journal. A record that cannot be applied ends it; the state before it is still
/// checked.
async fn read_journals(
    given: &Found<'_>,
    superblock: &Superblock,
    mut catalog: Catalog,
    report: &mut Report,
) -> Option<Copy> {
    let (id, mut sequence) = (superblock.pool_id, superblock.sequence);
    let group = given.group.name().to_owned();
    let mut goes_on = true;
    for generation in [superblock.generation, superblock.generation + 1] {
        let place = format!("journal {generation} on group {group}");
        let half = match read_journal(given.group, superblock, generation, goes_on.then_some(sequence)).await
        {
            Ok(half) => half,
            Err(error) => {
                report.damage(&place, format!("cannot be read: {error}"));
                break;
            }
        };
        let outcome = match goes_on {
            true => read_half(id, &half, generation, sequence, |bytes| catalog.replay(bytes)),
            // The half before was not closed, so nothing later may be here.
            false => read_half(id, &half, generation, u64::MAX - 1, |_| Ok(())),
        };
        match outcome {
            Err(error) => report.damage(&place, error.to_string()),
            Ok(end) if goes_on => {
                if !end.last && claims(id, &half, end.len, generation) {
                    let text = format!("the frame after commit {} is incomplete", end.sequence);
                    report.harmless(&place, text);
                }
                (sequence, goes_on) = (end.sequence, end.last);
            }
            Ok(_) => {}
        }
    }
    Some(Copy { group, catalog, sequence })
}

/// Compares the copies.
pub(super) fn compare(copies: &[Copy], report: &mut Report) {
    let [one, other] = copies else { return };
    let place = format!("metadata on groups {} and {}", one.group, other.group);
    match one.sequence.abs_diff(other.sequence) {
        0 => compare_catalogs(&one.catalog, &other.catalog, &place, report),
        // The only commit that was not acknowledged.
        1 => report.harmless(
            &place,
            format!("one copy ends with commit {}, the other with {}", one.sequence, other.sequence),
        ),
        _ => report.damage(
            &place,
            format!("one copy ends with commit {}, the other with {}", one.sequence, other.sequence),
        ),
    }
}

fn compare_catalogs(one: &Catalog, other: &Catalog, place: &str, report: &mut Report) {
    let mut expect = |what: String, same: bool| {
        if !same {
            report.damage(place, format!("the copies differ in {what}"));
        }
    };
    expect("the thresholds".to_owned(), one.thresholds == other.thresholds);
    let keys = one.records.keys().chain(other.records.keys().filter(|k| !one.records.contains_key(*k)));
    for key in keys {
        expect(format!("record {key}"), one.records.get(key) == other.records.get(key));
    }
    let ids = one.volumes.keys().chain(other.volumes.keys().filter(|id| !one.volumes.contains_key(*id)));
    for id in ids {
        let (Some(a), Some(b)) = (one.volumes.get(id), other.volumes.get(id)) else {
            expect(format!("the existence of volume {id}"), false);
            continue;
        };
        let facts = |v: &Cataloged| (v.name.clone(), v.len_bytes, v.thick, v.unfinished);
        expect(format!("name, size or kind of volume {}", a.name), facts(a) == facts(b));
        let mut differences = a.map.iter().zip(b.map.iter()).filter(|(x, y)| x != y);
        let place = match (differences.next(), a.map.mapped() == b.map.mapped()) {
            (Some(((x, _), (y, _))), _) => Some(x.min(y)),
            (None, true) => None,
            (None, false) => Some(a.map.mapped().min(b.map.mapped()) as u32),
        };
        if let Some(index) = place {
            expect(format!("the map of volume {}, from index {index} on", a.name), false);
        }
    }
}
