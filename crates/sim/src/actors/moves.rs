//! Pools that move between the controllers of an array, beside a workload.

use std::cell::Cell;
use std::time::Duration;

use array::Array;
use world::{Rng, World};

use super::workload::Shared;

/// Between two moves, at most.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Moves pools to and fro until the workload is `done`.
pub(crate) async fn move_pools(
    world: &World,
    array: &mut Array,
    (shared, done): (&Shared, &Cell<bool>),
    rng: &mut Rng,
) {
    loop {
        world.sleep(Duration::from_nanos(rng.u64(..PAUSE_MAX.as_nanos() as u64))).await;
        if done.get() {
            return;
        }
        let config = array.config();
        let pool = &config.pools[rng.usize(..config.pools.len())];
        let (name, to) = (pool.name.clone(), (pool.controller + 1) % config.controllers);
        shared.tell(|| format!("{name} moves to controller {to}"));
        match array.move_pool(&name, to).await {
            Ok(_) => shared.tell(|| format!("{name} has moved to controller {to}")),
            // After a power cut.
            Err(error) if error.to_string().contains("being resynced") => {
                shared.tell(|| format!("{name} stays: {error}"));
            }
            Err(error) => panic!("move of {name} to {to}: {error}"),
        }
    }
}
