//! VHDX, as MS-VHDX has it: fixed, dynamic and differencing, with its log.
//!
//! ```text
//!  0        64 KiB     128 KiB    192 KiB          256 KiB          1 MiB ...
//!  identity | header 1 | header 2 | region table 1 | region table 2 | log | metadata | table (BAT) | blocks, bitmap blocks
//! ```
//!
//! Numbers are little-endian. Everything from 1 MiB on lies on whole MiB. The table has an entry for each block, and behind the entries of each
//! *chunk* (2^23 sectors) one for a bitmap block of 1 MiB, which says in differencing images which sectors are here.
//!
//! # Its log, as it is used here
//!
//! A commit makes payload durable, writes the changed pages of 4 KiB as one log entry, makes that durable, and writes the pages in place. These are durable with
//! the next commit's first flush, before its entry replaces this one: so each entry is a sequence by itself, and what a power cut can tear is
//! always in the log. The header points at the log only from the first entry on, and no more when the image was closed.

mod create;
mod grow;
mod guid;
mod header;
mod log;
mod map;
mod metadata;
mod open;
mod pages;
mod region;
mod table;

pub use create::{NewVhdx, Parent, create};
pub use grow::grow;
pub use guid::Guid;
pub use map::VhdxMap;
pub(crate) use open::open;
pub use table::Shape;

const MIB: u64 = 1 << 20;
/// What log, table and bitmaps are written in.
const PAGE_BYTES: u64 = 4096;
/// The first structures lie within this; everything else behind.
const HEAD_BYTES: u64 = MIB;
/// Blocks of new images unless said otherwise.
pub const BLOCK_BYTES: u32 = 32 << 20;
/// The largest disk of the format.
pub const LEN_BYTES_MAX: u64 = 64 << 40;

/// The checksum of every structure: CRC-32C, with the field itself as zeros.
fn checksum(bytes: &[u8], field_at: usize) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[..field_at]);
    digest.update(&[0; 4]);
    digest.update(&bytes[field_at + 4..]);
    digest.finalize() as u32
}
