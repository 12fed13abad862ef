//! What a controller knows of objects that exist, of new ones, and of missing ones.

use world::Drive;

/// The kinds of objects that can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Group,
    Pool,
    Volume,
}

impl Kind {
    /// The noun in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Group => "group",
            Kind::Pool => "pool",
            Kind::Volume => "volume",
        }
    }
}

/// Objects that were created for a declaration that is not in force yet, by name.
#[derive(Default)]
pub(crate) struct Fresh {
    pub(crate) groups: Vec<String>,
    pub(crate) pools: Vec<String>,
    pub(crate) volumes: Vec<String>,
    /// Spares that were labelled.
    pub(crate) spares: Vec<Drive>,
}
