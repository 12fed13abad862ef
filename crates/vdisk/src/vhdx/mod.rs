//! VHDX, as MS-VHDX has it: fixed, dynamic and differencing, with its log.
//!
//! ```text
//!  0        64 KiB     128 KiB    192 KiB          256 KiB          1 MiB ...
//!  identity | header 1 | header 2 | region table 1 | region table 2 | log | metadata | table (BAT) | blocks, bitmap blocks
//! ```
//!
//! Numbers are little-endian. Everything from 1 MiB on is aligned to 1 MiB. The table has an entry for each
//! block, and behind the entries of each *chunk* (2^23 sectors) one for a bitmap block of 1 MiB, which tells
//! in differencing images which sectors are present.
//!
//! # Its log, as masu uses it
//!
//! A commit makes payload durable, writes the changed pages of 4 KiB as one log entry, makes that durable,
//! and writes the pages in place. These become durable with the next commit's first flush, before its entry
//! replaces this one: so each entry is a sequence by itself, and whatever a power failure can tear is always
//! in the log. The header refers to the log from the first entry until the image is closed.

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
pub use open::read_map;
pub use table::Shape;

const MIB: u64 = 1 << 20;
/// The unit of log, table and bitmap writes.
const PAGE_BYTES: u64 = 4096;
/// The first structures are within this; everything else is behind.
const HEAD_BYTES: u64 = MIB;
/// Default block size of new images.
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
