//! QCOW2, versions 2 and 3: clusters through two levels of tables, plain, zero or compressed with deflate.

mod check;

use std::cell::RefCell;

use block::Pieces;
use world::Drive;

use super::{inflate, read_bytes};
use crate::VdiskError;

pub(super) const MAGIC: &[u8] = b"QFI\xfb";
/// The header of version 2, and the used part of version 3.
const HEADER_BYTES: [u64; 2] = [72, 112];
/// Clusters of 512 bytes to 2 MiB, as the format allows.
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=21;
/// A larger L1 table is refused, because it is kept in memory.
const L1_BYTES_MAX: u64 = 32 << 20;
/// Limit of disk sizes.
const LEN_BYTES_MAX: u64 = 1 << 60;
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// Of a reference count, where the header does not say it: 16 bits.
const REFERENCE_ORDER: u32 = 4;
const SECOND_TABLE: &str = "an L2 table of the QCOW2 image";

/// A QCOW2 image, without a backing file.
pub struct Qcow2 {
    drive: Drive,
    len_bytes: u64,
    cluster_bits: u32,
    version: u32,
    places: Places,
    l1: Vec<u64>,
    /// The last used L2 table, and its offset.
    l2: RefCell<Option<(u64, Vec<u64>)>>,
}

/// Where the header says that the tables are.
struct Places {
    l1_at: u64,
    l1_entries: u64,
    counts_at: u64,
    /// Of the table of reference counts.
    counts_clusters: u64,
    /// A reference count has 2^this bits.
    counts_order: u32,
}

/// The location of a cluster.
enum Cluster {
    Zeros,
    Plain(u64),
    Compressed { at: u64, len: u64 },
}

impl Qcow2 {
    pub(super) async fn open(drive: Drive) -> Result<Qcow2, VdiskError> {
        let what = "the QCOW2 header";
        let damaged = |cause: String| VdiskError::damaged(what, cause);
        let short = read_bytes(&drive, 0, HEADER_BYTES[0], what).await?;
        let version = u32_at(&short, 4);
        let bytes = match version {
            3.. => read_bytes(&drive, 0, HEADER_BYTES[1], what).await?,
            _ => short,
        };
        let (cluster_bits, len_bytes) = (u32_at(&bytes, 20), u64_at(&bytes, 24));
        let features = if version >= 3 { u64_at(&bytes, 72) } else { 0 };
        check_features(version, features, u64_at(&bytes, 8), u32_at(&bytes, 32))?;
        if !CLUSTER_BITS.contains(&cluster_bits)
            || len_bytes > LEN_BYTES_MAX
            || !len_bytes.is_multiple_of(512)
        {
            return Err(damaged(format!(
                "invalid disk size of {len_bytes} bytes, or clusters of 2^{cluster_bits} bytes"
            )));
        }
        let (entries, l1_at) = (u64::from(u32_at(&bytes, 36)), u64_at(&bytes, 40));
        let needed = len_bytes.div_ceil(1 << (2 * cluster_bits - 3));
        if entries < needed || entries * 8 > L1_BYTES_MAX || !l1_at.is_multiple_of(1 << cluster_bits) {
            return Err(damaged(format!(
                "invalid L1 table of {entries} entries at byte {l1_at}: {needed} entries are required"
            )));
        }
        let l1 = words(&read_bytes(&drive, l1_at, needed * 8, "the L1 table of the QCOW2 image").await?);
        let places = Places {
            l1_at,
            l1_entries: entries,
            counts_at: u64_at(&bytes, 48),
            counts_clusters: u32_at(&bytes, 56).into(),
            counts_order: if version >= 3 { u32_at(&bytes, 96) } else { REFERENCE_ORDER },
        };
        Ok(Qcow2 { drive, len_bytes, cluster_bits, version, places, l1, l2: RefCell::default() })
    }

    /// Size of the disk.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Reads `len` bytes at `at`, which are in the disk, appended to `out`.
    pub(super) async fn read(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
        let (mut here, end) = (at, at + len);
        while here < end {
            let from = here % self.cluster_bytes();
            let n = (self.cluster_bytes() - from).min(end - here);
            match self.cluster(here >> self.cluster_bits).await? {
                Cluster::Zeros => out.push_zeros(n as usize),
                Cluster::Plain(place) => {
                    let bytes =
                        read_bytes(&self.drive, place + from, n, "a cluster of the QCOW2 image").await?;
                    out.append(Pieces::copy_of(&bytes));
                }
                Cluster::Compressed { at, len } => {
                    let bytes = self.unpacked(at, len).await?;
                    out.append(Pieces::copy_of(&bytes[from as usize..(from + n) as usize]));
                }
            }
            here += n;
        }
        Ok(())
    }

