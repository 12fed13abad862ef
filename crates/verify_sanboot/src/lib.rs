//! The verification `sanboot`: how many servers boot and live from one array.
//!
//! ```text
//!   run ──> point ──> bed (modelled drives; the product's array on them)
//!    │        └─────> bench ──> conditioning (the cache as it is in the long run)
//!    │                  └─────> host (servers, port, controller: what stands before the array's LUs) ──> results
//!    ├── scenario
//!    ├── boot (a recorded boot, replayed for many servers at once) ──> results
//!    └── takeover (two controllers, of which one goes) ──> results
//!   real ──> bench: the same servers, over iSCSI
//!
//!   results ──> ramp (predict) ──> survey ──> claims (measures), figures, tables, summary ──> report
//! ```

#![forbid(unsafe_code)]
// A command of an array in the model world is one future through all of its layers.
#![recursion_limit = "256"]
#![expect(
    clippy::disallowed_methods,
    reason = "the laboratory stands outside the worlds: it starts threads, reads files and clocks"
)]

pub mod bar;
mod bed;
mod bench;
mod boot;
pub(crate) mod checked;
mod claims;
mod conditioning;
pub mod exchange;
mod figures;
mod findings;
mod front;
mod host;
mod measured;
mod pattern;
mod point;
pub mod ramp;
mod real;
mod report;
pub mod results;
mod run;
pub mod scenario;
mod steady;
mod steps;
mod summary;
mod survey;
mod tables;
mod takeover;
mod which;
mod write;

pub use run::experiment;
pub use write::POINTS;

use lab_core::record::World;

use results::Layout;

/// The verification.
pub struct Sanboot;

/// What the command line says of it besides.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Options {
    /// The quick form.
    pub quick: bool,
    /// Only these layouts; none: all.
    pub layouts: Vec<Layout>,
    pub world: World,
}

#[cfg(test)]
mod tests;
