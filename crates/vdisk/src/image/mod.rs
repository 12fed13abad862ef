//! An image over a drive: payload moved to where the map says, and the map's metadata written at the flushes.

mod chain;
mod compact;
mod copy;
mod device;
mod driver;
mod file;
mod open;
mod repair;
mod reuse;

pub use chain::{Chain, ParentLink, open_chain, open_file};
pub use compact::Compacted;
pub use copy::copy;
pub use driver::{Access, FileFormat, Findings, Format, Image, WeakImage};
pub(crate) use file::{read_vec, take_steps};
pub use open::{Probed, probe};
