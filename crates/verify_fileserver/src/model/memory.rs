//! What a Windows system has in its cache: data that wait to be written, tables that were used. Pure.
//!
//! Each second the lazy writer takes an eighth of the dirty pages, the oldest first, and as many more as came
//! since the last time beyond those it took (Windows Internals, 6th edition, chapter 11). Neighbours are one
//! run, which it writes with large transfers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::layout::{CLUSTER_BYTES, Range};

/// The part of the dirty pages that the lazy writer takes at a time.
const LAZY_SHARE: u64 = 8;
/// Or so many bytes, when that is more: a small rest is not kept for ever.
const LAZY_BYTES_MIN: u64 = 64 * CLUSTER_BYTES;
/// Windows holds writers back when so much of its cache waits to be written.
const DIRTY_SHARE_MAX: u64 = 4;

/// Dirty pages, and which table's clusters are there.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: u64,
    dirty: VecDeque<Range>,
    dirty_bytes: u64,
    /// What was dirty when the lazy writer came the last time.
    dirty_before_bytes: u64,
    /// Tables among the dirty: changed twice, they are written once.
    dirty_tables: BTreeSet<u64>,
    /// Bytes that came through the memory when a cluster of the tables was used the last time.
    used_at: BTreeMap<u64, u64>,
    passed_bytes: u64,
}

impl Memory {
    pub(super) fn new(bytes: u64) -> Memory {
        Memory {
            bytes,
            dirty: VecDeque::new(),
            dirty_bytes: 0,
            dirty_before_bytes: 0,
            dirty_tables: BTreeSet::new(),
            used_at: BTreeMap::new(),
            passed_bytes: 0,
        }
    }

    /// Data of a file that are to be written.
    pub(super) fn soil(&mut self, range: Range) {
        match self.dirty.back_mut().filter(|last| last.end() == range.at) {
            Some(last) => last.bytes += range.bytes,
            None => self.dirty.push_back(range),
        }
        self.dirty_bytes += range.bytes;
        self.pass(range.bytes);
    }

    /// A cluster of a table that is to be written.
    pub(super) fn soil_table(&mut self, range: Range) {
        if self.dirty_tables.insert(range.at) {
            self.dirty.push_back(range);
            self.dirty_bytes += range.bytes;
        }
    }

    /// Whether writers wait.
    pub(super) fn is_full(&self) -> bool {
        self.dirty_bytes > self.bytes / DIRTY_SHARE_MAX
    }

    /// What the lazy writer takes now: runs in order of address, the bytes of files and the tables.
    pub(super) fn take(&mut self) -> Vec<Range> {
        let came_bytes = self.dirty_bytes.saturating_sub(self.dirty_before_bytes);
        let want = self.dirty_bytes / LAZY_SHARE + came_bytes;
        let mut want = want.next_multiple_of(CLUSTER_BYTES).max(LAZY_BYTES_MIN);
        self.dirty_before_bytes = self.dirty_bytes;
        let mut batch = Vec::new();
        while want > 0
            && let Some(range) = self.dirty.front_mut()
        {
            let bytes = range.bytes.min(want);
            batch.push(Range { at: range.at, bytes });
            (range.at, range.bytes) = (range.at + bytes, range.bytes - bytes);
            if range.bytes == 0 {
                self.dirty.pop_front();
            }
            want -= bytes;
        }
        for range in &batch {
            self.dirty_tables.remove(&range.at);
        }
        batch.sort_unstable();
        let mut runs: Vec<Range> = Vec::with_capacity(batch.len());
        for range in batch {
            match runs.last_mut().filter(|last| last.end() == range.at) {
                Some(last) => last.bytes += range.bytes,
                None => runs.push(range),
            }
        }
        runs
    }

