//! The two switches, and what is durable when.

use serde::Serialize;

/// One of the four configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Configuration {
    /// The write cache of the disk, as the server's system sets it: WCE, caching mode page (SBC-4 6.5.6).
    pub(crate) os_cache: bool,
    /// Whether the array's cache has a journal: a write is then durable when acknowledged, unless WCE = 1.
    pub(crate) journal: bool,
}

impl Configuration {
    /// All four.
    pub(crate) const ALL: [Configuration; 4] = [
        Configuration { os_cache: false, journal: true },
        Configuration { os_cache: true, journal: true },
        Configuration { os_cache: false, journal: false },
        Configuration { os_cache: true, journal: false },
    ];

    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match (self.os_cache, self.journal) {
            (false, true) => "OS write cache off, array with a journal",
            (true, true) => "OS write cache on, array with a journal",
            (false, false) => "OS write cache off, array without a journal",
            (true, false) => "OS write cache on, array without a journal",
        }
    }

    /// What the disk's acknowledgement of a write without FUA promises (SBC-4 4.15): with WCE = 0 that it is
    /// durable.
    pub(crate) fn disk_is_durable(self) -> bool {
        !self.os_cache
    }
}
