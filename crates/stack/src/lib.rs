//! What a logical unit stands on: a volume or an image, each with what is laid over it.
//!
//! ```text
//!   LogicalUnit ──> Gated<Storage>            Gated: waits for the turn that the pool's scheduler gives (qos)
//!                     └ Storage: Cached ──> PlainVolume ──> pool::Volume     Cached: the controller's cache and the pool's journal
//!                       or      PlainVolume
//!                       or      ImageDisk ──> vdisk::Image
//! ```
//!
//! Each implements [`lu::LogicalDisk`]: it does what it adds, and asks the disk below for the rest. What
//! stands below the cache is not implemented above it. [`Storage`] is one type because the logical units of a
//! controller copy from each other.
//!
//! # Life cycle
//!
//! * A pool has one [`Service`], the queue in front of its scheduler, from opening to closing. Every
//!   logical unit on the pool has a [`Gate`] of that service, and so has background work (rebuild, scrub,
//!   evacuation).
//! * A [`Disk`] is made when its volume or image is opened and lives as long as its logical unit. A change
//!   of policy acts on the gate; the disk stays.
//! * A command passes the gate with its [`lu::CommandContext`]. If the command is aborted while it waits,
//!   the request leaves the queue. Once it has its [`Permit`], it runs to its end.
//!
//! # What is durable when
//!
//! * A write is durable when it returns if it was asked for as [`lu::Durability::Durable`], else after the
//!   next flush. Whether a host has to ask is in [`lu::Capabilities`]: a cached volume with a journal has
//!   no volatile cache, and there every write of a host is asked for as durable.
//! * Behind a closed gate a durable write is two steps: the write, with its permit, and then the sync. A
//!   flush serves all clients of the pool and takes no turn.
//! * [`Cached`] evicts a range before an operation changes the volume below it (zero, unmap, copy), so
//!   that the cache never holds older data than the volume. A copy onto a volume with a journal is durable
//!   when it returns.
//! * An image is flushed through its file. It has no journal: its cache is volatile.
//!
//! # Errors
//!
//! All operations return [`block::BlockError`], as the layer below reported it. This crate adds two: the
//! command was aborted at the gate, and an image does not support snapshots. A failed operation returns
//! its permit and has been charged: it occupied the drives.

#![forbid(unsafe_code)]

mod cached;
mod gate;
mod gated;
mod image;
mod move_bytes;
mod service;
mod storage;
mod volume;

use cache::{Cache, Journal, Unit};
use pool::Volume;
use raid::Group;

pub use cached::Cached;
pub use gate::{Gate, Permit};
pub use gated::Gated;
pub use image::ImageDisk;
pub use service::Service;
pub use storage::Storage;
pub use volume::PlainVolume;

/// The disks of an array's logical units.
pub type Disk = Gated<Storage>;
/// The cache of a controller.
pub type VolumeCache = Cache<Volume, Group>;
/// A volume under it.
pub type CachedVolume = Unit<Volume, Group>;
/// The journal of a pool, on a group of its own.
pub type PoolJournal = Journal<Group>;
