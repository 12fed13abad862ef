//! A small datastore for several hosts: what a hypervisor keeps on a LU, with and without the array's help.
//!
//! ```text
//!             layout, lock, cluster, file             pure: bytes and decisions
//!                 |               |
//!   locking (who may change it)   store (disks made, copied, deleted)
//!                 |               |
//!                 └──── hosts::Disk: SCSI commands over iSCSI
//! ```
//!
//! With offload a lock is taken by COMPARE AND WRITE of its record, zeros come from WRITE SAME, copies from
//! EXTENDED COPY. Without, the host reserves the whole LU (RESERVE(6)) to change a record, writes the zeros,
//! and reads and writes the data itself.

mod cluster;
mod content;
mod file;
mod layout;
mod lock;
mod locking;
mod mirror;
mod store;

pub use cluster::Cluster;
pub use content::{Content, sample_offsets};
pub use file::File;
pub use layout::{CLUSTERS, EXTENT_BYTES, FILES_MAX, HOSTS_MAX, Layout};
pub use lock::{HostId, LockRecord, Owner};
pub use locking::{LockCounts, Locking, Locks, Patience};
pub use mirror::{Mirror, Writing};
pub use store::{Datastore, Mode, StoreError, Ways, capabilities, format};
