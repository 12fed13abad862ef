//! Drives of the model world from files, and the evidence that a modelled drive behaves like its original.
//!
//! A drive is a TOML file with a table `hard_disk` or `flash`; the catalogue
//! (`crates/world_model/catalogue/`) is built in, and other files are named by their path. `docs/model.md`
//! has the keys and the error of each check.

mod catalogue;
mod closed_loop;
mod file;
mod replay;
mod sheets;

pub use catalogue::{CATALOGUE, load};
pub use closed_loop::{Load, Measured, measure};
pub use file::{DriveFileError, parse};
pub use replay::{Replay, TraceRequest, parse_trace, replay, traces};
pub use sheets::sheet;

#[cfg(test)]
mod tests;
