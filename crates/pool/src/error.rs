//! Errors of administrative operations on pools and volumes. (I/O returns [`BlockError`].)

use block::BlockError;

/// Why an administrative operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum PoolError {
    /// The declaration is invalid.
    #[error("pool {pool}: {cause}")]
    Spec {
        pool: String,
        /// What is wrong.
        cause: String,
    },
    /// A group has no room for the metadata and a page.
    #[error(
        "pool {pool}: group {group} is too small: it has {len_bytes} bytes, at least {needed_bytes} are \
        required"
    )]
    TooSmall {
        pool: String,
        group: String,
        /// Its size.
        len_bytes: u64,
        /// The size that would do.
        needed_bytes: u64,
    },
    /// Creation would overwrite another pool.
    #[error("pool {pool}: group {group} already belongs to pool {found}")]
    InUse {
        pool: String,
        group: String,
        /// What is on it.
        found: String,
    },
    /// A group holds no pool.
    #[error("group {group} holds no pool")]
    NoPool { group: String },
    /// A newer masu wrote the superblock.
    #[error(
        "group {group} holds a pool of newer format version {version}, this masu reads up to {known}; masu \
         wrote nothing to the pool; start the newer masu"
    )]
    NewerVersion {
        group: String,
        /// The version of its superblock.
        version: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The creation of the pool was interrupted; it is empty.
    #[error("pool {pool}: creation was interrupted; create the pool again")]
    Unfinished { pool: String },
    /// A group belongs to another pool.
    #[error("group {group} belongs to {found}, not to {expected}")]
    Foreign {
        group: String,
        /// What is on it.
        found: String,
        /// What the others say.
        expected: String,
    },
    /// A group of the pool is missing.
    #[error("pool {pool}: group {index} of {count} is missing (group id {id})")]
    Missing {
        pool: String,
        index: u32,
        /// How many there are.
        count: u32,
        /// Its identity.
        id: String,
    },
    /// The pool has no such group.
    #[error("pool {pool} has no group {group}")]
    NoGroup {
        pool: String,
        /// The group's id.
        group: String,
    },
    /// An operation on a group is impossible.
    #[error("group {group} of pool {pool}: {cause}")]
    Group {
        pool: String,
        group: String,
        /// What is wrong.
        cause: String,
    },
    /// The used pages of a group do not fit on the others.
    #[error(
        "group {group} of pool {pool} has {used_bytes} bytes in use, and the other groups have {free_bytes} bytes free"
    )]
    NoRoom {
        pool: String,
        group: String,
        /// What would have to move.
        used_bytes: u64,
        /// Where it could go.
        free_bytes: u64,
    },
    /// A commit has begun with the change, and cannot end for now: it can no longer be refused.
    #[error(
        "pool {pool}: the change has begun, and is completed when the pool's metadata can be written: {cause}"
    )]
    Begun {
        pool: String,
        /// Why it cannot be written.
        cause: BlockError,
    },
    /// Another job moves pages.
    #[error("pool {pool} is busy with {with}")]
    Busy {
        pool: String,
        /// What runs.
        with: &'static str,
    },
    #[error("pool {pool} has no volume {volume}")]
    NoVolume {
        pool: String,
        /// The name.
        volume: String,
    },
    #[error("pool {pool} already has a volume {volume}")]
    NameTaken {
        pool: String,
        /// The name.
        volume: String,
    },
    /// The creation or growth of a thick volume was ended.
    #[error(
        "volume {volume} of pool {pool}: interrupted before all of its space was reserved: the array stops"
    )]
    Interrupted {
        pool: String,
        /// The name.
        volume: String,
    },
    /// An operation on a volume is impossible.
    #[error("volume {volume} of pool {pool}: {cause}")]
    Volume {
        pool: String,
        volume: String,
        /// What is wrong.
        cause: String,
    },
    /// The storage below failed, or is full.
    #[error(transparent)]
    Block(#[from] BlockError),
}
