//! Drives on Ceph RBD images, through librbd.
//!
//! ```text
//!   drive ──> flights ──> librbd (its own threads) ──> OSDs
//!     │          └ memory in flight, results to the controller's thread
//!     open, fence ──> image ──> library: the C functions, loaded when the first image is opened
//!       └ holder: who has the lock
//! ```
//!
//! librbd has no cache here, so that a completed write is on all replicas, unless the image's own
//! configuration sets `rbd_cache`: then the drive has a volatile cache. The exclusive lock is taken when the
//! drive is opened and kept until it is closed: librbd refuses others who ask for it. Whoever takes the image
//! over must fence this client ([`fence`]): its operations then return the error of a fenced drive.

mod drive;
mod fenced;
mod flights;
mod holder;
mod image;
mod library;
mod open;

pub(crate) use flights::Flights;
pub use open::rbd_holder;
pub(crate) use open::{OpenImage, fence, open};
