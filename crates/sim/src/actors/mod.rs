//! Actors that use a stack: each is one or several tasks, with its own random stream.
//!
//! * [`workload`]: reads, writes and offloads, compared with the shadow.
//! * [`sessions`]: the iSCSI sessions of a host, which log in again when a connection breaks.
//! * [`moves`]: pools move between controllers.
//! * [`paths`]: the paths of a host to nodes, of which one serves at a time.
//! * [`contenders`]: other hosts of nodes, which count by COMPARE AND WRITE, or are kept out by a
//!   reservation.
//! * [`repairs`]: blank drives take the places of lost ones, and are filled.
//! * [`reshape`]: groups of a pool come, are emptied, go; pages spread.

pub(crate) mod beside;
pub(crate) mod contenders;
pub(crate) mod moves;
pub(crate) mod paths;
pub(crate) mod repairs;
pub(crate) mod reshape;
pub(crate) mod sessions;
pub(crate) mod workload;
