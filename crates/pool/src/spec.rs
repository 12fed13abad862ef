//! Plain values of a pool: identity, declaration, space, counters.

use std::fmt;

use crate::events::Thresholds;
use crate::layout::PAGE_BYTES_DEFAULT;

/// The identity of a pool, generated at creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolId(pub [u8; 16]);

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// A pool as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// 1 to 64 bytes.
    pub name: String,
    /// The page size: a power of two from 64 KiB to 16 MiB.
    pub page_bytes: u64,
    /// The used share at which a warning is raised, in percent; 0: never.
    pub soft_threshold_percent: u8,
    /// The used share at which a critical event is raised, in percent; 0: never.
    pub critical_threshold_percent: u8,
}

impl PoolSpec {
    /// A pool with pages of 1 MiB, a soft threshold of 80 % and a critical one of 95 %.
    pub fn new(name: &str) -> PoolSpec {
        PoolSpec {
            name: name.to_owned(),
            page_bytes: PAGE_BYTES_DEFAULT,
            soft_threshold_percent: 80,
            critical_threshold_percent: 95,
        }
    }

    pub(crate) fn thresholds(&self) -> Thresholds {
        Thresholds { soft: self.soft_threshold_percent, critical: self.critical_threshold_percent }
    }
}

/// The space of a pool: `used_bytes + free_bytes = total_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSpace {
    /// Bytes in pages.
    pub total_bytes: u64,
    /// Bytes of referenced pages, each counted once.
    pub used_bytes: u64,
    /// Bytes of pages with more than one reference from map entries or RODs, each counted once. The other
    /// used pages are exclusive to one volume, or held only by a ROD.
    pub shared_bytes: u64,
    /// Of `used_bytes`, those of pages that only RODs hold: no volume has them any more.
    pub held_bytes: u64,
    /// Bytes of the other pages, including those whose release is not durable yet: a write that needs them
    /// waits.
    pub free_bytes: u64,
    /// The sizes of all volumes together: more than `total_bytes` if the pool is over-committed.
    pub subscribed_bytes: u64,
    /// The used share at which a warning is raised, in percent; 0: never.
    pub soft_threshold_percent: u8,
    /// The used share at which a critical event is raised, in percent; 0: never.
    pub critical_threshold_percent: u8,
    /// The size of a page.
    pub page_bytes: u64,
}

/// Counters of a pool since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct PoolCounts {
    pub commits: u64,
    /// Bytes written to the journal (to each copy).
    pub journal_bytes: u64,
    pub checkpoints: u64,
    /// Reads, writes, zeroings, unmaps, copies and holds of its volumes: whether there is foreground I/O.
    pub operations: u64,
}
