//! What an orderly close leaves to whoever opens the pool next.

use crate::superblock::Superblock;

/// The metadata of a pool as [`Pool::close`](crate::Pool::close) left them: all are in this checkpoint, and
/// the journal is empty. Who opens the pool next with it, on the same drives, need not search the journal
/// for commits, which takes a second on drives that read 64 MB/s. Nothing depends on it: a commit that was
/// made since is found, and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The generation of the checkpoint.
    pub generation: u64,
    /// The last commit in it.
    pub sequence: u64,
}

impl Closed {
    pub(crate) fn with(superblock: &Superblock) -> Closed {
        Closed { generation: superblock.generation, sequence: superblock.sequence }
    }
}
