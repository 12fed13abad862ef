//! Opening: compares the superblocks of the groups, and reads the newest valid copy of the metadata.

use std::rc::Rc;

use block::{BlockError, Device, Pieces};
use futures::future::join_all;
use raid::Group;
use world::World;

use crate::area::{Area, Areas};
use crate::closed::Closed;
use crate::commit_task::spawn_commit_task;
use crate::inner::Inner;
use crate::layout::{METADATA_BLOCK, SLOTS_AT};
use crate::recover::{Recovered, read_other, recover};
use crate::superblock::{Superblock, VERSION};
use crate::table::GroupEntry;
use crate::{Pool, PoolError};

/// The content of the two slots of a group.
#[derive(Default)]
pub(crate) struct Slots {
    /// The valid superblocks, the newest first.
    whole: Vec<Superblock>,
    /// The version of a superblock that a newer masu wrote.
    newer: Option<u32>,
    /// There was, or may be, a superblock, but it cannot be read.
    failure: Option<BlockError>,
    /// By slot: neither a superblock nor empty on the mirror that the group reads: a power failure, or the
    /// medium, left none.
    pub(crate) broken: [bool; 2],
}

impl Slots {
    /// The valid superblocks, the newest first. None on a group that was never in a pool; an error if it was
    /// and none is valid.
    pub(crate) fn superblocks(&self) -> Result<&[Superblock], BlockError> {
        match &self.failure {
            Some(error) if self.whole.is_empty() => Err(error.clone()),
            _ => Ok(&self.whole),
        }
    }
}

async fn read_slots(group: &Group) -> Slots {
    let mut slots = Slots::default();
    for (slot, at) in SLOTS_AT.into_iter().enumerate() {
        let mut bytes = Pieces::new();
        let len = METADATA_BLOCK as usize;
        let read = group.read(at, len, &mut bytes).await.map(|()| bytes.joined());
        let is_whole =
            |bytes: &[u8]| Superblock::decode(bytes).is_some() || Superblock::newer_version(bytes).is_some();
        let other = match read.as_ref().is_ok_and(|bytes| is_whole(bytes)) {
            true => None,
            false => read_other(group, at, len, is_whole).await,
        };
        let is_of_other = other.is_some();
        match other.map_or(read, Ok) {
            Ok(bytes) => {
                let superblock = Superblock::decode(&bytes);
                slots.broken[slot] = is_of_other || superblock.is_none() && bytes.iter().any(|b| *b != 0);
                slots.whole.extend(superblock);
                slots.newer = slots.newer.max(Superblock::newer_version(&bytes));
                // Creation writes slot 1 after slot 0 is durable, so they cannot both be torn.
                if at != SLOTS_AT[0] && bytes.iter().any(|b| *b != 0) {
                    let place = format!("superblocks on group {}", group.name());
                    let cause = "both are torn or damaged".to_owned();
                    slots.failure = slots.failure.or(Some(BlockError::Corrupt { place, cause }));
                }
            }
            Err(error) => {
                slots.broken[slot] = true;
                slots.failure = Some(error);
            }
        }
    }
    slots.whole.sort_by_key(|s| std::cmp::Reverse(s.generation));
    slots
}

/// The slots of a group in which a power failure, or the medium, left no superblock.
#[cfg(test)]
pub(crate) async fn broken_slots(group: &Group) -> [bool; 2] {
    read_slots(group).await.broken
}

/// The newest superblock of a group, if it has one. A superblock of a newer version is an error, whatever is
/// in the other slot: a newer masu was about to write that one, too.
pub(crate) async fn find_superblock(group: &Group) -> Result<Option<Superblock>, PoolError> {
    newest_of(group, &read_slots(group).await)
}

fn newest_of(group: &Group, slots: &Slots) -> Result<Option<Superblock>, PoolError> {
    if let Some(version) = slots.newer {
        return Err(PoolError::NewerVersion { group: group.name().to_owned(), version, known: VERSION });
    }
    Ok(slots.superblocks()?.first().cloned())
}

/// The pool that a group is, or was, a part of; none: it has no superblock. Nothing is written.
///
/// # Errors
/// A newer masu wrote the superblock, it is damaged, or the group failed.
pub async fn pool_on(group: &Group) -> Result<Option<String>, PoolError> {
    Ok(find_superblock(group).await?.map(|superblock| superblock.name))
}

