//! The metadata region: sizes, identities, and the parent.

use super::region::{u16_at, u32_at, u64_at};
use super::{Guid, LEN_BYTES_MAX};
use crate::VdiskError;

const TABLE_BYTES: usize = 64 << 10;
const SIGNATURE: &[u8; 8] = b"metadata";
const ENTRY_BYTES: usize = 32;
const ENTRIES_MAX: u16 = 2047;
/// Limits of the pairs of a parent locator, and of their text: the format has five keys, and a path at most
/// 32 KiB.
const PAIRS_MAX: u16 = 64;
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Length of the region that is read.
pub(super) const METADATA_BYTES_MAX: u32 = 16 << 20;
const FILE_PARAMETERS: Guid =
    Guid::of(0xcaa1_6737, 0xfa36, 0x4d43, [0xb3, 0xb6, 0x33, 0xf0, 0xaa, 0x44, 0xe7, 0x6b]);
const DISK_SIZE: Guid =
    Guid::of(0x2fa5_4224, 0xcd1b, 0x4876, [0xb2, 0x11, 0x5d, 0xbe, 0xd8, 0x3b, 0xf4, 0xb8]);
const DISK_ID: Guid = Guid::of(0xbeca_12ab, 0xb2e6, 0x4523, [0x93, 0xef, 0xc3, 0x09, 0xe0, 0x00, 0xc7, 0x46]);
const LOGICAL_SECTOR: Guid =
    Guid::of(0x8141_bf1d, 0xa96f, 0x4709, [0xba, 0x47, 0xf2, 0x33, 0xa8, 0xfa, 0xab, 0x5f]);
const PHYSICAL_SECTOR: Guid =
    Guid::of(0xcda3_48c7, 0x445d, 0x4471, [0x9c, 0xc9, 0xe9, 0x88, 0x52, 0x51, 0xc5, 0x56]);
const PARENT_LOCATOR: Guid =
    Guid::of(0xa8d3_5f2d, 0xb30b, 0x454d, [0xab, 0xf7, 0xd3, 0xd8, 0x48, 0x34, 0xab, 0x0c]);
const VHDX_PARENT: Guid =
    Guid::of(0xb04a_efb7, 0xd19e, 0x4a81, [0xb7, 0x89, 0x25, 0xb8, 0xe9, 0x44, 0x59, 0x13]);
/// The flags of items: belongs to the disk, not the file; required: an implementation that does not know it
/// must not open the image.
const OF_DISK: u32 = 2;
const REQUIRED: u32 = 4;
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = (1 << 20)..=(256 << 20);

/// The content of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    pub(super) block_bytes: u32,
    /// Fixed: blocks are never released.
    pub(super) stays_allocated: bool,
    pub(super) len_bytes: u64,
    pub(super) disk_id: Guid,
    pub(super) logical_bytes: u32,
    pub(super) physical_bytes: u32,
    /// Keys and values of the parent locator; none: no parent.
    pub(super) parent: Option<Vec<(String, String)>>,
    /// Offset of the disk size in the region.
    pub(super) len_at: u32,
}

/// Items by their identity.
struct Items<'a> {
    bytes: &'a [u8],
    list: Vec<(Guid, u32, u32, u32)>,
}

impl<'a> Items<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Items<'a>, VdiskError> {
        if bytes.len() < TABLE_BYTES || bytes[..8] != SIGNATURE[..] {
            return Err(damaged("missing signature"));
        }
        let count = u16_at(bytes, 10);
        if count > ENTRIES_MAX {
            return Err(damaged(format!("too many items: {count}")));
        }
        let mut list: Vec<(Guid, u32, u32, u32)> = Vec::new();
        for entry in bytes[ENTRY_BYTES..TABLE_BYTES].chunks_exact(ENTRY_BYTES).take(count.into()) {
            let id = Guid(entry[..16].try_into().expect("16 bytes"));
            let (at, len, flags) = (u32_at(entry, 16), u32_at(entry, 20), u32_at(entry, 24));
            let end = u64::from(at) + u64::from(len);
            if len > 0 && ((at as usize) < TABLE_BYTES || end > bytes.len() as u64) {
                return Err(damaged(format!("invalid item {id} of {len} bytes at {at}")));
            }
            if list.iter().any(|(other, ..)| *other == id) {
                return Err(damaged(format!("duplicate item {id}")));
            }
            list.push((id, at, len, flags));
        }
        // Changing one would change the other.
        let mut places: Vec<(u64, u64)> =
            list.iter().map(|(_, at, len, _)| (u64::from(*at), u64::from(*at) + u64::from(*len))).collect();
        places.retain(|(at, end)| at < end);
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            return Err(damaged(format!("the items at {} and {} overlap each other", pair[0].0, pair[1].0)));
        }
        Ok(Items { bytes, list })
    }

    fn get(&self, id: Guid, len: usize) -> Result<&'a [u8], VdiskError> {
        let bytes = self.find(id)?.1;
        bytes.get(..len).ok_or_else(|| damaged(format!("item {id} is shorter than {len} bytes")))
    }

    fn find(&self, id: Guid) -> Result<(u32, &'a [u8]), VdiskError> {
        let item = self.list.iter().find(|(other, ..)| *other == id);
        let (_, at, len, _) = item.ok_or_else(|| damaged(format!("missing item {id}")))?;
        if *len == 0 {
            return Err(damaged(format!("empty item {id}")));
        }
        Ok((*at, &self.bytes[*at as usize..][..*len as usize]))
    }
}

