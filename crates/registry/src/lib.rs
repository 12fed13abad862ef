//! What nodes must agree on: keys with versions, changed by compare-and-put; watches; leases.
//!
//! ```text
//!  node ──> Registry ──┬── Directory: a directory of files, for processes of one machine
//!                      ├── registry_etcd::Etcd: a cluster, for processes of many machines
//!                      ├── Memory: for the model world
//!                      └── Faulty: one of these behind delays, partitions, pauses and lost watches
//! ```
//!
//! The contract is that of the trait [`Registry`]; [`conformance`] checks it, and every implementation runs
//! it. A registry is for control, not for data: a call may take seconds, or fail because the store is away.

#![forbid(unsafe_code)]

pub mod conformance;
mod directory;
mod faulty;
mod key;
mod memory;
pub mod record;

use std::time::Duration;

use futures::future::LocalBoxFuture;
use futures::stream::LocalBoxStream;

pub use directory::Directory;
pub use faulty::{Faulty, Link};
pub use key::{KEY_LEN_MAX, Key};
pub use memory::{Memory, Store};
pub use record::RecordError;

/// The longest value.
pub const VALUE_LEN_MAX: usize = 64 << 10;
/// Stands for a longer value, which another program has put: no text, so that nobody takes it for a record.
/// Who reads all keys passes it over, and it can be deleted.
pub const TOO_LONG: &[u8] = b"\xff too long";
/// Keys of a store; one that was deleted counts, because its version is remembered.
pub const KEYS_MAX: usize = 10_000;
/// Leases at once.
pub const LEASES_MAX: usize = 1024;
/// A call that has no answer after this time ends as [`RegistryError::Unreachable`].
pub const CALL_TIME_MAX: Duration = Duration::from_secs(2);

/// The version of a key's value. Each change of a key raises it, deletion included: no version of a key is
/// ever that of another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

/// A lease; never granted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseId(pub u64);

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// To be passed to the next change.
    pub version: Version,
    /// At most [`VALUE_LEN_MAX`] bytes.
    pub value: Vec<u8>,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Nothing was changed: another change came first. `found` is none when there is no value.
    #[error("the key was changed by another: it has {}", words(*.found))]
    #[expect(missing_docs, reason = "see above")]
    Conflict { found: Option<Version> },
    /// The lease has ended: its keys are gone, and it cannot be renewed.
    #[error("the lease has expired or was revoked")]
    Expired,
    /// Not a valid key.
    #[error("invalid key {key:?}: {cause}")]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Key { key: String, cause: &'static str },
    /// A limit of the store.
    #[error("too many {what}: at most {max}")]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Limit { what: &'static str, max: usize },
    /// Nothing was changed: the store takes no values now. `cause` says what to do.
    #[error("the registry cannot be written: {cause}")]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Unwritable { cause: String },
    /// Nothing was changed: the store is not whole. `cause` says what to do.
    #[error("the registry is damaged: {cause}")]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Damaged { cause: String },
    /// Nothing was changed: the store does not admit this client. `cause` says what to do.
    #[error("the registry refuses this client: {cause}")]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Refused { cause: String },
    /// No answer. Whether a change was made is unknown.
    #[error("the registry does not answer: {cause}")]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Unreachable { cause: String },
}

fn words(found: Option<Version>) -> String {
    found.map_or("no value".into(), |version| format!("version {}", version.0))
}

/// The answer of a registry.
pub type Answer<'a, T> = LocalBoxFuture<'a, Result<T, RegistryError>>;

/// Says that keys may have changed. It is a hint: it may come without a change, and it may be lost. Who must
/// know of a change by a deadline reads at that deadline, too. It ends with an error when the store is gone.
pub type Watch = LocalBoxStream<'static, Result<(), RegistryError>>;

/// A store that nodes share.
///
/// Changes are linearizable: all clients see them in one order, and a read returns the latest. Only
/// [`RegistryError::Unreachable`] leaves open whether a change was made; every other error means that it was
/// not.
pub trait Registry {
    /// The value of a key; none: there is none.
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Entry>>;

    /// Keys that begin with `prefix` and have a value, in order. Each is read by itself: together they are no
    /// snapshot.
    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<(Key, Entry)>>;

    /// Sets the value of a key if its version is `expected`; none: if it has no value. With a lease, the
    /// value vanishes when the lease ends.
    ///
    /// # Errors
    /// [`RegistryError::Conflict`] if another change came first, [`RegistryError::Expired`] if the lease has
    /// ended.
    fn compare_and_put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        value: &'a [u8],
        lease: Option<LeaseId>,
    ) -> Answer<'a, Version>;

    /// Deletes the value of a key if its version is `expected`.
    ///
    /// # Errors
    /// [`RegistryError::Conflict`] if another change came first.
    fn compare_and_delete<'a>(&'a self, key: &'a Key, expected: Version) -> Answer<'a, ()>;

    /// Whether the store is whole, and would take a value now. No value is changed, and no watch hears of it.
    /// What of the store itself was lost and this client knows is put again: then, what that was.
    ///
    /// # Errors
    /// [`RegistryError::Unwritable`] if it would take none, [`RegistryError::Damaged`] if it is not whole.
    fn examine(&self) -> Answer<'_, Option<String>>;

    /// Watches all keys that begin with `prefix`, for changes after this call.
    fn watch(&self, prefix: &str) -> Watch;

    /// Grants a lease that ends after `time`, unless it is renewed.
    fn grant(&self, time: Duration) -> Answer<'_, LeaseId>;

    /// Renews a lease: its time begins again.
    ///
    /// # Errors
    /// [`RegistryError::Expired`] if it has ended.
    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()>;

    /// How long a lease lives yet, unless it is renewed. Some registries count whole seconds.
    ///
    /// # Errors
    /// [`RegistryError::Expired`] if it has ended.
    fn time_left(&self, lease: LeaseId) -> Answer<'_, Duration>;

    /// Ends a lease at once. One that has ended is not an error.
    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()>;
}

#[cfg(test)]
mod tests;