impl Pool {
    /// Opens the pool on these groups, given in any order.
    ///
    /// # Errors
    ///
    /// A group of the pool is missing or belongs to another one, a newer masu wrote the pool, its creation
    /// was interrupted, or its metadata are damaged. Nothing was written then.
    pub async fn open(world: World, groups: Vec<Group>) -> Result<Pool, PoolError> {
        Pool::open_closed(world, groups, None).await
    }

    /// The same, for a pool that was closed like that just before: its journal is not searched.
    ///
    /// # Errors
    ///
    /// As [`Pool::open`].
    pub async fn open_closed(
        world: World,
        groups: Vec<Group>,
        closed: Option<Closed>,
    ) -> Result<Pool, PoolError> {
        let (groups, slots, reference) = in_order(groups).await?;
        let entries = &reference.table.groups;
        let areas: Areas =
            Rc::new(groups.into_iter().zip(entries).map(|(g, e)| Rc::new(Area::new(g, *e))).collect());
        let Recovered { superblock, catalog, next_generation, torn } =
            recover((&areas, &slots), &reference, closed).await?;
        let inner = Inner::new(world, superblock.with(next_generation), areas.clone(), catalog, false)?;
        write_again(&torn, &areas).await?;
        if next_generation.is_some() {
            // From here on the journal is empty, and all copies are equal.
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

/// Writes superblocks in place of torn ones: the next generation goes to the other slot of all groups, where
/// such a group has its only valid one.
async fn write_again(torn: &[(usize, Superblock)], areas: &Areas) -> Result<(), BlockError> {
    for (i, superblock) in torn {
        let group = &areas[*i].group;
        group.write(SLOTS_AT[(superblock.generation % 2) as usize], &superblock.encode()).await?;
        group.flush().await?;
    }
    Ok(())
}

impl Superblock {
    /// The superblock once the recovered state is its checkpoint.
    fn with(self, generation: Option<u64>) -> Superblock {
        match generation {
            Some(generation) => Superblock { generation, ..self },
            None => self,
        }
    }
}

/// A group with its slots, and its newest readable superblock.
type Looked = ((Group, Slots), Result<Option<Superblock>, PoolError>);

/// The groups in the pool's order with their slots, and the newest superblock, which names them. A group that
/// it does not name is ignored if it bears the mark of this pool (it was removed, or not completely added),
/// or no readable superblock.
async fn in_order(groups: Vec<Group>) -> Result<(Vec<Group>, Vec<Slots>, Superblock), PoolError> {
    let slots = join_all(groups.iter().map(read_slots)).await;
    let mut found: Vec<Looked> = Vec::new();
    for (group, slots) in groups.into_iter().zip(slots) {
        match newest_of(&group, &slots) {
            Err(newer @ PoolError::NewerVersion { .. }) => return Err(newer),
            superblock => found.push(((group, slots), superblock)),
        }
    }
    let newest = superblocks(&found).max_by_key(|s| (s.checkpoint_blocks > 0, s.generation));
    let Some(reference) = newest.cloned() else {
        let group = found.first().map_or_else(String::new, |((g, _), _)| g.name().to_owned());
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
    let mut places: Vec<Option<(Group, Slots)>> = (0..reference.table.groups.len()).map(|_| None).collect();
    let mut blank = None;
    for ((group, slots), superblock) in found {
        match (superblock, reference.table.position(group.id())) {
            (Ok(Some(s)), _) if !s.is_of(&reference) => {
                return Err(foreign(&group, format!("pool {} ({})", s.name, s.pool_id)));
            }
            (Err(error), Some(_)) => return Err(error),
            (Ok(_), Some(i)) => places[i] = Some((group, slots)),
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
    let (groups, slots): (Vec<Group>, Vec<Slots>) = places.into_iter().flatten().unzip();
    for (group, entry) in groups.iter().zip(&reference.table.groups) {
        fits(group, entry, &reference)?;
    }
    Ok((groups, slots, reference))
}

fn superblocks(found: &[Looked]) -> impl Iterator<Item = &Superblock> {
    found.iter().filter_map(|(_, s)| s.as_ref().ok()?.as_ref())
}

/// Whether these are exactly the groups of an interrupted creation: no superblock names a checkpoint yet.
fn is_unfinished(found: &[Looked]) -> bool {
    let given = || found.iter().map(|((g, _), _)| g.id());
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
