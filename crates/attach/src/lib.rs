//! Presents a device as a local file: a FUSE file system with one file, which has the size of the device.
//!
//! ```text
//!  mount -o loop, mkfs, qemu ... ──> the file `disk` ──> kernel ──/dev/fuse──> thread ──requests──> workers of a world ──> block::Device
//!                                                                              (mount.rs,           (serve.rs, sectors.rs)
//!                                                                               file_system.rs)
//! ```
//!
//! The thread receives requests from the kernel and passes them on through a bounded channel; while it is
//! full, further requests stay in the kernel. Workers reply to the kernel directly, in the order of
//! completion. Attaching needs no kernel module except FUSE's and no C library; it requires root or
//! `fusermount3`.
//!
//! The kernel caches no pages of the file (direct I/O). A file system on a loop device above it has its own
//! page cache; a completed write has reached the device, and writes of other hosts to a LU are visible.
//! `fsync` and `close` flush the device.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a seam to the kernel outside of the worlds: it starts a thread and asks for the time of day"
)]

mod error;
mod file_system;
mod mount;
mod sectors;
mod serve;

pub use error::AttachError;
pub use file_system::FILE_NAME;
pub use mount::{Detached, Mounted, Options, mount};
pub use serve::{Requests, serve};
