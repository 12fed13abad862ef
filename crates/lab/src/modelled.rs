//! An array in the model world: its controllers on one thread, reached by commands as values.

use anyhow::Result;
use array::{Array, Config, ControllerHandle, LocalPort, run_with_local_port};
use world::World;

/// The controller that owns what is measured.
const OWNER: usize = 0;

/// An array that runs.
pub(crate) struct Started {
    pub(crate) array: Array,
    /// At the controller that owns the LUs.
    pub(crate) port: LocalPort,
}

/// Starts it.
pub(crate) async fn start(world: &World, config: &Config) -> Result<Started> {
    let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..config.controllers).map(ControllerHandle::new).unzip();
    let mut ports = Vec::new();
    for (index, mailbox) in mailboxes.into_iter().enumerate() {
        let (port, run) = run_with_local_port(world.clone(), index, mailbox, handles.clone());
        ports.push(port);
        world.spawn(run);
    }
    let mut array = Array::new(handles, &config.target);
    array.apply(config.clone()).await?;
    Ok(Started { array, port: ports.swap_remove(OWNER) })
}
