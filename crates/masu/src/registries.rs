//! The registry that a command line names.

use std::path::Path;
use std::rc::Rc;

use anyhow::Result;
use registry::{Directory, Registry};
use world::World;

/// Opens it: a directory on this machine.
pub(crate) fn open(world: &World, place: &str) -> Result<Rc<dyn Registry>> {
    Ok(Rc::new(Directory::open(world, Path::new(place))?))
}
