//! The file system of a server's data disk, as far as I/O sees it: where its tables, folders and files lie,
//! and what its memory still holds.
//!
//! ```text
//!   | log | bitmap | file records (1 KiB each) | tree | tree | tree | ... | never used |
//!                                                  └─ folders' indexes, then its files one behind the other
//! ```
//!
//! The trees were created one after the other, the used ones among the dummies, on an empty disk: so files
//! are contiguous, and what is free is behind them.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use world::Rng;

use lab_tools::files::{Plan, Tree};

/// NTFS with its default clusters; a record of a file is 1 KiB, so that four share one.
pub(super) const CLUSTER_BYTES: u64 = 4096;
const RECORD_BYTES: u64 = 1024;
/// The log of the file system: 64 MiB is what Windows gives a large volume.
const LOG_BYTES: u64 = 64 << 20;
/// One bit a cluster: 16 MiB are enough for 512 GiB.
const BITMAP_BYTES: u64 = 16 << 20;

/// Bytes of a disk, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

impl Range {
    /// Whether it begins or ends within a cluster, and so within a unit of the array's cache, too.
    pub(super) fn is_crooked(self) -> bool {
        !(self.at | self.bytes).is_multiple_of(CLUSTER_BYTES)
    }
}

/// Where everything lies; one for all servers.
#[derive(Debug)]
pub(super) struct Layout {
    /// Of each tree: its first cluster, and its first file record.
    trees: Vec<(u64, u64)>,
    records_at: u64,
    /// Where nothing has been written yet.
    free_at: u64,
    len_bytes: u64,
    entry_bytes: u64,
}

fn clusters(bytes: u64) -> u64 {
    bytes.div_ceil(CLUSTER_BYTES)
}

/// Clusters of the index of a folder with so many entries; half full, as a tree of names is after insertions.
fn index_clusters(entries: u64, entry_bytes: u64) -> u64 {
    clusters(entries * entry_bytes * 2).max(1)
}

fn entries(tree: &Tree) -> Vec<u64> {
    let mut count = vec![0; tree.folders.len() as usize];
    for file in &tree.files {
        count[file.folder as usize] += 1;
    }
    for folder in 1..tree.folders.len() {
        let way = tree.folders.way(folder);
        count[way[way.len() - 2] as usize] += 1;
    }
    count
}

impl Layout {
    /// Lays a set out on a disk.
    pub(super) fn new(plan: &Plan, len_bytes: u64, entry_bytes: u32) -> Result<Layout> {
        let spec = plan.spec();
        let records = u64::from(spec.all_trees()) * u64::from(spec.files + spec.folders);
        let records_at = LOG_BYTES + BITMAP_BYTES;
        let mut layout = Layout {
            trees: vec![(0, 0); spec.all_trees() as usize],
            records_at,
            free_at: records_at + clusters(records * RECORD_BYTES) * CLUSTER_BYTES,
            len_bytes,
            entry_bytes: entry_bytes.into(),
        };
        let mut order: Vec<u32> = (0..spec.all_trees()).collect();
        Rng::with_seed(spec.seed).shuffle(&mut order);
        let mut record = 0;
        for number in order {
            let tree = plan.tree(number);
            layout.trees[number as usize] = (layout.free_at / CLUSTER_BYTES, record);
            record += u64::from(spec.files + spec.folders);
            let indexes = entries(&tree).into_iter().map(|n| index_clusters(n, layout.entry_bytes));
            let files = tree.files.iter().map(|file| clusters(file.bytes));
            layout.free_at += indexes.chain(files).sum::<u64>() * CLUSTER_BYTES;
        }
        ensure!(layout.free_at < len_bytes, "the file set has {} bytes, a disk {len_bytes}", layout.free_at);
        Ok(layout)
    }

    /// Up to where the disk has been written.
    pub(super) fn used_bytes(&self) -> u64 {
        self.free_at
    }

    /// A tree, to be walked.
    pub(super) fn place(&self, tree: &Tree) -> Placed {
        let (first, record) = self.trees[tree.number as usize];
        let mut at = first;
        let mut next = |clusters: u64| {
            let from = at;
            at += clusters;
            from
        };
        let entries = entries(tree);
        let indexes = entries.iter().map(|n| (*n, next(index_clusters(*n, self.entry_bytes)))).collect();
        let files = tree.files.iter().map(|file| next(clusters(file.bytes))).collect();
        Placed {
            indexes,
            files,
            record_at: self.records_at + record * RECORD_BYTES,
            entry_bytes: self.entry_bytes,
        }
    }
}

/// Where the parts of one tree lie.
#[derive(Debug)]
pub(super) struct Placed {
    /// Of each folder: its entries, and the first cluster of its index.
    indexes: Vec<(u64, u64)>,
    /// The first cluster of each file.
    files: Vec<u64>,
    record_at: u64,
    entry_bytes: u64,
}

impl Placed {
    /// The index of a folder.
    pub(super) fn index(&self, folder: u32) -> Range {
        let (entries, first) = self.indexes[folder as usize];
        let bytes = index_clusters(entries, self.entry_bytes) * CLUSTER_BYTES;
        Range { at: first * CLUSTER_BYTES, bytes }
    }

    /// What a list of a folder has on the wire.
    pub(super) fn list_bytes(&self, folder: u32) -> u64 {
        self.indexes[folder as usize].0 * self.entry_bytes
    }

