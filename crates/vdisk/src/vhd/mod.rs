//! VHD, as the "Virtual Hard Disk Image Format Specification" 1.0 has it: fixed, dynamic and differencing.
//!
//! ```text
//!  fixed:    payload ................................ | footer
//!  dynamic:  copy of the footer | dynamic header | table (BAT) | parent locators | block | block | ... | footer
//!  block:    bitmap, one bit per sector, in whole sectors | payload
//! ```
//!
//! Numbers are big-endian. A block of 2 MiB with its bitmap takes 2 MiB and 512 bytes: payload lies on multiples of 512 bytes. In a dynamic
//! image every sector of a block that is there is valid (its bitmap is all ones, and is not asked); in a
//! differencing one the bitmap says which sectors are here, and the others are the parent's.

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
pub use table::Layout;

/// The sector of every VHD.
pub const SECTOR_BYTES: u64 = 512;
/// The block that the specification gives as the usual one.
pub const BLOCK_BYTES: u32 = 2 << 20;
/// The largest disk: what the field's makers agree on, so that sector numbers of the table fit 32 bits with their blocks' bitmaps.
pub const LEN_BYTES_MAX: u64 = 2040 << 30;
