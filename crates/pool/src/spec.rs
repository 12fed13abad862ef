//! A pool as plain values: its identity, its declaration, its space, what it did.

use std::fmt;

use crate::events::Thresholds;
use crate::layout::PAGE_BYTES_DEFAULT;

/// The identity of a pool, made when it was created.
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
    /// Its name, 1 to 64 bytes.
    pub name: String,
    /// The unit in which space is handed out: a power of two from 64 KiB to 16 MiB.
    pub page_bytes: u64,
    /// The used share at which a warning is raised, in percent; 0: never.
    pub soft_threshold_percent: u8,
    /// The used share at which space is about to run out, in percent; 0: never.
    pub critical_threshold_percent: u8,
}

impl PoolSpec {
    /// A pool with pages of 1 MiB, a warning at 80 % and a more urgent one at 95 %.
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
    /// Bytes of pages that something refers to, each counted once.
    pub used_bytes: u64,
    /// Bytes of pages that more than one map entry or ROD refers to, each counted once. The others that are used are each the
    /// exclusive part of one volume, or held by nothing but a ROD.
    pub shared_bytes: u64,
    /// Bytes of the other pages, including those whose release is not durable yet: a write that needs them waits for it.
    pub free_bytes: u64,
    /// The sizes of all volumes together: what was promised.
    pub subscribed_bytes: u64,
    /// The used share at which a warning is raised, in percent; 0: never.
    pub soft_threshold_percent: u8,
    /// The used share at which space is about to run out, in percent; 0: never.
    pub critical_threshold_percent: u8,
    /// The size of a page.
    pub page_bytes: u64,
}

/// What a pool did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Commits.
    pub commits: u64,
    /// Bytes that they wrote to the journal (to each copy).
    pub journal_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Reads, writes, zeroings, unmappings, copies and holds of its volumes: whether there is a foreground to be spared.
    pub operations: u64,
}
