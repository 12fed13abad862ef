//! VHD, as the "Virtual Hard Disk Image Format Specification" 1.0 has it: fixed, dynamic and differencing.
//!
//! ```text
//!  fixed:    payload ................................ | footer
//!  dynamic:  copy of the footer | dynamic header | table (BAT) | parent locators | block | block | ... | footer
//!  block:    bitmap, one bit per sector, in whole sectors | payload
//! ```
//!
//! Numbers are big-endian. A block of 2 MiB with its bitmap takes 2 MiB and 512 bytes: payload is at
//! multiples of 512 bytes. In a dynamic image every sector of an allocated block is valid (its bitmap is all
//! ones, and ignored); in a differencing image the bitmap tells which sectors are present, and the others are
//! the parent's.

mod bitmap;
mod create;
mod dynamic;
mod fixed;
mod footer;
mod geometry;
mod grow;
mod header;
mod open;
mod table;

pub use create::{NewVhd, Parent, create};
pub use dynamic::DynamicMap;
pub use fixed::FixedMap;
pub use footer::{FOOTER_BYTES, Footer, Kind};
pub use geometry::Geometry;
pub use grow::grow;
pub use header::{DynamicHeader, HEADER_BYTES, Locator, Platform};
pub(crate) use open::open;
pub use open::read_map;
pub use table::Layout;

/// The sector size of every VHD.
pub const SECTOR_BYTES: u64 = 512;
/// The default block size of the specification.
pub const BLOCK_BYTES: u32 = 2 << 20;
/// The largest disk: the limit that vendors agree on, so that the table's sector numbers fit in 32 bits.
pub const LEN_BYTES_MAX: u64 = 2040 << 30;
