//! The pools of a controller, opened or created with their journals.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures::stream::{self, StreamExt};
use status::Reason;

use super::apply::{Opening, is_missing, settle};
use crate::cached::open_journal;
use crate::config::{Config, Made, PoolConfig};
use crate::control::ControlError;
use crate::controller::{Controller, Index, Kind, Slices};
use crate::pools::{DELETING, drop_pool, open_pool, set_classes};
use crate::why::Told;

/// Pools that are opened at a time: each reads its tables and replays its journals.
const POOLS_AT_ONCE: usize = 16;

/// Opens and creates the declared pools of this controller.
pub(super) async fn prepare_pools(
    controller: &Rc<Controller>,
    (config, made): (&Config, &Made),
    opening: &Opening<'_>,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let mut opened = open_pools_at_once(controller, (config, made), opening).await;
    for pool in config.pools.iter().filter(|p| p.controller == controller.index) {
        if made.deleted_pools.contains(&pool.name) {
            let object = (Kind::Pool, pool.name.clone());
            controller.state.borrow_mut().missing.insert(object, Told::new(Reason::Deleting, DELETING));
            continue;
        }
        let opened_now = opened.remove(&pool.name);
        let is_open = opened_now.is_none() && controller.state().pools.contains_key(&pool.name);
        let was_missing = is_missing(controller, Kind::Pool, &pool.name);
        let prepared = match opened_now {
            Some(prepared) => prepared,
            None => prepare_pool(controller, config, (pool, opening.index)).await,
        };
        let outcome = prepared.map(|lines| done.extend(lines));
        let may_miss = opening.starting
            || !is_open
                && (was_missing || made.pools.contains(&pool.name))
                && opening.arriving.as_ref() != Some(&pool.name);
        settle(controller, (Kind::Pool, &pool.name), may_miss, outcome)?;
    }
    Ok(())
}

/// Opens the pools that were made before and are not open: a start, and a take-over, would otherwise take as
/// long as all pools one after the other. Those that exist already, and the one that comes from another
/// controller, are prepared in their turn. Returns what became of each.
async fn open_pools_at_once(
    controller: &Rc<Controller>,
    (config, made): (&Config, &Made),
    opening: &Opening<'_>,
) -> BTreeMap<String, Result<Vec<String>, ControlError>> {
    let is_closed = |pool: &&PoolConfig| {
        let (name, state) = (&pool.name, controller.state());
        let was_made = made.pools.contains(name) && !made.deleted_pools.contains(name);
        pool.controller == controller.index
            && was_made
            && opening.arriving.as_ref() != Some(name)
            && !state.pools.contains_key(name)
    };
    let closed: Vec<&PoolConfig> = config.pools.iter().filter(is_closed).collect();
    if closed.len() < 2 {
        return BTreeMap::new();
    }
    let each = closed.into_iter().map(async |pool: &PoolConfig| {
        (pool.name.clone(), prepare_pool(controller, config, (pool, opening.index)).await)
    });
    stream::iter(each).buffer_unordered(POOLS_AT_ONCE).collect().await
}

/// Opens or creates a pool with its journal. Returns a line for each thing that was done.
async fn prepare_pool(
    controller: &Rc<Controller>,
    config: &Config,
    (pool, index): (&PoolConfig, &Index<'_>),
) -> Result<Vec<String>, ControlError> {
    let was_open = controller.state().pools.contains_key(&pool.name);
    let (mut lines, mut slices) = (Vec::new(), Slices::new(&controller.world));
    let opened = async {
        open_pool(controller, config, pool, &mut lines).await?;
        set_classes(controller, config, pool, &mut lines)?;
        open_journal(controller, index, pool, &mut slices, &mut lines).await
    }
    .await;
    if opened.is_err() && !was_open {
        // Half open it is not served: without its journal it lacks writes that were acknowledged.
        drop_pool(controller, &pool.name).await;
    }
    opened.map(|()| lines)
}
