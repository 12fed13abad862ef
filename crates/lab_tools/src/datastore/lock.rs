//! On-disk locks: one record of one logical block each, and the decisions based on its content.
//!
//! A record is changed in one of two ways: by COMPARE AND WRITE against the record that was read (the array
//! says who was first), or under a reservation of the whole LU (nobody else can write meanwhile). Each change
//! counts the generation up, so that no record ever looks like an older one and every change can be counted
//! afterwards.

/// A host as locks know it: its heartbeat slot plus one; 0 is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub u32);

/// Who has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody.
    Free,
    /// Held by that host.
    Host(HostId),
}

/// A lock as it is on the LU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRecord {
    /// Who has it.
    pub owner: Owner,
    /// Counted up by each change.
    pub generation: u64,
}

/// A record that is neither empty nor valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lock record is damaged")]
pub struct Damaged;

const MAGIC: [u8; 4] = *b"lock";
/// Magic, owner, generation, checksum.
const RECORD_LEN: usize = 20;

/// What to do after reading a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write this over what was read.
    Write(LockRecord),
    /// Another host has it: wait and read again.
    Wait(HostId),
}

impl LockRecord {
    /// A lock that was never held.
    pub const FRESH: LockRecord = LockRecord { owner: Owner::Free, generation: 0 };

    /// The action of a host that wants the lock.
    pub fn acquire(&self, me: HostId) -> Decision {
        match self.owner {
            Owner::Host(other) if other != me => Decision::Wait(other),
            // Its own lock again: a renewal.
            Owner::Free | Owner::Host(_) => Decision::Write(self.next(Owner::Host(me))),
        }
    }

    /// The record after the owner released the lock.
    pub fn released(&self) -> LockRecord {
        self.next(Owner::Free)
    }

    fn next(&self, owner: Owner) -> LockRecord {
        LockRecord { owner, generation: self.generation + 1 }
    }

    /// The record as one block.
    pub fn encode(&self, block_bytes: u32) -> Vec<u8> {
        let mut out = vec![0; block_bytes as usize];
        if *self == LockRecord::FRESH {
            return out;
        }
        let owner = match self.owner {
            Owner::Free => 0,
            Owner::Host(HostId(id)) => id,
        };
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&owner.to_le_bytes());
        out[8..16].copy_from_slice(&self.generation.to_le_bytes());
        let sum = crc(&out[..16]);
        out[16..RECORD_LEN].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The record of one block; all zeros are a lock that nobody ever had.
    pub fn decode(block: &[u8]) -> Result<LockRecord, Damaged> {
        if block.iter().all(|b| *b == 0) {
            return Ok(LockRecord::FRESH);
        }
        let (record, rest) = block.split_first_chunk::<RECORD_LEN>().ok_or(Damaged)?;
        let sum = u32::from_le_bytes(record[16..20].try_into().map_err(|_| Damaged)?);
        if record[..4] != MAGIC || sum != crc(&record[..16]) || rest.iter().any(|b| *b != 0) {
            return Err(Damaged);
        }
        let owner = u32::from_le_bytes(record[4..8].try_into().map_err(|_| Damaged)?);
        let generation = u64::from_le_bytes(record[8..16].try_into().map_err(|_| Damaged)?);
        let owner = if owner == 0 { Owner::Free } else { Owner::Host(HostId(owner)) };
        Ok(LockRecord { owner, generation })
    }
}

fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The longest wait before the next try, after `conflicts` in a row: the first wait, doubled with each,
/// bounded.
pub(super) fn backoff(
    first: std::time::Duration,
    max: std::time::Duration,
    conflicts: u32,
) -> std::time::Duration {
    first.saturating_mul(1u32.checked_shl(conflicts.saturating_sub(1)).unwrap_or(u32::MAX)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const A: HostId = HostId(1);
    const B: HostId = HostId(2);

    #[test]
    fn a_lock_has_one_owner_at_a_time() {
        let Decision::Write(mine) = LockRecord::FRESH.acquire(A) else { panic!("a fresh lock is free") };
        assert_eq!(mine, LockRecord { owner: Owner::Host(A), generation: 1 });
        assert_eq!(mine.acquire(B), Decision::Wait(A));
        assert!(matches!(mine.acquire(A), Decision::Write(LockRecord { generation: 2, .. })), "a renewal");
        let Decision::Write(theirs) = mine.released().acquire(B) else { panic!("released") };
        assert_eq!(theirs, LockRecord { owner: Owner::Host(B), generation: 3 });
    }

    #[test]
    fn records_survive_the_disk_and_damage_is_seen() {
        for record in [
            LockRecord::FRESH,
            LockRecord { owner: Owner::Host(B), generation: u64::MAX },
            LockRecord { owner: Owner::Free, generation: 9 },
        ] {
            let block = record.encode(512);
            assert_eq!(LockRecord::decode(&block), Ok(record));
        }
        let block = LockRecord { owner: Owner::Host(B), generation: 77 }.encode(512);
        for at in 0..512 {
            let mut bad = block.clone();
            bad[at] ^= 1;
            assert_eq!(LockRecord::decode(&bad), Err(Damaged), "byte {at}");
        }
    }

    #[test]
    fn waits_double_up_to_their_bound() {
        let (first, max) = (Duration::from_millis(2), Duration::from_millis(64));
        let waits: Vec<u128> = [1, 2, 5, 6, 7, 1000].map(|n| backoff(first, max, n).as_millis()).to_vec();
        assert_eq!(waits, [2, 4, 32, 64, 64, 64]);
    }
}
