//! Changes of a pool's groups, beside a workload: add, evacuate, remove, rebalance.

use std::ops::ControlFlow;

use pool::{Pool, PoolError};
use raid::Group;
use world::{Rng, World};

use super::beside::Beside;
use super::workload::Shared;

/// One round in this many has a change.
const ONE_IN: u8 = 3;

#[derive(Clone, Copy, Debug)]
enum Deed {
    Add,
    Evacuate,
    Cancel,
    Remove,
    Rebalance,
}

/// Starts a change, sometimes. The remaining groups keep `room_bytes`.
pub(crate) fn begin(
    world: &World,
    pool: &Pool,
    (groups, room_bytes): (&[Group], u64),
    shared: &Shared,
    rng: &mut Rng,
) -> Option<Beside> {
    if rng.u8(..ONE_IN) != 0 {
        return None;
    }
    let deed = [Deed::Add, Deed::Evacuate, Deed::Cancel, Deed::Remove, Deed::Rebalance][rng.usize(..5)];
    let (pool, group) = (pool.clone(), groups[rng.usize(..groups.len())].clone());
    shared.tell(|| format!("{deed:?} {}", group.name()));
    let shared = shared.clone();
    Some(Beside::begin(world, async move {
        match act(&pool, &group, room_bytes, deed).await {
            Ok(()) => shared.tell(|| format!("{deed:?} {} is done", group.name())),
            Err(error) => shared.tell(|| format!("{deed:?} {}: {error}", group.name())),
        }
    }))
}

/// Whether the remaining groups have room for everything that the workload may write.
fn may_leave(pool: &Pool, group: &Group, room_bytes: u64) -> bool {
    let others = pool.group_spaces().into_iter().filter(|s| s.id != group.id() && !s.evacuating);
    others.map(|s| s.total_bytes).sum::<u64>() >= room_bytes
}

/// Makes the change, as far as the pool accepts it.
async fn act(pool: &Pool, group: &Group, room_bytes: u64, deed: Deed) -> Result<(), PoolError> {
    let go = async |_: u64| ControlFlow::Continue(());
    let here = pool.groups().iter().any(|g| g.id() == group.id());
    if matches!(deed, Deed::Evacuate | Deed::Remove) && !may_leave(pool, group, room_bytes) {
        return Ok(());
    }
    let outcome = match deed {
        Deed::Add if !here => pool.add_group(group.clone()).await,
        Deed::Evacuate if here => pool.evacuate(group.id(), go).await.map(|_| ()),
        Deed::Cancel if here => pool.cancel_evacuation(group.id()).await,
        Deed::Remove if here => pool.remove_group(group.id()).await.map(|_| ()),
        Deed::Rebalance => pool.rebalance(go).await.map(|_| ()),
        Deed::Add | Deed::Evacuate | Deed::Cancel | Deed::Remove => Ok(()),
    };
    match outcome {
        Err(PoolError::Block(error)) => panic!("{deed:?} {}: {error}", group.name()),
        outcome => outcome,
    }
}
