//! Opening: the groups' superblocks are held against each other, the newest good copy of the metadata is read.

use std::rc::Rc;

use block::{BlockError, Device, Pieces};
use raid::Group;
use world::World;

use crate::area::{Area, Areas};
use crate::commit_task::spawn_commit_task;
use crate::inner::Inner;
use crate::layout::{METADATA_BLOCK, SLOTS_AT};
use crate::recover::{Recovered, recover};
use crate::superblock::{Superblock, VERSION};
use crate::table::GroupEntry;
use crate::{Pool, PoolError};

/// What the two slots of a group hold.
#[derive(Default)]
struct Slots {
    /// The superblocks that are whole, the newest first.
    whole: Vec<Superblock>,
    /// The version of one that a newer masu wrote.
    newer: Option<u32>,
    /// There was a superblock, or there may be one, and it cannot be read.
    failure: Option<BlockError>,
}

async fn read_slots(group: &Group) -> Slots {
    let mut slots = Slots::default();
    for at in SLOTS_AT {
        let mut bytes = Pieces::new();
        match group.read(at, METADATA_BLOCK as usize, &mut bytes).await {
            Ok(()) => {
                let bytes = bytes.joined();
                slots.whole.extend(Superblock::decode(&bytes));
                slots.newer = slots.newer.max(Superblock::newer_version(&bytes));
                // Creation writes slot 1 when slot 0 is durable: torn in both it cannot be.
                if at != SLOTS_AT[0] && bytes.iter().any(|b| *b != 0) {
                    let place = format!("superblocks on group {}", group.name());
                    let cause = "neither of the two is whole".to_owned();
                    slots.failure = slots.failure.or(Some(BlockError::Corrupt { place, cause }));
                }
            }
            Err(error) => slots.failure = Some(error),
        }
    }
    slots.whole.sort_by_key(|s| std::cmp::Reverse(s.generation));
    slots
}

/// The superblocks of a group that are whole, the newest first. None on a group that never was in a pool; an error when there
/// was one and nothing of it is whole.
pub(crate) async fn read_superblocks(group: &Group) -> Result<Vec<Superblock>, BlockError> {
    let Slots { whole, failure, .. } = read_slots(group).await;
    match failure {
        Some(error) if whole.is_empty() => Err(error),
        _ => Ok(whole),
    }
}

/// The newest superblock of a group, if it has one. One of a newer version is an error, whatever is beside it: a newer masu was about to
/// write the other slot, too.
pub(crate) async fn find_superblock(group: &Group) -> Result<Option<Superblock>, PoolError> {
    let slots = read_slots(group).await;
    if let Some(version) = slots.newer {
        return Err(PoolError::NewerVersion { group: group.name().to_owned(), version, known: VERSION });
    }
    match (slots.whole.into_iter().next(), slots.failure) {
        (None, Some(error)) => Err(error.into()),
        (newest, _) => Ok(newest),
    }
}

impl Pool {
    /// Opens the pool that lies on these groups, given in any order.
    pub async fn open(world: World, groups: Vec<Group>) -> Result<Pool, PoolError> {
        let (groups, reference) = in_order(groups).await?;
        let entries = &reference.table.groups;
        let areas: Areas =
            Rc::new(groups.into_iter().zip(entries).map(|(g, e)| Rc::new(Area::new(g, *e))).collect());
        let Recovered { superblock, catalog, next_generation } = recover(&areas, &reference).await?;
        let inner = Inner::new(world, superblock.with(next_generation), areas.clone(), catalog, false)?;
        if next_generation.is_some() {
            // From here on the journal is empty again, and all copies say the same.
            let (catalog, superblock) = (inner.catalog(), inner.superblock.borrow().clone());
            inner.write_checkpoint(&catalog, superblock, &areas).await?;
            inner.tell_others().await?;
        }
        spawn_commit_task(&inner);
        inner.tell_contents();
        inner.watch();
        Ok(Pool(inner))
    }
}

