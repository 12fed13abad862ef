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
