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
mod store;

pub(crate) use cluster::Cluster;
pub(crate) use content::{Content, sample_offsets};
pub(crate) use file::File;
pub(crate) use layout::{CLUSTERS, EXTENT_BYTES, FILES_MAX, HOSTS_MAX, Layout};
pub(crate) use lock::{HostId, LockRecord, Owner};
pub(crate) use locking::{LockCounts, Locking, Locks, Patience};
pub(crate) use store::{Datastore, Mode, StoreError, Ways, capabilities, format};
