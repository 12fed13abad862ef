//! A device as a file of this machine: a file system of the kernel's FUSE with one file, as long as the device.
//!
//! ```text
//!  mount -o loop, mkfs, qemu ... ──> the file `disk` ──> kernel ──/dev/fuse──> thread ──requests──> workers of a world ──> block::Device
//!                                                                              (mount.rs,           (serve.rs, sectors.rs)
//!                                                                               file_system.rs)
//! ```
//!
//! The thread takes requests from the kernel and hands them on through a bounded channel; when it is full, the kernel keeps the others.
//! Workers answer the kernel themselves, in whatever order operations end. It needs no kernel module that is not FUSE's and no C library;
//! who mounts is root, or has `fusermount3`.
//!
//! The kernel keeps no pages of the file (direct I/O): a file system on a loop device above it has its own, a write that has ended is with the device, and what
//! other hosts write to a LU is seen. `fsync` and `close` are flushes of the device.

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
