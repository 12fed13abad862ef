//! Erases the superblocks of a pool that is deleted: its groups are in no pool then.

use raid::Group;

use crate::PoolError;
use crate::area::erase_slots;
use crate::open::find_superblock;

/// Erases the superblocks of the pool of this name on a group; a group without any stays as it is. Durable on
/// return. The caller knows that no volume is on the pool, and has closed it. May be repeated after a power
/// failure.
///
/// # Errors
///
/// The group is in another pool, its superblocks are of a newer version or unreadable: nothing was written
/// then. Or the group failed.
pub async fn erase_superblocks(group: &Group, pool: &str) -> Result<(), PoolError> {
    match find_superblock(group).await? {
        None => Ok(()),
        Some(found) if found.name != pool => {
            Err(PoolError::InUse { pool: pool.to_owned(), group: group.name().to_owned(), found: found.name })
        }
        Some(_) => Ok(erase_slots(group).await?),
    }
}
