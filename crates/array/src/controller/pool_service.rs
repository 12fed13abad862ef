//! The scheduler of a pool.

use std::rc::Rc;

use stack::{Gate, Service};

/// The scheduler of a pool, and the gate of its background work.
pub(crate) struct PoolService {
    pub(crate) service: Rc<Service>,
    /// For rebuilds, evacuations and the like.
    pub(crate) background: Rc<Gate>,
}

impl PoolService {
    /// The gate of background work, if a policy is in force in the pool.
    pub(crate) fn background_if_closed(&self) -> Option<Rc<Gate>> {
        Some(self.background.clone()).filter(|gate| !gate.is_open())
    }
}
