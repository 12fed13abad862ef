//! An allocation cluster: one metadata block with a bitmap of its extents and a count of its changes.

use super::layout::META_BYTES;

/// Magic, change count.
pub(super) const HEADER_LEN: usize = 16;
const MAGIC: [u8; 8] = *b"cluster1";

/// A cluster's block in memory. Whoever changes it holds its lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The number of changes. The holder of the lock reads it and writes it back, so that two owners at once
    /// lose a count.
    pub changes: u64,
    bits: Vec<u8>,
    extents: u64,
}

/// The block is not a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an allocation cluster is damaged")]
pub struct Damaged;

impl Cluster {
    /// A cluster without allocated extents.
    pub fn empty(extents: u64) -> Cluster {
        assert!(extents <= super::layout::CLUSTER_EXTENTS_MAX);
        Cluster { changes: 0, bits: vec![0; META_BYTES as usize - HEADER_LEN], extents }
    }

    /// Decodes a block.
    pub fn decode(block: &[u8], extents: u64) -> Result<Cluster, Damaged> {
        if block.len() != META_BYTES as usize || block[..8] != MAGIC {
            return Err(Damaged);
        }
        let changes = u64::from_le_bytes(block[8..16].try_into().map_err(|_| Damaged)?);
        Ok(Cluster { changes, bits: block[HEADER_LEN..].to_vec(), extents })
    }

    /// Encodes the block.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.changes.to_le_bytes());
        out.extend(&self.bits);
        out
    }

    fn is_taken(&self, index: u64) -> bool {
        self.bits[(index / 8) as usize] & 1 << (index % 8) != 0
    }

    /// How many extents are allocated.
    pub fn taken(&self) -> u64 {
        (0..self.extents).filter(|index| self.is_taken(*index)).count() as u64
    }

    /// Allocates up to `count` extents, lowest first; returns their indexes.
    pub fn take(&mut self, count: u64) -> Vec<u64> {
        let free: Vec<u64> = (0..self.extents).filter(|i| !self.is_taken(*i)).take(count as usize).collect();
        for index in &free {
            self.bits[(index / 8) as usize] |= 1 << (index % 8);
        }
        self.changes += 1;
        free
    }

    /// Frees extents. Returns `false` if one of them was not allocated.
    pub fn give_back(&mut self, indexes: &[u64]) -> bool {
        let taken = indexes.iter().all(|i| *i < self.extents && self.is_taken(*i));
        for index in indexes.iter().filter(|i| **i < self.extents) {
            self.bits[(index / 8) as usize] &= !(1 << (index % 8));
        }
        self.changes += 1;
        taken
    }
}

/// Joins adjacent extents to ranges of bytes.
pub(super) fn ranges(places: &[u64], extent_bytes: u64) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for at in places {
        match out.last_mut() {
            Some((from, len)) if *from + *len == *at => *len += extent_bytes,
            _ => out.push((*at, extent_bytes)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_taken_once_and_given_back() {
        let mut cluster = Cluster::empty(10);
        assert_eq!(cluster.take(4), [0, 1, 2, 3]);
        assert_eq!(cluster.taken(), 4);
        assert!(cluster.give_back(&[1, 2]));
        assert_eq!(cluster.taken(), 2);
        assert!(!cluster.give_back(&[2]), "it is free already");
        assert_eq!(cluster.take(100), [1, 2, 4, 5, 6, 7, 8, 9]);
        assert_eq!(cluster.take(1), [0u64; 0]);
        assert_eq!(Cluster::decode(&cluster.encode(), 10), Ok(cluster.clone()));
        assert_eq!(cluster.changes, 5);
        assert_eq!(Cluster::decode(&[0; 4096], 10), Err(Damaged));
    }

    #[test]
    fn neighbours_are_joined() {
        assert_eq!(ranges(&[0, 1, 2, 4, 5, 9], 1), [(0, 3), (4, 2), (9, 1)]);
    }
}
