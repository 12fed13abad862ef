//! The dynamic header: offset of the table, size of blocks, and the parent.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::footer::checksum;
use super::{LEN_BYTES_MAX, SECTOR_BYTES};
use crate::VdiskError;

/// Bytes of a dynamic header.
pub const HEADER_BYTES: usize = 1024;
const COOKIE: [u8; 8] = *b"cxsparse";
const VERSION: u32 = 0x0001_0000;
const CHECKSUM_AT: usize = 36;
/// Number of parent locators in a header.
const LOCATORS: usize = 8;
/// UTF-16 units of a parent's name in the header.
const NAME_UNITS: usize = 256;
/// Length limit of a path, beyond that of any system.
pub(super) const LOCATOR_BYTES_MAX: u32 = 64 << 10;
/// Limits of the block size: a 32nd of the usual one, and the largest of any vendor.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = (64 << 10)..=(256 << 20);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawLocator {
    platform: [u8; 4],
    space: U32,
    len: U32,
    reserved: U32,
    at: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    cookie: [u8; 8],
    data_offset: U64,
    table_at: U64,
    version: U32,
    entries: U32,
    block_bytes: U32,
    checksum: U32,
    parent_id: [u8; 16],
    parent_time_stamp: U32,
    reserved: U32,
    parent_name: [U16; NAME_UNITS],
    locators: [RawLocator; LOCATORS],
    reserved_too: [u8; 256],
}

const _: () = assert!(size_of::<Raw>() == HEADER_BYTES);

/// The kinds of paths in locators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// A path relative to the child, UTF-16.
    WindowsRelative,
    /// An absolute path, UTF-16.
    WindowsAbsolute,
    /// A `file:` URL, UTF-8.
    MacOs,
}

/// A place in the file with a path of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locator {
    /// The kind of path.
    pub platform: Platform,
    /// Its offset.
    pub at: u64,
    /// Bytes of the path.
    pub len: u32,
    /// Bytes reserved for it.
    pub space: u32,
}

impl Locator {
    fn of(raw: &RawLocator) -> Option<Locator> {
        let platform = match &raw.platform {
            b"W2ru" => Platform::WindowsRelative,
            b"W2ku" => Platform::WindowsAbsolute,
            b"MacX" => Platform::MacOs,
            // None, deprecated kinds, or an alias of another system.
            _ => return None,
        };
        // The specification counts the space in sectors, its author's own images in bytes: a small number
        // means sectors.
        let space = match raw.space.get() {
            n if u64::from(n) < SECTOR_BYTES => n.saturating_mul(SECTOR_BYTES as u32),
            n => n,
        };
        // Whole sectors, because another number would be read back differently.
        let space = space.max(raw.len.get()).max(1).checked_next_multiple_of(SECTOR_BYTES as u32)?;
        Some(Locator { platform, at: raw.at.get(), len: raw.len.get(), space })
    }

    fn raw(&self) -> RawLocator {
        let platform = match self.platform {
            Platform::WindowsRelative => *b"W2ru",
            Platform::WindowsAbsolute => *b"W2ku",
            Platform::MacOs => *b"MacX",
        };
        RawLocator {
            platform,
            space: U32::new(self.space),
            len: U32::new(self.len),
            reserved: U32::ZERO,
            at: U64::new(self.at),
        }
    }
}

/// The content of a dynamic header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicHeader {
    /// Offset of the table.
    pub table_at: u64,
    /// Number of its entries.
    pub entries: u32,
    /// Bytes of a block, without its bitmap.
    pub block_bytes: u32,
    /// The identity of the parent; zeros: none.
    pub parent_id: [u8; 16],
    /// The parent's time stamp at the creation of the child.
    pub parent_time_stamp_s: u32,
    /// The name of the parent's file.
    pub parent_name: String,
    /// The locators of its paths.
    pub locators: Vec<Locator>,
}

