//! The verification `vaai`: zeroing, copying, locking and thin provisioning, with the array's help and
//! without.
//!
//! ```text
//!   run ──> bed (the array under test) <── status, CPU clock
//!    │  ──> host, bulk      zeroing and copies        ┐
//!    │  ──> power_on        VMs of several hosts      ├──> record ──> measures ──> report: figures, tables, words
//!    └  ──> thin            a pool that fills         │
//!   model ──> host, bulk, power_on at the published size, in virtual time ┘
//! ```

#![forbid(unsafe_code)]
// A command of an array in the model world is one future through all of its layers.
#![recursion_limit = "256"]
#![expect(
    clippy::disallowed_methods,
    reason = "the laboratory stands outside the worlds: it starts threads, reads files and clocks"
)]

mod bed;
mod bulk;
mod figures;
mod host;
mod measures;
mod model;
mod power_on;
mod record;
mod recording;
mod report;
mod run;
mod samples;
pub mod scenario;
mod tables;
mod thin;
mod words;

use lab_core::record::World;

/// The verification.
pub struct Vaai;

/// What the command line says of it besides.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where: real sessions, or the published size in virtual time.
    pub world: World,
    /// The quick form. Real: as many repeats as begin in a minute, and four of them at least. In the model: a
    /// share of the published sizes, whose measures are multiplied.
    pub quick: bool,
}
