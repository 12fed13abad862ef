//! Drives of the model world from files, and the evidence that a modelled drive behaves like its original.
//!
//! A drive is a TOML file with a table `hard_disk` or `flash`; the catalogue
//! (`crates/world_model/catalogue/`) is built in, and other files are named by their path. `docs/model.md`
//! has the keys and the error of each check.

mod catalogue;
mod closed_loop;
pub mod disksim;
mod file;
pub mod fit;
pub mod measure;
mod replay;
mod replay_report;
mod sheets;
mod tables;
pub mod trace;
mod write;

pub use catalogue::{CATALOGUE, load};
pub use closed_loop::{Load, Measured, measure};
pub use file::{DriveFileError, parse};
pub use replay::{Replay, ReplayError, replay, traces};
pub use replay_report::{Replayed, curve};
pub use sheets::sheet;
pub use write::checked_text;
#[cfg(test)]
use write::write;

#[cfg(test)]
mod tests;
