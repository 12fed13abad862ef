//! From a key to its slot: chains of slot numbers.
//!
//! A table with open addressing leaves tombstones and has to be rebuilt now and then, which at millions of
//! frames is a pause of many milliseconds. Chains by slot number cost eight bytes per slot, one cache line
//! for the head and one for the frame itself, are never rebuilt, and their order depends on the operations
//! alone.

use super::state::Key;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Neighbouring blocks whose heads share a line of 64 bytes: those of one transfer of 64 KiB.
const NEIGHBOURS: u64 = 16;

const _: () = assert!(NEIGHBOURS as usize * size_of::<u32>() == 64);

/// A hash of the key; the same in every run.
pub(super) fn hash(key: Key) -> u64 {
    // Multipliers of splitmix64's finalizer; each step is a bijection, so that only the unit can make two
    // keys meet.
    let mut x = (key.block / NEIGHBOURS) ^ u64::from(key.unit.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // The group is anywhere; in it the blocks have a place each, which differs from group to group, so that
    // blocks with the same last digits do not all meet.
    (x ^ (x >> 31)) ^ (key.block % NEIGHBOURS)
}

/// Slots by hash. The caller knows the content of a slot.
pub(super) struct Chains {
    heads: Vec<u32>,
    /// By slot: the next slot of its chain.
    next: Vec<u32>,
}

impl Chains {
    /// For slots `0..capacity`.
    pub(super) fn new(capacity: u32) -> Chains {
        // At least one head per slot: a chain has half a slot on average before the searched one. Twice as
        // many were measured to be slower: more cache lines to wait for.
        let heads = (capacity as usize).next_power_of_two();
        Chains { heads: vec![NONE; heads], next: Vec::with_capacity(capacity as usize) }
    }

    fn head(&self, hash: u64) -> usize {
        (hash as usize) & (self.heads.len() - 1)
    }

    /// The slot of this hash for which `is` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut slot = self.heads[self.head(hash)];
        while slot != NONE {
            if is(slot) {
                return Some(slot);
            }
            slot = self.next[slot as usize];
        }
        None
    }

    /// Adds a slot that is in no chain.
    pub(super) fn insert(&mut self, hash: u64, slot: u32) {
        let head = self.head(hash);
        if self.next.len() <= slot as usize {
            self.next.resize(slot as usize + 1, NONE);
        }
        self.next[slot as usize] = self.heads[head];
        self.heads[head] = slot;
    }

    /// Takes a slot out. Panics when it is not in the chain of `hash`: the caller's bug.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let head = self.head(hash);
        let after = self.next[slot as usize];
        if self.heads[head] == slot {
            self.heads[head] = after;
            return;
        }
        let mut at = self.heads[head];
        while self.next[at as usize] != slot {
            at = self.next[at as usize];
        }
        self.next[at as usize] = after;
    }
}