fn damaged(cause: impl Into<String>) -> VdiskError {
    VdiskError::damaged("the metadata", cause)
}

impl Metadata {
    pub(super) fn parse(bytes: &[u8]) -> Result<Metadata, VdiskError> {
        let items = Items::parse(bytes)?;
        let known = [FILE_PARAMETERS, DISK_SIZE, DISK_ID, LOGICAL_SECTOR, PHYSICAL_SECTOR, PARENT_LOCATOR];
        let unknown =
            items.list.iter().find(|(id, _, _, flags)| flags & REQUIRED != 0 && !known.contains(id));
        if let Some((id, ..)) = unknown {
            return Err(VdiskError::unsupported(format!("metadata item {id}")));
        }
        let parameters = items.get(FILE_PARAMETERS, 8)?;
        let (block_bytes, flags) = (u32_at(parameters, 0), u32_at(parameters, 4));
        if !block_bytes.is_power_of_two() || !BLOCK_BYTES.contains(&block_bytes) {
            return Err(damaged(format!("invalid block size of {block_bytes} bytes")));
        }
        let logical_bytes = u32_at(items.get(LOGICAL_SECTOR, 4)?, 0);
        let physical_bytes = u32_at(items.get(PHYSICAL_SECTOR, 4)?, 0);
        if ![512, 4096].contains(&logical_bytes) || ![512, 4096].contains(&physical_bytes) {
            return Err(damaged(format!(
                "invalid sector sizes of {logical_bytes} and {physical_bytes} bytes"
            )));
        }
        let len_bytes = u64_at(items.get(DISK_SIZE, 8)?, 0);
        if len_bytes == 0 || len_bytes > LEN_BYTES_MAX || !len_bytes.is_multiple_of(logical_bytes.into()) {
            return Err(damaged(format!("invalid disk size of {len_bytes} bytes")));
        }
        let has_parent = flags & 2 != 0;
        let parent =
            has_parent.then(|| items.find(PARENT_LOCATOR).and_then(|(_, item)| locator(item))).transpose()?;
        Ok(Metadata {
            block_bytes,
            stays_allocated: flags & 1 != 0,
            len_bytes,
            disk_id: Guid(items.get(DISK_ID, 16)?.try_into().expect("16 bytes")),
            logical_bytes,
            physical_bytes,
            parent,
            len_at: items.find(DISK_SIZE)?.0,
        })
    }

