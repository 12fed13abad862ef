//! What a server has written to a disk, block by block, so that it is known whether what it reads is what was
//! acknowledged last.

use std::collections::BTreeMap;

use block::Pieces;
use world::{Buf, Data};

/// Each sector of a block says which block it is, and which write of it.
const SECTOR_BYTES: usize = 512;
const MARK: u32 = 0x6d61_7375;

/// Writes of a block, counted from 1; 0: nothing was written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// The last one that was acknowledged.
    acknowledged: u32,
    /// The last one that was sent.
    sent: u32,
}

/// The blocks of one disk.
pub(super) struct Ledger {
    disk: u32,
    /// Only one in so many blocks gets a content of its own, the others zeros: what is written one after the
    /// other would else take gigabytes of this machine.
    stamped: u64,
    zeros: Data,
    entries: BTreeMap<u64, Entry>,
}

impl Ledger {
    /// Of a disk, by its number, whose blocks have so many bytes.
    pub(super) fn new(disk: u32, block_bytes: u64, stamped: u64) -> Ledger {
        let zeros = Buf::shared_zeros(block_bytes as usize).freeze();
        Ledger { disk, stamped, zeros, entries: BTreeMap::new() }
    }

    /// Whether a write of this block is under way.
    pub(super) fn is_busy(&self, block: u64) -> bool {
        self.entries.get(&block).is_some_and(|entry| entry.sent != entry.acknowledged)
    }

    /// What the next write of a block contains. It may be on the disk from now on.
    pub(super) fn send(&mut self, block: u64) -> Pieces {
        let entry = self.entries.entry(block).or_default();
        entry.sent += 1;
        let number = entry.sent;
        if !block.is_multiple_of(self.stamped) {
            return self.zeros.clone().into();
        }
        let mut content = vec![0; self.zeros.len()];
        content
            .chunks_mut(SECTOR_BYTES)
            .for_each(|sector| sector[..STAMP].copy_from_slice(&self.stamp(block, number)));
        Pieces::copy_of(&content)
    }

    /// The write of a block that is under way was acknowledged: it must be on the disk from now on.
    pub(super) fn acknowledge(&mut self, block: u64) {
        let entry = self.entries.entry(block).or_default();
        entry.acknowledged = entry.sent;
    }

    /// The last acknowledged write of a block, at the time when a read of it is sent.
    pub(super) fn acknowledged(&self, block: u64) -> u32 {
        self.entries.get(&block).copied().unwrap_or_default().acknowledged
    }

    /// Whether what was read of a block is that write, or one that was sent after it.
    pub(super) fn is_right(&self, block: u64, acknowledged: u32, read: &Pieces) -> bool {
        if read.len() != self.zeros.len() {
            return false;
        }
        let read = read.joined();
        if !block.is_multiple_of(self.stamped) {
            return read.iter().all(|byte| *byte == 0);
        }
        let sent = self.entries.get(&block).copied().unwrap_or_default().sent;
        // Sectors of two writes are not the block of either.
        (acknowledged..=sent).any(|number| {
            let expected = if number == 0 { [0; STAMP] } else { self.stamp(block, number) };
            read.chunks(SECTOR_BYTES).all(|sector| sector[..STAMP] == expected)
        })
    }

    /// All blocks that have an acknowledged content of their own, in order.
    pub(super) fn blocks(&self) -> Vec<u64> {
        let own = self.entries.iter().filter(|(_, entry)| entry.acknowledged > 0);
        own.map(|(block, _)| *block).filter(|block| block.is_multiple_of(self.stamped)).collect()
    }

    fn stamp(&self, block: u64, number: u32) -> [u8; STAMP] {
        let mut stamp = [0; STAMP];
        stamp[..4].copy_from_slice(&MARK.to_le_bytes());
        stamp[4..8].copy_from_slice(&self.disk.to_le_bytes());
        stamp[8..16].copy_from_slice(&block.to_le_bytes());
        stamp[16..].copy_from_slice(&number.to_le_bytes());
        stamp
    }
}

/// Mark, disk, block, number of the write.
const STAMP: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    #[test]
    fn what_was_acknowledged_last_is_right_and_what_came_before_is_not() {
        let mut ledger = Ledger::new(7, BLOCK, 1);
        let nothing = Pieces::from(Buf::shared_zeros(BLOCK as usize).freeze());
        assert!(ledger.is_right(3, 0, &nothing));
        let first = ledger.send(3);
        assert!(ledger.is_busy(3) && ledger.is_right(3, 0, &nothing) && ledger.is_right(3, 0, &first));
        ledger.acknowledge(3);
        assert!(!ledger.is_busy(3) && ledger.is_right(3, ledger.acknowledged(3), &first));
        assert!(!ledger.is_right(3, ledger.acknowledged(3), &nothing), "lost");
        let second = ledger.send(3);
        assert!(
            ledger.is_right(3, 1, &first) && ledger.is_right(3, 1, &second),
            "either, until it is acknowledged"
        );
        ledger.acknowledge(3);
        assert!(!ledger.is_right(3, ledger.acknowledged(3), &first), "an old content");
        assert_eq!(ledger.blocks(), [3]);
    }

    #[test]
    fn another_block_another_disk_and_a_torn_block_are_wrong() {
        let (mut ledger, mut other) = (Ledger::new(1, BLOCK, 1), Ledger::new(2, BLOCK, 1));
        let own = ledger.send(5);
        ledger.acknowledge(5);
        let elsewhere = ledger.send(6);
        let of_other = other.send(5);
        for wrong in [&elsewhere, &of_other] {
            assert!(!ledger.is_right(5, 1, wrong));
        }
        let mut torn = own.joined().to_vec();
        torn[SECTOR_BYTES..2 * SECTOR_BYTES].fill(0);
        assert!(!ledger.is_right(5, 1, &Pieces::copy_of(&torn)));
        assert!(!ledger.is_right(5, 1, &own.slice(0, 512)));
        assert!(ledger.is_right(5, 1, &own));
    }

    #[test]
    fn blocks_between_those_with_a_content_are_zeros() {
        let mut ledger = Ledger::new(1, BLOCK, 8);
        let (zeros, own) = (ledger.send(9), ledger.send(16));
        [9, 16].into_iter().for_each(|block| ledger.acknowledge(block));
        assert!(
            ledger.is_right(9, 1, &zeros) && !ledger.is_right(9, 1, &own) && ledger.is_right(16, 1, &own)
        );
        assert_eq!(ledger.blocks(), [16]);
    }
}