    /// The bytes of a compressed cluster.
    async fn unpacked(&self, at: u64, len: u64) -> Result<Vec<u8>, VdiskError> {
        // Its length is given in sectors: the last one may be truncated at the end of the file.
        let len = len.min(self.drive.len_bytes().saturating_sub(at));
        let packed = read_bytes(&self.drive, at, len, "a compressed cluster").await?;
        let mut bytes = vec![0; self.cluster_bytes() as usize];
        inflate(&packed, &mut bytes, false, "a compressed cluster")?;
        Ok(bytes)
    }

    /// Number of bytes from here on that are zeros: tables that do not exist, or clusters of one table. What
    /// is damaged is for a read to find.
    pub(super) async fn hole(&self, at: u64) -> u64 {
        let (number, entries) = (at >> self.cluster_bits, self.cluster_bytes() / 8);
        let index = number / entries;
        let absent = |entry: &&u64| **entry & OFFSET_MASK == 0;
        let gone = self.l1.iter().skip(index as usize).take_while(absent).count() as u64;
        let mut end = number;
        if gone > 0 {
            end = (index + gone) * entries;
        } else {
            let last = (index + 1) * entries;
            while end < last && matches!(self.cluster(end).await, Ok(Cluster::Zeros)) {
                end += 1;
            }
        }
        (end << self.cluster_bits).saturating_sub(at)
    }

    async fn cluster(&self, number: u64) -> Result<Cluster, VdiskError> {
        let entries = self.cluster_bytes() / 8;
        let l2_at = self.l1.get((number / entries) as usize).map_or(0, |entry| entry & OFFSET_MASK);
        if l2_at == 0 {
            return Ok(Cluster::Zeros);
        }
        let known = self.l2.borrow().as_ref().is_some_and(|(at, _)| *at == l2_at);
        if !known {
            let table = self.second_table(l2_at).await?;
            *self.l2.borrow_mut() = Some((l2_at, table));
        }
        let l2 = self.l2.borrow();
        let entry = l2.as_ref().and_then(|(_, table)| table.get((number % entries) as usize)).copied();
        let cluster = self.resolve(entry.unwrap_or(0));
        cluster.map_err(|cause| VdiskError::damaged(SECOND_TABLE, format!("cluster {number}: {cause}")))
    }

    async fn second_table(&self, at: u64) -> Result<Vec<u64>, VdiskError> {
        if !at.is_multiple_of(self.cluster_bytes()) {
            return Err(VdiskError::damaged(SECOND_TABLE, format!("invalid location at byte {at}")));
        }
        Ok(words(&read_bytes(&self.drive, at, self.cluster_bytes(), SECOND_TABLE).await?))
    }

    /// Decodes an entry of an L2 table.
    fn resolve(&self, entry: u64) -> Result<Cluster, String> {
        if entry & COMPRESSED != 0 {
            let bits = 62 - (self.cluster_bits - 8);
            let at = entry & ((1 << bits) - 1);
            let sectors = ((entry & (COMPRESSED - 1)) >> bits) + 1;
            return Ok(Cluster::Compressed { at, len: sectors * 512 - at % 512 });
        }
        match entry & OFFSET_MASK {
            _ if self.version >= 3 && entry & ZERO != 0 => Ok(Cluster::Zeros),
            0 => Ok(Cluster::Zeros),
            at if at.is_multiple_of(self.cluster_bytes()) => Ok(Cluster::Plain(at)),
            at => Err(format!("invalid location at byte {at}")),
        }
    }
}

fn check_features(version: u32, features: u64, backing_at: u64, encryption: u32) -> Result<(), VdiskError> {
    let refused = |what: &str| Err(VdiskError::unsupported(what));
    match () {
        () if !(2..=3).contains(&version) => refused("a version of QCOW2 other than 2 and 3"),
        () if backing_at != 0 => {
            refused("a QCOW2 image with a backing file; merge them first (qemu-img convert)")
        }
        () if encryption != 0 => refused("an encrypted QCOW2 image"),
        () if features & 2 != 0 => Err(VdiskError::damaged(
            "the QCOW2 image",
            "it is marked as corrupt; repair it with qemu-img check",
        )),
        () if features & 4 != 0 => refused("a QCOW2 image with an external data file"),
        () if features & 8 != 0 => refused("a QCOW2 image with a compression other than deflate"),
        () if features & 16 != 0 => refused("a QCOW2 image with extended L2 entries (subclusters)"),
        // The dirty bit means that reference counts may be wrong, which reading does not use.
        () if features & !1 != 0 => {
            refused(&format!("a QCOW2 image with unknown incompatible features {:#x}", features & !31))
        }
        () => Ok(()),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_be_bytes(*word)).collect()
}
