//! The verification `qos`: a service that is kept, for every virtual disk.
//!
//! ```text
//!   run ──> stage (VMs, nodes, the array on modelled drives) ──> play: phases, one after the other ──> Course
//!    └── scenario
//!   Course ──> judge (windows, water-filling) ──> claims, figures, findings ──> report
//! ```

mod bed;
mod claims;
mod extra;
mod figures;
mod judge;
mod node;
mod play;
mod real;
mod report;
mod results;
mod run;
pub mod scenario;
mod vm;

pub(crate) use run::verify;

#[cfg(test)]
mod tests;
