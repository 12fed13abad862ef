//! The laboratory: the table of its verifications, each a crate of its own under `crates/verify_*`.
//!
//! ```text
//!   verify: the table ──> vaai, qos, sanboot, fileserver, diskstress, run ──> lab_tools ──> lab_core
//! ```

#![forbid(unsafe_code)]

pub mod verify;
