//! File servers: the load that clients put on them (`masu load fileserver`), and the verification of virtual
//! disks that grow under it.
//!
//! ```text
//!   run ──> model (clients, servers, disks, the array) ──> courses ──> claims (measures), figures, findings ──> report
//!    ├── scenario
//!    └────> real (the same on this machine, on disks that are there)
//! ```

#![forbid(unsafe_code)]
// A command of an array in the model world is one future through all of its layers.
#![recursion_limit = "256"]
#![expect(
    clippy::disallowed_methods,
    reason = "the laboratory stands outside the worlds: it starts threads, reads files and clocks"
)]

mod beyond;
mod claims;
mod figures;
mod findings;
mod host;
pub mod load;
mod model;
pub mod real;
mod report;
mod results;
mod run;
mod scenario;
mod write_cache;

use std::path::PathBuf;

use lab_core::record::World;

use real::Format;

/// The verification.
pub struct Fileserver;

/// What the command line says of it besides.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Options {
    /// The quick form.
    pub quick: bool,
    pub world: World,
    /// Of a real one, the formats of disks; none: VHD.
    pub formats: Vec<Format>,
    /// Of a real one, how many rounds; none: as the scenario says.
    pub repeats: Option<usize>,
    /// Only the load, against this directory.
    pub directory: Option<PathBuf>,
}
