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
mod path;
mod play;
mod server;
mod stage;
#[cfg(test)]
mod tests;
mod volume;

pub(super) use stage::{Ran, Said, run, runs};