    /// What waits of a range need not be written any more: its file is deleted. How much it is.
    pub(super) fn purge(&mut self, range: Range) -> u64 {
        let before = self.dirty_bytes;
        let mut kept = VecDeque::with_capacity(self.dirty.len());
        for dirty in self.dirty.drain(..) {
            let (from, end) = (dirty.at.max(range.at), dirty.end().min(range.end()));
            if from >= end {
                kept.push_back(dirty);
                continue;
            }
            self.dirty_bytes -= end - from;
            let parts = [(dirty.at, from), (end, dirty.end())].into_iter().filter(|(at, end)| at < end);
            kept.extend(parts.map(|(at, end)| Range { at, bytes: end - at }));
        }
        self.dirty = kept;
        before - self.dirty_bytes
    }

    /// What was taken is done with, or is to be written again.
    pub(super) fn written(&mut self, range: Range, is_done: bool) {
        match is_done {
            true => self.dirty_bytes -= range.bytes,
            false => self.dirty.push_front(range),
        }
    }

    /// Whether a cluster of a table is there; it is from now on. What was used last before a whole memory of
    /// other bytes came through is forgotten: least recently used.
    pub(super) fn has(&mut self, cluster: Range) -> bool {
        let used = self.used_at.insert(cluster.at, self.passed_bytes);
        let has = used.is_some_and(|used| self.passed_bytes - used < self.bytes);
        if !has {
            self.passed_bytes += cluster.bytes;
        }
        has
    }

    /// So many bytes of files came through the memory.
    pub(super) fn pass(&mut self, bytes: u64) {
        self.passed_bytes += bytes;
    }

    /// Forgets tables that no memory holds any more.
    pub(super) fn tidy(&mut self) {
        let (passed, memory) = (self.passed_bytes, self.bytes);
        self.used_at.retain(|_, used| passed - *used < memory);
    }

    /// Memory that is free, or that holds what can be read again: what Windows calls available.
    pub(super) fn available_bytes(&self) -> u64 {
        self.bytes - self.dirty_bytes.min(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(at: u64, bytes: u64) -> Range {
        Range { at: at << 10, bytes: bytes << 10 }
    }

    #[test]
    fn an_eighth_of_what_waits_is_taken_the_oldest_first_and_what_came_since() {
        let mut memory = Memory::new(1 << 30);
        for at in (0..4096).step_by(64) {
            memory.soil(range(8192 + at, 64));
        }
        memory.soil(range(0, 64));
        // All of it came: it is taken at once, neighbours together.
        assert_eq!(memory.take(), [range(0, 64), range(8192, 4096)]);
        memory.written(range(0, 64), true);
        assert_eq!(memory.available_bytes(), (1 << 30) - (4096 << 10));
        // What is being written still counts as dirty.
        memory.soil(range(0, 1024));
        assert_eq!(memory.take(), [range(0, 1024)]);
    }

    #[test]
    fn a_table_that_changes_twice_is_written_once_and_what_failed_again() {
        let mut memory = Memory::new(1 << 20);
        memory.soil_table(range(4, 4));
        memory.soil_table(range(4, 4));
        assert_eq!(memory.take(), [range(4, 4)]);
        memory.written(range(4, 4), false);
        assert_eq!(memory.take(), [range(4, 4)]);
        assert!(!memory.is_full());
        memory.soil(range(1024, 253));
        assert!(memory.is_full());
    }

    #[test]
    fn what_is_deleted_is_not_written() {
        let mut memory = Memory::new(1 << 30);
        memory.soil(range(0, 1024));
        memory.soil(range(4096, 64));
        assert_eq!(memory.purge(range(256, 512)), 512 << 10);
        assert_eq!(memory.purge(range(4000, 1000)), 64 << 10);
        assert_eq!(memory.available_bytes(), (1 << 30) - (512 << 10));
        assert_eq!(memory.take(), [range(0, 256), range(768, 256)]);
    }

    #[test]
    fn tables_are_forgotten_when_a_memory_of_files_has_passed() {
        let mut memory = Memory::new(1 << 20);
        assert!(!memory.has(range(8, 4)));
        memory.pass(1 << 19);
        assert!(memory.has(range(8, 4)));
        memory.pass(1 << 20);
        assert!(!memory.has(range(8, 4)));
    }
}
