//! The layout of a datastore: one superblock, then regions at fixed offsets, then data in extents.
//!
//! ```text
//!  0        superblock, 4 KiB
//!  1 MiB    heartbeats: one sector of 512 bytes per host
//!  2 MiB    lock records: one sector each; the first CLUSTERS guard the allocation clusters, then those of the files
//!  96 MiB   allocation clusters: 4 KiB each
//!  97 MiB   file descriptors: 4 KiB each
//! 112 MiB   data: extents of 1 MiB
//! ```
//!
//! All numbers are little-endian. Places are whole 4 KiB from the start, so that LUs with blocks of 4 KiB can
//! hold it, too; lock records stay one *logical block* each, which is the unit of COMPARE AND WRITE.

/// The unit of allocation.
pub const EXTENT_BYTES: u64 = 1 << 20;
/// Metadata blocks.
pub(super) const META_BYTES: u64 = 4096;
/// Clusters of extents: each with a bitmap and a lock of its own, so that hosts allocate beside each other.
pub const CLUSTERS: u32 = 16;
/// Hosts that can be mounted.
pub const HOSTS_MAX: u32 = 64;
/// Files that a datastore can have.
pub const FILES_MAX: u32 = 2048;
/// Extents that one cluster's bitmap holds: what is left of its block after the header.
pub(super) const CLUSTER_EXTENTS_MAX: u64 = (META_BYTES - super::cluster::HEADER_LEN as u64) * 8;

const HEARTBEATS_AT: u64 = 1 << 20;
const LOCKS_AT: u64 = 2 << 20;
/// Room for 24,064 lock records of 4 KiB, or eight times as many of 512 bytes: a hundred for each of 240 VMs.
const CLUSTERS_AT: u64 = 96 << 20;
const FILES_AT: u64 = 97 << 20;
/// Where data begins.
pub(super) const DATA_AT: u64 = 112 << 20;

const MAGIC: [u8; 8] = *b"masu-ds1";

const _: () = assert!(CLUSTERS_AT + CLUSTERS as u64 * META_BYTES <= FILES_AT);
const _: () = assert!(FILES_AT + FILES_MAX as u64 * META_BYTES <= DATA_AT);

/// The size and block length of a datastore's LU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the LU.
    pub len_bytes: u64,
    /// Logical block of the LU: the size of a lock record.
    pub block_bytes: u32,
}

/// Why a superblock is invalid, or a LU cannot hold a datastore.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("LU too small for a datastore: it has {len} bytes, {needed} are required")]
    TooSmall { needed: u64, len: u64 },
    #[error("unsupported block size of {0} bytes: a datastore requires 512 or 4096")]
    Block(u32),
    #[error("no datastore on the LU")]
    NoDatastore,
    #[error("the datastore was made for another LU ({made} bytes, not {len})")]
    OtherLen { made: u64, len: u64 },
}

impl Layout {
    /// The layout for a LU.
    pub fn of(len_bytes: u64, block_bytes: u32) -> Result<Layout, LayoutError> {
        if block_bytes != 512 && block_bytes != 4096 {
            return Err(LayoutError::Block(block_bytes));
        }
        let needed = DATA_AT + u64::from(CLUSTERS) * EXTENT_BYTES;
        if len_bytes < needed {
            return Err(LayoutError::TooSmall { needed, len: len_bytes });
        }
        Ok(Layout { len_bytes, block_bytes })
    }

    /// Extents of one cluster, the unit that a lock covers.
    pub fn cluster_extents(&self) -> u64 {
        ((self.len_bytes - DATA_AT) / EXTENT_BYTES / u64::from(CLUSTERS)).min(CLUSTER_EXTENTS_MAX)
    }

    /// Where an extent of a cluster lies.
    pub fn extent_at(&self, cluster: u32, index: u64) -> u64 {
        DATA_AT + (u64::from(cluster) * self.cluster_extents() + index) * EXTENT_BYTES
    }

    /// Which cluster an extent is in, and which it is there.
    pub fn extent_of(&self, at: u64) -> (u32, u64) {
        let n = (at - DATA_AT) / EXTENT_BYTES;
        ((n / self.cluster_extents()) as u32, n % self.cluster_extents())
    }

    /// A host's heartbeat.
    pub fn heartbeat_at(&self, host: u32) -> u64 {
        assert!(host < HOSTS_MAX);
        HEARTBEATS_AT + u64::from(host) * u64::from(self.block_bytes)
    }

    /// How many lock records there are.
    pub fn locks(&self) -> u32 {
        ((CLUSTERS_AT - LOCKS_AT) / u64::from(self.block_bytes)) as u32
    }

    /// A lock record; the first [`CLUSTERS`] are those of the clusters.
    pub fn lock_at(&self, lock: u32) -> u64 {
        assert!(lock < self.locks());
        LOCKS_AT + u64::from(lock) * u64::from(self.block_bytes)
    }

    /// A cluster's bitmap.
    pub fn cluster_at(&self, cluster: u32) -> u64 {
        assert!(cluster < CLUSTERS);
        CLUSTERS_AT + u64::from(cluster) * META_BYTES
    }

    /// A file's descriptor.
    pub fn file_at(&self, file: u32) -> u64 {
        assert!(file < FILES_MAX);
        FILES_AT + u64::from(file) * META_BYTES
    }

    /// The superblock.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; META_BYTES as usize];
        out[..8].copy_from_slice(&MAGIC);
        out[8..16].copy_from_slice(&self.len_bytes.to_le_bytes());
        out[16..20].copy_from_slice(&self.block_bytes.to_le_bytes());
        out
    }

    /// Whether `superblock` is that of a datastore on this LU.
    pub fn check(&self, superblock: &[u8]) -> Result<(), LayoutError> {
        if superblock.get(..8) != Some(&MAGIC) {
            return Err(LayoutError::NoDatastore);
        }
        let made = superblock.get(8..16).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        if made == self.len_bytes { Ok(()) } else { Err(LayoutError::OtherLen { made, len: self.len_bytes }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_touch_and_extents_are_found_again() {
        for block in [512, 4096] {
            let layout = Layout::of(3 << 30, block).expect("large enough");
            assert!(layout.heartbeat_at(HOSTS_MAX - 1) + u64::from(block) <= LOCKS_AT);
            assert_eq!(layout.lock_at(layout.locks() - 1) + u64::from(block), CLUSTERS_AT);
            for cluster in [0, 7, CLUSTERS - 1] {
                for index in [0, layout.cluster_extents() - 1] {
                    let at = layout.extent_at(cluster, index);
                    assert_eq!(layout.extent_of(at), (cluster, index));
                    assert!(at + EXTENT_BYTES <= layout.len_bytes);
                }
            }
        }
    }

    #[test]
    fn a_superblock_is_recognised() {
        let layout = Layout::of(1 << 30, 512).expect("large enough");
        assert_eq!(layout.check(&layout.encode()), Ok(()));
        assert_eq!(layout.check(&[0; 4096]), Err(LayoutError::NoDatastore));
        let other = Layout::of(2 << 30, 512).expect("large enough");
        assert!(matches!(other.check(&layout.encode()), Err(LayoutError::OtherLen { .. })));
        assert!(matches!(Layout::of(1 << 20, 512), Err(LayoutError::TooSmall { .. })));
        assert_eq!(Layout::of(1 << 30, 520), Err(LayoutError::Block(520)));
    }
}
