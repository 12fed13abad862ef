//! The model of the file servers: the published hardware in virtual time, with the array's own code.
//!
//! ```text
//!   client (steps) ── 1 GbE ──> server (memory, file system, lazy writer) ──> disk (VHD) ──> path ──> bed: the array on modelled drives
//!   play: starts all of it, counts every few seconds ──> course
//! ```

mod bed;
mod client;
pub(super) mod course;
mod disk;
mod growth;
mod layout;
mod memory;
mod path;
mod play;
mod server;
mod space;
mod stage;
#[cfg(test)]
mod tests;

pub(super) use server::Refused;
pub(super) use space::Placement;
pub(super) use stage::{Ran, Said, run, runs};
