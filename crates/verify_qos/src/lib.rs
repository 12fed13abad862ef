//! The verification `qos`: a service that is kept, for every virtual disk.
//!
//! ```text
//!   run ──> stage (VMs, hosts, the array on modelled drives) ──> play: phases, one after the other ──> Course
//!    └── scenario, phases
//!   capacity, Course ──> judge (windows), reach (water-filling) ──> claims, figures, findings ──> report
//! ```

#![forbid(unsafe_code)]
// A command of an array in the model world is one future through all of its layers.
#![recursion_limit = "256"]

mod array_nodes;
mod bed;
mod capacity;
mod claims;
mod extra;
mod figures;
mod hosts;
mod judge;
mod node;
mod phases;
mod play;
mod reach;
mod real;
mod report;
mod results;
mod run;
pub mod scenario;
mod vm;
mod windows;

use lab_core::record::World;

/// The verification.
pub struct Qos;

/// What the command line says of it besides.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Options {
    /// The quick form.
    pub quick: bool,
    pub world: World,
}

#[cfg(test)]
mod tests;