    /// The cluster with the record of a file.
    pub(super) fn record(&self, file: u32) -> Range {
        let at = self.record_at + (self.indexes.len() as u64 + u64::from(file)) * RECORD_BYTES;
        Range { at: at / CLUSTER_BYTES * CLUSTER_BYTES, bytes: CLUSTER_BYTES }
    }

    /// Where a file was created.
    pub(super) fn file_at(&self, file: u32) -> u64 {
        self.files[file as usize] * CLUSTER_BYTES
    }
}

/// The part of a file system that changes, of one server.
#[derive(Debug)]
pub(super) struct Volume {
    free_at: u64,
    len_bytes: u64,
    log_at: u64,
    /// Bytes that came through the memory when a cluster of the tables was used the last time.
    used_at: BTreeMap<u64, u64>,
    passed_bytes: u64,
    memory_bytes: u64,
}

impl Volume {
    pub(super) fn new(layout: &Layout, memory_bytes: u64) -> Volume {
        let (free_at, len_bytes) = (layout.free_at, layout.len_bytes);
        Volume { free_at, len_bytes, log_at: 0, used_at: BTreeMap::new(), passed_bytes: 0, memory_bytes }
    }

    /// Which clusters of a table are not in memory, as ranges; they are from now on.
    pub(super) fn missing(&mut self, range: Range, out: &mut Vec<Range>) {
        out.clear();
        for at in (range.at..range.at + range.bytes).step_by(CLUSTER_BYTES as usize) {
            // What was used last before a whole memory of other bytes came through is forgotten: least
            // recently used.
            let is_held = self
                .used_at
                .insert(at, self.passed_bytes)
                .is_some_and(|used| self.passed_bytes - used < self.memory_bytes);
            if is_held {
                continue;
            }
            self.passed_bytes += CLUSTER_BYTES;
            match out.last_mut().filter(|last| last.at + last.bytes == at) {
                Some(last) => last.bytes += CLUSTER_BYTES,
                None => out.push(Range { at, bytes: CLUSTER_BYTES }),
            }
        }
    }

    /// So many bytes of files came through the memory.
    pub(super) fn pass(&mut self, bytes: u64) {
        self.passed_bytes += bytes;
    }

    /// Memory that is in use.
    pub(super) fn held_bytes(&self) -> u64 {
        self.passed_bytes.min(self.memory_bytes)
    }

    /// Forgets tables that no memory holds any more.
    pub(super) fn tidy(&mut self) {
        let (passed, memory) = (self.passed_bytes, self.memory_bytes);
        self.used_at.retain(|_, used| passed - *used < memory);
    }

    /// Room for a file where nothing was written before; none is left at the end of the disk.
    pub(super) fn fresh(&mut self, bytes: u64) -> Option<u64> {
        let next = self.free_at + clusters(bytes) * CLUSTER_BYTES;
        (next <= self.len_bytes).then(|| std::mem::replace(&mut self.free_at, next))
    }

    /// Where the log is written next: round and round.
    pub(super) fn log(&mut self) -> Range {
        let at = self.log_at;
        self.log_at = (at + CLUSTER_BYTES) % LOG_BYTES;
        Range { at, bytes: CLUSTER_BYTES }
    }

    /// The cluster of the bitmap that knows of this address.
    pub(super) fn bitmap(at: u64) -> Range {
        let bit = at / CLUSTER_BYTES;
        Range { at: LOG_BYTES + bit / 8 / CLUSTER_BYTES * CLUSTER_BYTES, bytes: CLUSTER_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_tools::files::SetSpec;

    #[test]
    fn nothing_lies_on_something_else() {
        let plan = Plan::new(SetSpec::published(1).with_trees(3, 2)).expect("a plan");
        let layout = Layout::new(&plan, 500 << 30, 110).expect("it fits");
        let mut all = vec![];
        for number in 0..5 {
            let tree = plan.tree(number);
            let placed = layout.place(&tree);
            all.extend((0..tree.folders.len()).map(|folder| placed.index(folder)));
            let file = |n: u32| Range { at: placed.file_at(n), bytes: tree.files[n as usize].bytes };
            all.extend((0..tree.files.len() as u32).map(file));
            assert!(placed.record(3999).at < layout.used_bytes());
        }
        all.retain(|range| range.bytes > 0);
        all.sort_by_key(|range| range.at);
        assert!(all.windows(2).all(|pair| pair[0].at + pair[0].bytes <= pair[1].at));
        let last = all.last().expect("files");
        assert!(last.at + last.bytes <= layout.used_bytes());
    }

    #[test]
    fn tables_are_forgotten_when_a_memory_of_files_has_passed() {
        let plan = Plan::new(SetSpec::published(1).with_trees(1, 0)).expect("a plan");
        let layout = Layout::new(&plan, 500 << 30, 110).expect("it fits");
        let mut volume = Volume::new(&layout, 1 << 20);
        let (range, mut out) = (Range { at: 8192, bytes: 3 * 4096 }, vec![]);
        volume.missing(range, &mut out);
        assert_eq!(out, [range]);
        volume.pass(1 << 19);
        volume.missing(range, &mut out);
        assert!(out.is_empty());
        volume.pass(1 << 20);
        volume.missing(range, &mut out);
        assert_eq!(out, [range]);
        assert_eq!(volume.fresh(1), Some(layout.used_bytes()));
        assert_eq!(volume.fresh(5000), Some(layout.used_bytes() + 4096));
        assert_eq!(volume.fresh(1 << 50), None);
    }
}
