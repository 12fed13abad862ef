//! Creation: every group is marked, then the groups without metadata are completed, then those with it. The
//! pool exists when a superblock names its first checkpoint.

use std::rc::Rc;

use block::Device;
use raid::Group;
use world::World;

use crate::area::{Area, Areas};
use crate::catalog::Catalog;
use crate::commit_task::spawn_commit_task;
use crate::inner::Inner;
use crate::layout::{GROUPS_MAX, Layout, PAGE_BYTES_MAX, PAGE_BYTES_MIN, SLOTS_AT};
use crate::open::find_superblock;
use crate::superblock::{NAME_LEN_MAX, Superblock};
use crate::table::Table;
use crate::{Pool, PoolError, PoolId, PoolSpec};

impl Pool {
    /// Creates a pool on groups without one, or repeats an interrupted creation.
    ///
    /// # Errors
    ///
    /// The declaration is invalid, a group is too small or belongs to another pool, or a drive failed.
    /// Nothing of another pool was overwritten.
    pub async fn create(world: World, spec: PoolSpec, groups: Vec<Group>) -> Result<Pool, PoolError> {
        check(&spec, groups.len())?;
        refuse_used(&spec, &groups).await?;
        let superblock = plan(&world, &spec, &groups)?;
        let clean = groups.iter().all(Group::cheap_zero);
        let entries = &superblock.table.groups;
        let areas: Areas =
            Rc::new(groups.into_iter().zip(entries).map(|(g, e)| Rc::new(Area::new(g, *e))).collect());
        for (i, area) in (0..).zip(areas.iter()) {
            let mark = Superblock { generation: 0, ..superblock.of_group(i) };
            area.prepare(&mark.encode(), clean).await?;
        }
        for (i, area) in areas.iter().enumerate().filter(|(i, _)| !superblock.table.is_holder(*i)) {
            let bytes = superblock.of_group(i as u32).encode();
            area.group.write(SLOTS_AT[(superblock.generation % 2) as usize], &bytes).await?;
            area.group.flush().await?;
        }
        let catalog = Catalog {
            thresholds: spec.thresholds(),
            next_volume: 1,
            pages: superblock.table.next_page,
            ..Catalog::default()
        };
        let inner = Inner::new(world, superblock.clone(), areas.clone(), catalog.clone(), clean)?;
        // The superblocks of the groups with metadata are written after the empty checkpoint is durable.
        inner.write_checkpoint(&catalog, superblock, &areas).await?;
        spawn_commit_task(&inner);
        inner.tell_contents();
        Ok(Pool(inner))
    }
}

fn check(spec: &PoolSpec, groups: usize) -> Result<(), PoolError> {
    let refuse = |cause: String| Err(PoolError::Spec { pool: spec.name.clone(), cause });
    if spec.name.is_empty() || spec.name.len() > NAME_LEN_MAX {
        return refuse(format!("invalid name: must have 1 to {NAME_LEN_MAX} bytes"));
    }
    let page = spec.page_bytes;
    if !page.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page) {
        return refuse(format!(
            "invalid page size of {page} bytes: must be a power of two from {PAGE_BYTES_MIN} to \
             {PAGE_BYTES_MAX}"
        ));
    }
    if let Some(cause) = spec.thresholds().fault() {
        return refuse(cause);
    }
    if groups == 0 || groups > GROUPS_MAX {
        return refuse(format!("invalid number of groups: {groups}; must be 1 to {GROUPS_MAX}"));
    }
    Ok(())
}

/// Refuses groups with a pool. An interrupted creation names these same groups, and no checkpoint.
async fn refuse_used(spec: &PoolSpec, groups: &[Group]) -> Result<(), PoolError> {
    for group in groups {
        let Some(found) = find_superblock(group).await? else { continue };
        let listed = |id| found.table.groups.iter().any(|g| g.group_id == id);
        let same = found.table.groups.len() == groups.len() && groups.iter().all(|g| listed(g.id()));
        // The first group is examined, too: if it is available and complete, it names a checkpoint.
        if !same || found.checkpoint_blocks > 0 {
            let (pool, group) = (spec.name.clone(), group.name().to_owned());
            return Err(PoolError::InUse {
                pool,
                group,
                found: format!("{} ({})", found.name, found.pool_id),
            });
        }
    }
    Ok(())
}

fn plan(world: &World, spec: &PoolSpec, groups: &[Group]) -> Result<Superblock, PoolError> {
    let total = groups.iter().map(|g| g.geometry().len_bytes).sum();
    let layout = Layout::plan(total, spec.page_bytes);
    let mut table = Table::default();
    for group in groups {
        let (len_bytes, row_bytes) = (group.geometry().len_bytes, group.row_bytes());
        let place = layout.place(len_bytes, row_bytes, spec.page_bytes);
        if place.pages == 0 {
            return Err(PoolError::TooSmall {
                pool: spec.name.clone(),
                group: group.name().to_owned(),
                len_bytes,
                needed_bytes: place.pages_at + place.stride,
            });
        }
        let Some(next) = table.with(group.id(), place) else {
            let cause = format!(
                "too many pages: the pool would have more than {}; use a larger page \
                size",
                u32::MAX - 1
            );
            return Err(PoolError::Spec { pool: spec.name.clone(), cause });
        };
        table = next;
    }
    let mut id = [0; 16];
    // Includes the groups and the time, so that a pool created again under its old name has another identity.
    let salt = format!("pool.id.{}.{}.{}", spec.name, groups[0].id(), world.now().0);
    world.random(&salt).fill(&mut id);
    Ok(Superblock {
        pool_id: PoolId(id),
        name: spec.name.clone(),
        generation: 1,
        sequence: 0,
        checkpoint_blocks: 0,
        page_bytes: spec.page_bytes,
        group_index: 0,
        layout,
        table,
    })
}
