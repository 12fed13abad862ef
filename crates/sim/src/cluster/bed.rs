//! What the nodes of a history share.

use std::cell::RefCell;
use std::rc::Rc;

use array::config::Made;
use array::{Config, Keeper, OtherPortal};
use registry::Store;
use world::World;
use world_model::Model;

use super::shape::Shape;
use crate::actors::workload::Shared;
use crate::faults::Fault;

/// What all nodes share.
pub(super) struct Bed {
    pub(super) model: Rc<Model>,
    pub(super) world: World,
    pub(super) registry: Store,
    pub(super) shape: Shape,
    pub(super) fault: Fault,
    pub(super) shared: Shared,
    /// What frames between nodes have the number of.
    pub(super) configs: RefCell<Vec<Config>>,
    pub(super) paths: RefCell<Vec<Vec<OtherPortal>>>,
    /// What was made before the history.
    pub(super) made: Made,
}

/// Nothing is made in a history.
pub(super) struct KeepsNothing;

impl Keeper for KeepsNothing {
    fn keep(&mut self, _: &Config, _: &Made) -> Result<(), String> {
        Ok(())
    }
}

impl Bed {
    pub(super) fn keep_config(&self, config: Config) -> u64 {
        let mut all = self.configs.borrow_mut();
        all.push(config);
        all.len() as u64 - 1
    }

    pub(super) fn config_at(&self, at: u64) -> Config {
        self.configs.borrow()[at as usize].clone()
    }

    pub(super) fn keep_paths(&self, paths: Vec<OtherPortal>) -> u64 {
        let mut all = self.paths.borrow_mut();
        all.push(paths);
        all.len() as u64 - 1
    }

    pub(super) fn paths_at(&self, at: u64) -> Vec<OtherPortal> {
        self.paths.borrow()[at as usize].clone()
    }
}