impl Superblock {
    /// As it will be when the recovered state is its checkpoint.
    fn with(self, generation: Option<u64>) -> Superblock {
        match generation {
            Some(generation) => Superblock { generation, ..self },
            None => self,
        }
    }
}

/// A group, and its newest superblock, if it has one that can be read.
type Looked = (Group, Result<Option<Superblock>, PoolError>);

/// The groups in the order of the pool, and the newest superblock, which names them. What the superblock does not name is
/// left aside when it bears the mark of this pool (it was removed, or was not added to the end), or none that could be read.
async fn in_order(groups: Vec<Group>) -> Result<(Vec<Group>, Superblock), PoolError> {
    let mut found: Vec<Looked> = Vec::new();
    for group in groups {
        match find_superblock(&group).await {
            Err(newer @ PoolError::NewerVersion { .. }) => return Err(newer),
            superblock => found.push((group, superblock)),
        }
    }
    let newest = superblocks(&found).max_by_key(|s| (s.checkpoint_blocks > 0, s.generation));
    let Some(reference) = newest.cloned() else {
        let group = found.first().map_or_else(String::new, |(g, _)| g.name().to_owned());
        let failure = found.into_iter().find_map(|(_, s)| s.err());
        return Err(failure.unwrap_or(PoolError::NoPool { group }));
    };
    if is_unfinished(&found) {
        return Err(PoolError::Unfinished { pool: reference.name });
    }
    let expected = format!("pool {} ({})", reference.name, reference.pool_id);
    let foreign = |group: &Group, found: String| {
        let (group, expected) = (group.name().to_owned(), expected.clone());
        PoolError::Foreign { group, found, expected }
    };
    let mut places: Vec<Option<Group>> = vec![None; reference.table.groups.len()];
    let mut blank = None;
    for (group, superblock) in found {
        match (superblock, reference.table.position(group.id())) {
            (Ok(Some(s)), _) if !s.is_of(&reference) => {
                return Err(foreign(&group, format!("pool {} ({})", s.name, s.pool_id)));
            }
            (Err(error), Some(_)) => return Err(error),
            (Ok(_), Some(i)) => places[i] = Some(group),
            (Ok(Some(_)), None) => {}
            (Ok(None) | Err(_), None) => blank = blank.or(Some(group)),
        }
    }
    match (places.iter().position(Option::is_none), blank) {
        (Some(_), Some(blank)) => return Err(foreign(&blank, "no pool".to_owned())),
        (Some(i), None) => {
            let id = reference.table.groups[i].group_id.to_string();
            let (index, count) = (i as u32, places.len() as u32);
            return Err(PoolError::Missing { pool: reference.name, index, count, id });
        }
        (None, _) => {}
    }
    let groups: Vec<Group> = places.into_iter().flatten().collect();
    for (group, entry) in groups.iter().zip(&reference.table.groups) {
        fits(group, entry, &reference)?;
    }
    Ok((groups, reference))
}

fn superblocks(found: &[Looked]) -> impl Iterator<Item = &Superblock> {
    found.iter().filter_map(|(_, s)| s.as_ref().ok()?.as_ref())
}

/// Whether exactly the groups of an interrupted creation were given: no superblock names a checkpoint yet.
fn is_unfinished(found: &[Looked]) -> bool {
    let given = || found.iter().map(|(g, _)| g.id());
    superblocks(found).all(|s| {
        let listed = s.table.groups.iter().map(|e| e.group_id);
        s.checkpoint_blocks == 0
            && s.table.groups.len() == found.len()
            && listed.into_iter().all(|id| given().any(|g| g == id))
    })
}

fn fits(group: &Group, entry: &GroupEntry, superblock: &Superblock) -> Result<(), PoolError> {
    let (needed_bytes, len_bytes) = (entry.len_bytes(), group.geometry().len_bytes);
    if len_bytes < needed_bytes {
        let (pool, group) = (superblock.name.clone(), group.name().to_owned());
        return Err(PoolError::TooSmall { pool, group, len_bytes, needed_bytes });
    }
    Ok(())
}
