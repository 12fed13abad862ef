//! Opens the registry that an address names.

use std::rc::Rc;

use registry::{Directory, Registry};
use world::World;

use crate::{Access, Etcd, Location, OpenError};

/// Opens it. A directory is created if there is none; etcd is asked with the first call.
///
/// # Errors
/// [`OpenError`]
pub fn open(world: &World, location: &Location, access: &Access) -> Result<Rc<dyn Registry>, OpenError> {
    Ok(match location {
        Location::Directory(path) => Rc::new(Directory::open(world, path)?),
        Location::Etcd(address) => Rc::new(Etcd::open(world, address, access)?),
    })
}
