//! An image over a drive: payload moved to where the map says, and the map's metadata written at the flushes.

mod chain;
mod compact;
mod copy;
mod device;
mod driver;
mod open;
mod repair;
mod reuse;

pub use chain::{ParentLink, open_file};
pub use compact::Compacted;
pub use copy::copy;
pub use driver::{Access, Findings, Format, Image};
pub(crate) use driver::{read_vec, take_steps};
