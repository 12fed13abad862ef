//! The footer: the last sector of every VHD, and a copy in the first sector of dynamic ones.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Geometry, LEN_BYTES_MAX, SECTOR_BYTES};
use crate::VdiskError;

/// Bytes of a footer.
pub const FOOTER_BYTES: usize = 512;
const COOKIE: [u8; 8] = *b"conectix";
/// Bit 1 is reserved, and always set.
const FEATURES: u32 = 2;
const VERSION: u32 = 0x0001_0000;
const NO_OFFSET: u64 = u64::MAX;
/// Readers take the size from the geometry unless the creator is known to use `current_size`; this is the
/// best-known of these creators.
const CREATOR: [u8; 4] = *b"win ";
const CREATOR_VERSION: u32 = 0x000a_0000;
const CREATOR_OS: [u8; 4] = *b"Wi2k";

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    cookie: [u8; 8],
    features: U32,
    version: U32,
    data_offset: U64,
    time_stamp: U32,
    creator: [u8; 4],
    creator_version: U32,
    creator_os: [u8; 4],
    original_size: U64,
    current_size: U64,
    cylinders: U16,
    heads: u8,
    sectors: u8,
    kind: U32,
    checksum: U32,
    id: [u8; 16],
    saved_state: u8,
    reserved: [u8; 427],
}

const _: () = assert!(size_of::<Raw>() == FOOTER_BYTES);

/// The type of a VHD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fully allocated.
    Fixed,
    /// Blocks are allocated on first write.
    Dynamic,
    /// Dynamic, over a parent.
    Differencing,
}

/// The content of a footer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Footer {
    /// The type.
    pub kind: Kind,
    /// Size of the disk in bytes.
    pub len_bytes: u64,
    /// Size at creation.
    pub original_len_bytes: u64,
    /// Offset of the dynamic header; none in a fixed image.
    pub header_at: Option<u64>,
    /// Seconds since 2000-01-01 00:00 UTC.
    pub time_stamp_s: u32,
    /// The identity by which children refer to it.
    pub id: [u8; 16],
    pub geometry: Geometry,
    /// The creating program, four characters.
    pub creator: [u8; 4],
    /// Its version and operating system.
    pub creator_details: (u32, [u8; 4]),
    /// Whether the guest was in a saved state, not shut down.
    pub saved_state: bool,
}

impl Footer {
    /// Whether two copies describe the same disk; their time of use may differ.
    pub(super) fn is_of_the_disk_of(&self, other: &Footer) -> bool {
        let of = |f: &Footer| (f.kind, f.len_bytes, f.header_at, f.id);
        of(self) == of(other)
    }

    /// A footer for a new disk.
    pub fn new(kind: Kind, len_bytes: u64, id: [u8; 16], time_stamp_s: u32) -> Footer {
        Footer {
            kind,
            len_bytes,
            original_len_bytes: len_bytes,
            header_at: (kind != Kind::Fixed).then_some(SECTOR_BYTES),
            time_stamp_s,
            id,
            geometry: Geometry::of(len_bytes),
            creator: CREATOR,
            creator_details: (CREATOR_VERSION, CREATOR_OS),
            saved_state: false,
        }
    }

