//! What a controller was told that was made before, what it made since, and what of the first it does not find.

use world::Drive;

/// The kinds of objects that can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Group,
    Pool,
    Volume,
}

impl Kind {
    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Group => "group",
            Kind::Pool => "pool",
            Kind::Volume => "volume",
        }
    }
}

/// What was made for a declaration that is not in force yet, by name.
#[derive(Default)]
pub(crate) struct Fresh {
    pub(crate) groups: Vec<String>,
    pub(crate) pools: Vec<String>,
    pub(crate) volumes: Vec<String>,
    /// Spares that were labelled.
    pub(crate) spares: Vec<Drive>,
}
