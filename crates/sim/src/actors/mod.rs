//! Those who do something with a stack while it lives: each an own task, or several, with its own random stream.
//!
//! * [`workload`]: reads, writes and offloads, compared with the shadow.
//! * [`sessions`]: the iSCSI sessions of a host, which log in again when a connection breaks.
//! * [`repairs`]: blank drives take the places of lost ones, and are filled.
//! * [`reshape`]: groups of a pool come, are emptied, go; pages spread.

pub(crate) mod beside;
pub(crate) mod repairs;
pub(crate) mod reshape;
pub(crate) mod sessions;
pub(crate) mod workload;