    /// The bytes of a region of 1 MiB.
    pub(super) fn encode(&self) -> Result<Vec<u8>, VdiskError> {
        let mut bytes = vec![0; 1 << 20];
        let flags = u32::from(self.stays_allocated) | u32::from(self.parent.is_some()) << 1;
        let parameters = [self.block_bytes.to_le_bytes(), flags.to_le_bytes()].concat();
        let mut items = vec![
            (FILE_PARAMETERS, REQUIRED, parameters),
            (DISK_SIZE, OF_DISK | REQUIRED, self.len_bytes.to_le_bytes().to_vec()),
            (DISK_ID, OF_DISK | REQUIRED, self.disk_id.0.to_vec()),
            (LOGICAL_SECTOR, OF_DISK | REQUIRED, self.logical_bytes.to_le_bytes().to_vec()),
            (PHYSICAL_SECTOR, OF_DISK | REQUIRED, self.physical_bytes.to_le_bytes().to_vec()),
        ];
        if let Some(pairs) = &self.parent {
            items.push((PARENT_LOCATOR, REQUIRED, encode_locator(pairs)));
        }
        bytes[..8].copy_from_slice(SIGNATURE);
        bytes[10..12].copy_from_slice(&(items.len() as u16).to_le_bytes());
        let mut at = TABLE_BYTES;
        for (i, (id, flags, item)) in items.into_iter().enumerate() {
            let to = bytes.get_mut(at..at + item.len());
            to.ok_or_else(|| VdiskError::refused("the parent's paths are too long"))?.copy_from_slice(&item);
            let entry = &mut bytes[ENTRY_BYTES * (1 + i)..][..ENTRY_BYTES];
            entry[..16].copy_from_slice(&id.0);
            entry[16..20].copy_from_slice(&(at as u32).to_le_bytes());
            entry[20..24].copy_from_slice(&(item.len() as u32).to_le_bytes());
            entry[24..28].copy_from_slice(&flags.to_le_bytes());
            at += item.len().next_multiple_of(8);
        }
        Ok(bytes)
    }
}

/// The pairs of a parent locator.
fn locator(item: &[u8]) -> Result<Vec<(String, String)>, VdiskError> {
    if item.len() < 20 || item[..16] != VHDX_PARENT.0 {
        return Err(VdiskError::unsupported("a parent that is not a VHDX"));
    }
    let count = u16_at(item, 18);
    if count > PAIRS_MAX {
        return Err(damaged(format!("the parent locator has {count} pairs; the limit is {PAIRS_MAX}")));
    }
    let mut text_bytes = 0;
    let mut text = |at: u32, len: u16| -> Result<String, VdiskError> {
        text_bytes += usize::from(len);
        if text_bytes > TEXT_BYTES_MAX {
            return Err(damaged("the text of the parent locator exceeds the limit"));
        }
        let bytes = item.get(at as usize..at as usize + usize::from(len));
        let (units, _) = bytes.ok_or_else(|| damaged("truncated parent locator"))?.as_chunks::<2>();
        let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
        Ok(String::from_utf16_lossy(&units))
    };
    let entries = item[20..].chunks_exact(12).take(count.into());
    entries
        .map(|entry| {
            let (key, value) = (u32_at(entry, 0), u32_at(entry, 4));
            Ok((text(key, u16_at(entry, 8))?, text(value, u16_at(entry, 10))?))
        })
        .collect()
}

fn encode_locator(pairs: &[(String, String)]) -> Vec<u8> {
    let mut item = VHDX_PARENT.0.to_vec();
    item.extend([0, 0]);
    item.extend((pairs.len() as u16).to_le_bytes());
    let mut texts: Vec<u8> = Vec::new();
    let begin = 20 + 12 * pairs.len();
    for (key, value) in pairs {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let (key, value) = (utf16(key), utf16(value));
        item.extend(((begin + texts.len()) as u32).to_le_bytes());
        item.extend(((begin + texts.len() + key.len()) as u32).to_le_bytes());
        item.extend((key.len() as u16).to_le_bytes());
        item.extend((value.len() as u16).to_le_bytes());
        texts.extend(key);
        texts.extend(value);
    }
    item.extend(texts);
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_read_back() {
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        let mut metadata = Metadata {
            block_bytes: 2 << 20,
            stays_allocated: false,
            len_bytes: 5 << 30,
            disk_id: Guid([3; 16]),
            logical_bytes: 512,
            physical_bytes: 4096,
            parent: Some(vec![pair("relative_path", ".\\base.vhdx"), pair("parent_linkage", "{...}")]),
            len_at: 0,
        };
        let mut bytes = metadata.encode().expect("fits");
        let read = Metadata::parse(&bytes).expect("parses");
        metadata.len_at = read.len_at;
        assert_eq!(read, metadata);
        // The size item at the offset of the block size.
        let (block, size) = (ENTRY_BYTES + 16, 2 * ENTRY_BYTES + 16);
        let mut overlapping = bytes.clone();
        overlapping.copy_within(block..block + 4, size);
        assert!(Metadata::parse(&overlapping).is_err_and(|e| e.to_string().contains("each other")));
        // An unknown required item.
        bytes[ENTRY_BYTES * 3] ^= 1;
        assert!(matches!(Metadata::parse(&bytes), Err(VdiskError::Unsupported { .. })));
    }
}
