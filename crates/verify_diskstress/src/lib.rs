//! The verification `diskstress`: the cost of virtualization for a disk.
//!
//! ```text
//!   scenario ──> model: machine (modelled drives, mirror, read-ahead, processors), physical and virtual ──┐
//!           ├──> model: lu (masu's own code on the same drives) ──────────────────────────────────────────────┤
//!           └──> real:  diskstress natively and in a guest, on the same image, in turn ───────────────────┴─> results ──> claims (measures), figures, report
//! ```

#![forbid(unsafe_code)]
// A command of an array in the model world is one future through all of its layers.
#![recursion_limit = "256"]
#![expect(
    clippy::disallowed_methods,
    reason = "the laboratory stands outside the worlds: it starts threads, reads files and clocks"
)]

mod claims;
mod figures;
mod guest;
mod lu;
mod machine;
mod model;
mod real;
mod report;
mod results;
pub mod scenario;

use std::path::PathBuf;

use lab_core::record::World;

/// The verification.
pub struct Diskstress;

/// What the command line says of it besides.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Options {
    /// The quick form.
    pub quick: bool,
    pub world: World,
    /// Where a real run has its image; none: the output folder.
    pub dir: Option<PathBuf>,
    /// Where the guest's kernel and initramfs are; none: where `make diskstress` puts them.
    pub guest: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
