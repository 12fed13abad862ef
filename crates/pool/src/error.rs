//! What can go wrong when a pool or a volume is administered. (I/O gives [`BlockError`].)

use block::BlockError;

/// Why an administrative operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The declaration makes no sense.
    #[error("pool {pool}: {cause}")]
    Spec {
        /// The pool.
        pool: String,
        /// What is wrong.
        cause: String,
    },
    /// A group has no room for the metadata and a page.
    #[error("pool {pool}: group {group} has {len_bytes} bytes, at least {needed_bytes} are needed")]
    TooSmall {
        /// The pool.
        pool: String,
        /// The group.
        group: String,
        /// Its size.
        len_bytes: u64,
        /// The size that would do.
        needed_bytes: u64,
    },
    /// Creation would overwrite another pool.
    #[error("pool {pool}: group {group} already belongs to pool {found}")]
    InUse {
        /// The pool.
        pool: String,
        /// The group.
        group: String,
        /// What is on it.
        found: String,
    },
    /// There is no pool on a group.
    #[error("group {group} holds no pool")]
    NoPool {
        /// The group.
        group: String,
    },
    /// A newer version wrote the superblock.
    #[error(
        "group {group} holds a pool of newer format version {version}, this program reads up to {known}; nothing was written to the \
         pool: start the newer masu"
    )]
    NewerVersion {
        /// The group.
        group: String,
        /// The version of its superblock.
        version: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The creation of the pool did not come to its end; it holds nothing.
    #[error("pool {pool}: its creation was interrupted; create it again")]
    Unfinished {
        /// The pool.
        pool: String,
    },
    /// A group of another pool was given.
    #[error("group {group} belongs to {found}, not to {expected}")]
    Foreign {
        /// The group.
        group: String,
        /// What is on it.
        found: String,
        /// What the others say.
        expected: String,
    },
    /// A group of the pool was not given.
    #[error("pool {pool}: group {index} of {count} is missing (group id {id})")]
    Missing {
        /// The pool.
        pool: String,
        /// Which one.
        index: u32,
        /// How many there are.
        count: u32,
        /// Its identity.
        id: String,
    },
    /// The pool has no such group.
    #[error("pool {pool} has no group {group}")]
    NoGroup {
        /// The pool.
        pool: String,
        /// The group's id.
        group: String,
    },
    /// Something about a group is not possible.
    #[error("group {group} of pool {pool}: {cause}")]
    Group {
        /// The pool.
        pool: String,
        /// The group.
        group: String,
        /// What is wrong.
        cause: String,
    },
    /// What lies on a group finds no place on the others.
    #[error(
        "group {group} of pool {pool} has {used_bytes} bytes in use, and the other groups have {free_bytes} bytes free"
    )]
    NoRoom {
        /// The pool.
        pool: String,
        /// The group.
        group: String,
        /// What would have to move.
        used_bytes: u64,
        /// Where it could go.
        free_bytes: u64,
    },
    /// Pages are being moved already.
    #[error("pool {pool} is busy with {with}")]
    Busy {
        /// The pool.
        pool: String,
        /// What runs.
        with: &'static str,
    },
    /// No volume has this name.
    #[error("pool {pool} has no volume {volume}")]
    NoVolume {
        /// The pool.
        pool: String,
        /// The name.
        volume: String,
    },
    /// The name is taken.
    #[error("pool {pool} already has a volume {volume}")]
    NameTaken {
        /// The pool.
        pool: String,
        /// The name.
        volume: String,
    },
    /// Something about a volume is not possible.
    #[error("volume {volume} of pool {pool}: {cause}")]
    Volume {
        /// The pool.
        pool: String,
        /// The volume.
        volume: String,
        /// What is wrong.
        cause: String,
    },
    /// The storage below failed, or is full.
    #[error(transparent)]
    Block(#[from] BlockError),
}
