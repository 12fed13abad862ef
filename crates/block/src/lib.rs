//! The seam between the layers of the data path: addresses, data, errors, and the contract of every layer.
//!
//! ```text
//!   LU's disk ──> pool's volume ──> RAID group ──> world's drive
//!                 each arrow is this seam: read, write, zero, flush
//! ```
//!
//! The layers are structs with `async fn`s, joined statically, so that an I/O through all of them is one
//! future and allocates nothing. The [`Device`] trait is for code that is generic over a layer: the
//! [`conformance`] suite, the shadow model of the simulation, and layers that stack on either of two.
//! [`RangeLocks`] coordinate operations on addresses of a layer.

mod backing_store;
mod cause;
pub mod conformance;
mod device;
mod error;
mod pieces;
mod range_locks;

pub use backing_store::BackingStore;
pub use cause::Cause;
pub use device::{Device, Geometry};
pub use error::{BlockError, persistently};
pub use pieces::Pieces;
pub use range_locks::{Acquire, LockMode, RangeGuard, RangeLocks};
pub use world::{Buf, Data};
