//! QCOW2, versions 2 and 3: clusters through two levels of tables, plain, zero or compressed with deflate.

use std::cell::RefCell;

use block::Pieces;
use world::Drive;

use super::{inflate, read_bytes};
use crate::VdiskError;

const HEADER_BYTES: u64 = 112;
/// Clusters of 512 bytes to 2 MiB, as the format allows.
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=21;
/// A first table over this is refused: it is kept in memory.
const L1_BYTES_MAX: u64 = 32 << 20;
/// What no disk is larger than.
const LEN_BYTES_MAX: u64 = 1 << 60;
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;

/// A QCOW2 image, without a backing file.
pub struct Qcow2 {
    drive: Drive,
    len_bytes: u64,
    cluster_bits: u32,
    version: u32,
    l1: Vec<u64>,
    /// The second-level table that was used last, and where it lies.
    l2: RefCell<Option<(u64, Vec<u64>)>>,
}

/// Where a cluster is.
enum Cluster {
    Zeros,
    Plain(u64),
    Compressed { at: u64, len: u64 },
}

impl Qcow2 {
    pub(super) async fn open(drive: Drive) -> Result<Qcow2, VdiskError> {
        let bytes = read_bytes(&drive, 0, HEADER_BYTES).await?;
        let u32_at = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let (version, cluster_bits, len_bytes) = (u32_at(4), u32_at(20), u64_at(24));
        let features = if version >= 3 { u64_at(72) } else { 0 };
        check_features(version, features, u64_at(8), u32_at(32))?;
        let damaged = |cause: String| VdiskError::damaged("the QCOW2 header", cause);
        if !CLUSTER_BITS.contains(&cluster_bits)
            || len_bytes > LEN_BYTES_MAX
            || !len_bytes.is_multiple_of(512)
        {
            return Err(damaged(format!(
                "a disk of {len_bytes} bytes in clusters of 2^{cluster_bits} cannot be"
            )));
        }
        let (entries, l1_at) = (u64::from(u32_at(36)), u64_at(40));
        let needed = len_bytes.div_ceil(1 << (2 * cluster_bits - 3));
        if entries < needed || entries * 8 > L1_BYTES_MAX || l1_at > LEN_BYTES_MAX {
            return Err(damaged(format!("a first table of {entries} entries, where {needed} are needed")));
        }
        let l1 = words(&read_bytes(&drive, l1_at, entries * 8).await?);
        Ok(Qcow2 { drive, len_bytes, cluster_bits, version, l1, l2: RefCell::default() })
    }

    /// Size of the disk.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Reads `len` bytes at `at`, appended to `out`.
    pub async fn read(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
        let cluster_bytes = 1_u64 << self.cluster_bits;
        let (mut here, end) = (at, at + len);
        while here < end {
            let from = here % cluster_bytes;
            let n = (cluster_bytes - from).min(end - here);
            match self.cluster(here >> self.cluster_bits).await? {
                Cluster::Zeros => out.push_zeros(n as usize),
                Cluster::Plain(place) => self.read_plain(place + from, n, out).await?,
                Cluster::Compressed { at, len } => {
                    let packed = read_bytes(&self.drive, at, len).await?;
                    let mut bytes = vec![0; cluster_bytes as usize];
                    inflate(&packed, &mut bytes, false, "a compressed cluster")?;
                    out.append(Pieces::copy_of(&bytes[from as usize..(from + n) as usize]));
                }
            }
            here += n;
        }
        Ok(())
    }

    async fn read_plain(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
        out.append(Pieces::copy_of(&read_bytes(&self.drive, at, len).await?));
        Ok(())
    }

    async fn cluster(&self, number: u64) -> Result<Cluster, VdiskError> {
        let entries = 1_u64 << (self.cluster_bits - 3);
        let l2_at = self.l1[(number / entries) as usize] & OFFSET_MASK;
        if l2_at == 0 {
            return Ok(Cluster::Zeros);
        }
        let known = self.l2.borrow().as_ref().is_some_and(|(at, _)| *at == l2_at);
        if !known {
            let table = words(&read_bytes(&self.drive, l2_at, 1 << self.cluster_bits).await?);
            *self.l2.borrow_mut() = Some((l2_at, table));
        }
        let l2 = self.l2.borrow();
        let entry = l2.as_ref().map_or(0, |(_, table)| table[(number % entries) as usize]);
        if entry & COMPRESSED != 0 {
            let bits = 62 - (self.cluster_bits - 8);
            let at = entry & ((1 << bits) - 1);
            let sectors = ((entry & (COMPRESSED - 1)) >> bits) + 1;
            return Ok(Cluster::Compressed { at, len: sectors * 512 - at % 512 });
        }
        Ok(match entry & OFFSET_MASK {
            _ if self.version >= 3 && entry & ZERO != 0 => Cluster::Zeros,
            0 => Cluster::Zeros,
            at => Cluster::Plain(at),
        })
    }
}

fn check_features(version: u32, features: u64, backing_at: u64, encryption: u32) -> Result<(), VdiskError> {
    let refused = |what: &str| Err(VdiskError::unsupported(what));
    match () {
        () if !(2..=3).contains(&version) => refused("a version of QCOW2 other than 2 and 3"),
        () if backing_at != 0 => refused("a QCOW2 image over a backing file: join them first"),
        () if encryption != 0 => refused("an encrypted QCOW2 image"),
        () if features & 2 != 0 => refused("a QCOW2 image that is marked as corrupt"),
        () if features & 4 != 0 => refused("a QCOW2 image with an external data file"),
        () if features & 8 != 0 => {
            refused("a QCOW2 image that is compressed with something else than deflate")
        }
        // The dirty bit says that reference counts may be wrong: nobody asks them to read.
        () if features & !1 != 0 => refused("a QCOW2 image with features unknown here"),
        () => Ok(()),
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_be_bytes(*word)).collect()
}