impl DynamicHeader {
    /// Parses a header.
    ///
    /// # Errors
    ///
    /// Wrong cookie, version, checksum or block size.
    pub fn parse(bytes: &[u8]) -> Result<DynamicHeader, VdiskError> {
        let damaged = |cause: String| VdiskError::damaged("the dynamic header", cause);
        let (raw, _) = Raw::read_from_prefix(bytes).map_err(|_| damaged("it is truncated".into()))?;
        if raw.cookie != COOKIE {
            return Err(damaged("missing cookie".into()));
        }
        let found = checksum(&bytes[..HEADER_BYTES], CHECKSUM_AT);
        if found != raw.checksum.get() {
            let cause = format!("its checksum is {:#010x}, computed {found:#010x}", raw.checksum.get());
            return Err(damaged(cause));
        }
        if raw.version.get() >> 16 != VERSION >> 16 {
            let what = format!("version {:#x} of the dynamic header", raw.version.get());
            return Err(VdiskError::unsupported(what));
        }
        let block_bytes = raw.block_bytes.get();
        if !block_bytes.is_power_of_two() || !BLOCK_BYTES.contains(&block_bytes) {
            return Err(damaged(format!("invalid block size of {block_bytes} bytes")));
        }
        let table_at = raw.table_at.get();
        if !table_at.is_multiple_of(SECTOR_BYTES) || table_at > 2 * LEN_BYTES_MAX {
            return Err(damaged(format!("invalid table at byte {table_at}")));
        }
        let units = raw.parent_name.iter().map(|unit| unit.get()).take_while(|unit| *unit != 0);
        let parent_name =
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        let locators = raw.locators.iter().filter_map(Locator::of);
        Ok(DynamicHeader {
            table_at,
            entries: raw.entries.get(),
            block_bytes,
            parent_id: raw.parent_id,
            parent_time_stamp_s: raw.parent_time_stamp.get(),
            parent_name,
            locators: locators.filter(|l| l.len <= LOCATOR_BYTES_MAX && l.at <= 2 * LEN_BYTES_MAX).collect(),
        })
    }

    /// Serialises it. A name that is too long for the header is truncated: the locators have all of it.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut parent_name = [U16::ZERO; NAME_UNITS];
        for (to, unit) in parent_name.iter_mut().zip(self.parent_name.encode_utf16().take(NAME_UNITS - 1)) {
            *to = U16::new(unit);
        }
        let mut locators = [RawLocator::new_zeroed_locator(); LOCATORS];
        for (to, locator) in locators.iter_mut().zip(&self.locators) {
            *to = locator.raw();
        }
        let mut raw = Raw {
            cookie: COOKIE,
            data_offset: U64::new(u64::MAX),
            table_at: U64::new(self.table_at),
            version: U32::new(VERSION),
            entries: U32::new(self.entries),
            block_bytes: U32::new(self.block_bytes),
            checksum: U32::ZERO,
            parent_id: self.parent_id,
            parent_time_stamp: U32::new(self.parent_time_stamp_s),
            reserved: U32::ZERO,
            parent_name,
            locators,
            reserved_too: [0; 256],
        };
        raw.checksum = U32::new(checksum(raw.as_bytes(), CHECKSUM_AT));
        raw.as_bytes().try_into().expect("a header's length")
    }
}

impl RawLocator {
    fn new_zeroed_locator() -> RawLocator {
        RawLocator { platform: [0; 4], space: U32::ZERO, len: U32::ZERO, reserved: U32::ZERO, at: U64::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_every_byte_counts() {
        let locator = Locator { platform: Platform::WindowsRelative, at: 4096, len: 20, space: 512 };
        let header = DynamicHeader {
            table_at: 1536,
            entries: 512,
            block_bytes: 2 << 20,
            parent_id: [9; 16],
            parent_time_stamp_s: 77,
            parent_name: "the parent.vhd".into(),
            locators: vec![locator],
        };
        let bytes = header.encode();
        assert_eq!(DynamicHeader::parse(&bytes), Ok(header));
        for at in 0..HEADER_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 0x40;
            assert!(DynamicHeader::parse(&damaged).is_err(), "byte {at}");
        }
    }
}
