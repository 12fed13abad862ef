//! The verification `vaai`: zeroing, copying, locking and thin provisioning, with the array's help and
//! without.
//!
//! ```text
//!   run ──> bed (the array under test) <── status, CPU clock
//!    │  ──> host, bulk      zeroing and copies        ┐
//!    │  ──> power_on        VMs of several hosts      ├──> record ──> measures ──> report: figures, tables, words
//!    └  ──> thin            a pool that fills         ┘
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

/// The verification.
pub struct Vaai;

/// What the command line says of it besides.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The quick form: as many repeats as begin in two and a half minutes, and four of them at least.
    pub quick: bool,
}