    /// Parses a footer.
    ///
    /// # Errors
    ///
    /// Wrong cookie, version, checksum or size.
    pub fn parse(bytes: &[u8]) -> Result<Footer, VdiskError> {
        let foreign = |cause: &str| VdiskError::Foreign { format: "VHD", cause: cause.into() };
        let (raw, _) = Raw::read_from_prefix(bytes).map_err(|_| foreign("shorter than a footer"))?;
        if raw.cookie != COOKIE {
            return Err(foreign("missing footer"));
        }
        let found = checksum(&bytes[..FOOTER_BYTES], CHECKSUM_AT);
        if found != raw.checksum.get() {
            let cause = format!("its checksum is {:#010x}, computed {found:#010x}", raw.checksum.get());
            return Err(VdiskError::damaged("the footer", cause));
        }
        if raw.version.get() >> 16 != VERSION >> 16 {
            return Err(VdiskError::unsupported(format!("version {:#x} of VHD", raw.version.get())));
        }
        let kind = match raw.kind.get() {
            2 => Kind::Fixed,
            3 => Kind::Dynamic,
            4 => Kind::Differencing,
            kind => return Err(VdiskError::unsupported(format!("a VHD of type {kind}"))),
        };
        let len_bytes = raw.current_size.get();
        // A fixed image has no sector numbers, so its size is not limited.
        if len_bytes == 0 || !len_bytes.is_multiple_of(SECTOR_BYTES) || len_bytes > len_max(kind) {
            return Err(VdiskError::damaged("the footer", format!("invalid disk size of {len_bytes} bytes")));
        }
        let header_at = (kind != Kind::Fixed).then_some(raw.data_offset.get());
        if header_at.is_some_and(|at| !at.is_multiple_of(SECTOR_BYTES) || at > LEN_BYTES_MAX) {
            let cause = format!("invalid dynamic header at byte {}", raw.data_offset.get());
            return Err(VdiskError::damaged("the footer", cause));
        }
        Ok(Footer {
            kind,
            len_bytes,
            original_len_bytes: raw.original_size.get(),
            header_at,
            time_stamp_s: raw.time_stamp.get(),
            id: raw.id,
            geometry: Geometry { cylinders: raw.cylinders.get(), heads: raw.heads, sectors: raw.sectors },
            creator: raw.creator,
            creator_details: (raw.creator_version.get(), raw.creator_os),
            saved_state: raw.saved_state != 0,
        })
    }

    /// Serialises it.
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut raw = Raw {
            cookie: COOKIE,
            features: U32::new(FEATURES),
            version: U32::new(VERSION),
            data_offset: U64::new(self.header_at.unwrap_or(NO_OFFSET)),
            time_stamp: U32::new(self.time_stamp_s),
            creator: self.creator,
            creator_version: U32::new(self.creator_details.0),
            creator_os: self.creator_details.1,
            original_size: U64::new(self.original_len_bytes),
            current_size: U64::new(self.len_bytes),
            cylinders: U16::new(self.geometry.cylinders),
            heads: self.geometry.heads,
            sectors: self.geometry.sectors,
            kind: U32::new(match self.kind {
                Kind::Fixed => 2,
                Kind::Dynamic => 3,
                Kind::Differencing => 4,
            }),
            checksum: U32::ZERO,
            id: self.id,
            saved_state: u8::from(self.saved_state),
            reserved: [0; 427],
        };
        raw.checksum = U32::new(checksum(raw.as_bytes(), CHECKSUM_AT));
        raw.as_bytes().try_into().expect("a footer's length")
    }
}

pub(super) fn len_max(kind: Kind) -> u64 {
    match kind {
        Kind::Fixed => 64 << 40,
        Kind::Dynamic | Kind::Differencing => LEN_BYTES_MAX,
    }
}

/// Offset of the checksum in a footer.
const CHECKSUM_AT: usize = 64;

/// The one's complement of the sum of all bytes except those of the checksum.
pub(super) fn checksum(bytes: &[u8], checksum_at: usize) -> u32 {
    let sum = |bytes: &[u8]| bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
    !sum(&bytes[..checksum_at]).wrapping_add(sum(&bytes[checksum_at + 4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_reads_back_and_every_byte_counts() {
        let footer = Footer::new(Kind::Dynamic, 1 << 30, [7; 16], 123);
        let bytes = footer.encode();
        assert_eq!(Footer::parse(&bytes), Ok(footer));
        for at in 0..FOOTER_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 0x40;
            assert!(Footer::parse(&damaged).is_err(), "byte {at}");
        }
        assert!(Footer::parse(&bytes[..511]).is_err());
    }
}
