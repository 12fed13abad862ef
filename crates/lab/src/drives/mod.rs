//! Drives of the model world, as files describe them; and what shows that a modelled drive is like its original.
//!
//! A drive is a TOML file with a table `hard_disk` or `flash`; those of the catalogue (`crates/world_model/catalogue/`) are built in, and a
//! file of one's own is named by its path. `docs/model.md` has the keys and how far off each check is.

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
