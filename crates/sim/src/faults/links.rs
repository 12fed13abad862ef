//! Connections break.

use std::time::Duration;

use world::{Rng, World};
use world_model::Net;

/// Where connections break, one does within this time: 40 ms, some hundred commands.
const BREAK_AFTER_NS_MAX: u64 = 40_000_000;

/// Breaks a connection now and then.
pub(crate) async fn break_connections_task(world: World, net: Net, mut rng: Rng) {
    loop {
        world.sleep(Duration::from_nanos(rng.u64(..BREAK_AFTER_NS_MAX))).await;
        let connections = net.connections();
        if !connections.is_empty() {
            net.reset(connections[rng.usize(..connections.len())].0);
        }
    }
}
