//! An image over a drive: transfers payload to the locations of the map, and writes the map's metadata at
//! flushes.

mod chain;
mod compact;
mod copy;
mod device;
mod driver;
mod file;
mod format;
mod open;
mod repair;
mod reuse;
mod trouble;

pub use chain::{Chain, ParentLink, attach_parents, open_chain, open_file};
pub use compact::Compacted;
pub use copy::copy;
pub use driver::{Access, Findings, Image, WeakImage};
pub(crate) use file::{read_vec, take_steps, take_steps_told};
pub use format::{FileFormat, Format};
pub use open::{Probed, probe};
pub use trouble::ImageTrouble;
