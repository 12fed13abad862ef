//! The model of the file servers: the published hardware in virtual time, with the array's own code.
//!
//! ```text
//!   client (steps) ── 1 GbE ──> server (memory, file system, lazy writer) ──> disk (VHD) ──> path ──> bed: the array on modelled drives
//!   play: starts all of it, counts every few seconds ──> course
//! ```

mod bed;
mod client;
mod content;
mod copier;
pub(super) mod copies;
pub(super) mod course;
mod disk;
mod fabric;
mod growth;
mod host_file;
mod layout;
mod lu;
mod memory;
mod offline;
mod path;
mod play;
mod server;
mod space;
mod stage;
mod staged;
#[cfg(test)]
mod tests;
mod volume;

pub(super) use disk::Format;
pub(super) use space::Placement;
pub(super) use stage::{Ran, Said, run, runs};
