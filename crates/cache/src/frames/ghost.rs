//! The ghosts: keys that were evicted from the small queues, without their content.
//!
//! One array for all partitions, with a queue for each. A key is stored as its 64-bit hash; a collision costs
//! a place in the main queue, nothing else.

use super::index::{Chains, NONE};
use super::queue::{Links, Queue};

struct Ghost {
    hash: u64,
    partition: u16,
}

/// The ghosts of all partitions.
pub(super) struct Ghosts {
    capacity: u32,
    list: Vec<Ghost>,
    free: Vec<u32>,
    chains: Chains,
    links: Links,
}

impl Ghosts {
    pub(super) fn new(capacity: u32) -> Ghosts {
        Ghosts {
            capacity,
            list: Vec::with_capacity(capacity as usize),
            free: Vec::new(),
            chains: Chains::new(capacity),
            links: Links::new(capacity),
        }
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.chains.find(hash, |slot| self.list[slot as usize].hash == hash)
    }

    /// The partition whose queue contains the key.
    pub(super) fn partition_of(&self, hash: u64) -> Option<u16> {
        self.find(hash).map(|slot| self.list[slot as usize].partition)
    }

    /// Appends a key to a partition's queue, which keeps at most `limit` keys.
    pub(super) fn remember(&mut self, queue: &mut Queue, partition: u16, hash: u64, limit: u32) {
        if self.find(hash).is_some() {
            return;
        }
        // Two leave for one that enters, so that a queue shrinks to a lowered limit while it is in use.
        for _ in 0..2 {
            if queue.len() >= limit.max(1) {
                self.forget_oldest(queue);
            }
        }
        if self.free.is_empty() && self.list.len() as u32 == self.capacity {
            self.forget_oldest(queue);
        }
        let ghost = Ghost { hash, partition };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.list[slot as usize] = ghost;
                slot
            }
            None if (self.list.len() as u32) < self.capacity => {
                self.list.push(ghost);
                self.list.len() as u32 - 1
            }
            // Other partitions have not shrunk to their limits yet.
            None => return,
        };
        self.chains.insert(hash, slot);
        queue.push(&mut self.links, slot);
    }

    /// Removes a key from the queue of its partition.
    pub(super) fn forget(&mut self, queue: &mut Queue, hash: u64) {
        if let Some(slot) = self.find(hash) {
            self.release(queue, slot);
        }
    }

    /// Removes the oldest of a queue.
    pub(super) fn forget_oldest(&mut self, queue: &mut Queue) {
        if queue.oldest() != NONE {
            self.release(queue, queue.oldest());
        }
    }

    fn release(&mut self, queue: &mut Queue, slot: u32) {
        queue.remove(&mut self.links, slot);
        self.chains.remove(self.list[slot as usize].hash, slot);
        self.free.push(slot);
    }
}
