//! The region table, of which there are two copies: places of the block allocation table and of the metadata.

use super::header::FILE_BYTES_MAX;
use super::{Guid, HEAD_BYTES, MIB, checksum};
use crate::VdiskError;

/// Offsets of the copies.
pub(super) const REGION_TABLES_AT: [u64; 2] = [192 << 10, 256 << 10];
pub(super) const REGION_TABLE_BYTES: usize = 64 << 10;
const SIGNATURE: &[u8; 4] = b"regi";
const ENTRIES_MAX: u32 = 2047;
const ENTRY_BYTES: usize = 32;
const HEADER_BYTES: usize = 16;
const TABLE: Guid = Guid::of(0x2dc2_7766, 0xf623, 0x4200, [0x9d, 0x64, 0x11, 0x5e, 0x9b, 0xfd, 0x4a, 0x08]);
const METADATA: Guid =
    Guid::of(0x8b7c_a206, 0x4790, 0x4b9a, [0xb8, 0xfe, 0x57, 0x5f, 0x05, 0x0f, 0x88, 0x6e]);

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) at: u64,
    pub(super) len: u32,
}

impl Region {
    pub(super) fn end(&self) -> u64 {
        self.at + u64::from(self.len)
    }
}

/// The regions of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Regions {
    pub(super) table: Region,
    pub(super) metadata: Region,
    /// Unknown regions, which are not required, and not free space.
    pub(super) others: Vec<Region>,
}

impl Regions {
    pub(super) fn parse(bytes: &[u8]) -> Result<Regions, VdiskError> {
        let damaged = |cause: String| VdiskError::damaged("the region table", cause);
        if bytes.len() != REGION_TABLE_BYTES || bytes[..4] != SIGNATURE[..] {
            return Err(damaged("missing signature".into()));
        }
        if checksum(bytes, 4) != u32_at(bytes, 4) {
            return Err(damaged("wrong checksum".into()));
        }
        let count = u32_at(bytes, 8);
        if count > ENTRIES_MAX {
            return Err(damaged(format!("too many regions: {count}")));
        }
        let (mut table, mut metadata, mut others) = (None, None, Vec::new());
        for entry in bytes[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).take(count as usize) {
            let id = Guid(entry[..16].try_into().expect("16 bytes"));
            let region = Region { at: u64_at(entry, 16), len: u32_at(entry, 24) };
            let fits = region.at.is_multiple_of(MIB) && u64::from(region.len).is_multiple_of(MIB);
            if !fits || !(HEAD_BYTES..=FILE_BYTES_MAX).contains(&region.at) || region.len == 0 {
                return Err(damaged(format!(
                    "invalid region {id} of {} bytes at byte {}",
                    region.len, region.at
                )));
            }
            match id {
                TABLE if table.is_none() => table = Some(region),
                METADATA if metadata.is_none() => metadata = Some(region),
                TABLE | METADATA => return Err(damaged(format!("duplicate region {id}"))),
                _ if entry[28] & 1 != 0 => return Err(VdiskError::unsupported(format!("region {id}"))),
                _ => others.push(region),
            }
        }
        match (table, metadata) {
            (Some(table), Some(metadata)) => Ok(Regions { table, metadata, others }),
            _ => Err(damaged("missing region of the table or of the metadata".into())),
        }
    }

    /// The bytes of a table with these two regions; masu creates no others, and a file with others keeps its
    /// table.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; REGION_TABLE_BYTES];
        bytes[..4].copy_from_slice(SIGNATURE);
        bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
        for (i, (id, region)) in [(TABLE, self.table), (METADATA, self.metadata)].into_iter().enumerate() {
            let entry = &mut bytes[HEADER_BYTES + i * ENTRY_BYTES..][..ENTRY_BYTES];
            entry[..16].copy_from_slice(&id.0);
            entry[16..24].copy_from_slice(&region.at.to_le_bytes());
            entry[24..28].copy_from_slice(&region.len.to_le_bytes());
            entry[28..32].copy_from_slice(&1_u32.to_le_bytes());
        }
        let sum = checksum(&bytes, 4);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// All of them: first byte, and the one behind the last.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        [self.table, self.metadata].into_iter().chain(self.others.iter().copied()).map(|r| (r.at, r.end()))
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_back_and_damage_is_noticed() {
        let region = |mib: u64| Region { at: mib * MIB, len: 1 << 20 };
        let regions = Regions { table: region(3), metadata: region(2), others: vec![] };
        let mut bytes = regions.encode();
        assert_eq!(Regions::parse(&bytes), Ok(regions));
        bytes[20] ^= 1;
        assert!(Regions::parse(&bytes).is_err());
    }
}
