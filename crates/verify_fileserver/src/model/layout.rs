//! Where copying the trees put everything on an NTFS volume that was empty: one for all servers and clients.
//!
//! ```text
//!   | log | bitmap | file records (1 KiB each), as long as the zone for them | tree | tree | ... | never used |
//!                                                                             └─ files in order of creation, the
//!                                                                                folders' index buffers between them
//! ```
//!
//! The trees were copied one after the other, the used ones among the dummies. A copy says how long a file
//! will be before it is written, so NTFS gives it one run. A folder takes a buffer of its index whenever the
//! last one is full, from the same space as files.

use anyhow::{Result, ensure};
use world::Rng;

use lab_tools::files::{Plan, Tree};

/// NTFS with its default clusters.
pub(super) const CLUSTER_BYTES: u64 = 4096;
/// A record of a file: four share a cluster.
const RECORD_BYTES: u64 = 1024;
/// The log of the file system: 64 MiB is what Windows gives a large volume.
pub(super) const LOG_BYTES: u64 = 64 << 20;
/// One bit a cluster: 16 MiB are enough for 512 GiB.
const BITMAP_BYTES: u64 = 16 << 20;
/// A file of fewer bytes lies in its record, beside the attributes that every file has.
const RESIDENT_BYTES_MAX: u64 = 700;
/// Names of the set: `f00000.txt`.
const NAME_UNITS: u64 = 10;
/// An entry of a folder's index: a header of 16 bytes, the attribute $FILE_NAME with 66 and the name in
/// UTF-16.
const ENTRY_BYTES: u64 = (16 + 66 + 2 * NAME_UNITS).next_multiple_of(8);
/// Entries that fit into the folder's own record.
const ROOT_ENTRIES: u64 = RESIDENT_BYTES_MAX / ENTRY_BYTES;
/// Entries of an index buffer of 4 KiB with its header. Names come in rising order: a full buffer is split in
/// half, and nothing is added to the lower one any more.
const BUFFER_ENTRIES: u64 = (CLUSTER_BYTES - 64) / ENTRY_BYTES / 2;
/// A name in the answer to a query of a folder: FileIdBothDirectoryInformation (MS-FSCC 2.4.17).
const LISTED_BYTES: u64 = (104 + 2 * NAME_UNITS).next_multiple_of(8);

/// Bytes of a disk, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

impl Range {
    /// Whether it begins or ends within a cluster, and so within a unit of the array's cache, too.
    pub(super) fn is_crooked(self) -> bool {
        !(self.at | self.bytes).is_multiple_of(CLUSTER_BYTES)
    }

    pub(super) fn end(self) -> u64 {
        self.at + self.bytes
    }

    /// In parts of at most so many bytes.
    pub(super) fn parts(self, bytes_max: u64) -> impl Iterator<Item = Range> {
        (self.at..self.end())
            .step_by(bytes_max as usize)
            .map(move |at| Range { at, bytes: bytes_max.min(self.end() - at) })
    }
}

pub(super) fn clusters(bytes: u64) -> u64 {
    bytes.div_ceil(CLUSTER_BYTES)
}

/// Clusters of a file's data.
pub(super) fn clusters_of_file(bytes: u64) -> u64 {
    if bytes <= RESIDENT_BYTES_MAX { 0 } else { clusters(bytes) }
}

/// Whether a folder takes another index buffer for its n-th entry.
fn takes_buffer(entry: u64) -> bool {
    entry > ROOT_ENTRIES && (entry - ROOT_ENTRIES - 1).is_multiple_of(BUFFER_ENTRIES)
}

/// Where everything lies.
#[derive(Debug)]
pub(super) struct Layout {
    /// Of each tree: its first cluster, and its first file record.
    trees: Vec<(u64, u64)>,
    /// Trees in the order in which they were copied.
    order: Vec<u32>,
    records_of_tree: u64,
    records_at: u64,
    /// Where nothing has been written yet.
    pub(super) free_at: u64,
    pub(super) len_bytes: u64,
}

impl Layout {
    /// Lays a set out on a disk.
    pub(super) fn new(plan: &Plan, len_bytes: u64) -> Result<Layout> {
        let spec = plan.spec();
        let records_of_tree = u64::from(spec.files + spec.folders);
        let records = u64::from(spec.all_trees()) * records_of_tree;
        let records_at = LOG_BYTES + BITMAP_BYTES;
        let mut order: Vec<u32> = (0..spec.all_trees()).collect();
        Rng::with_seed(spec.seed).shuffle(&mut order);
        let mut layout = Layout {
            trees: vec![(0, 0); spec.all_trees() as usize],
            records_of_tree,
            records_at,
            free_at: records_at + clusters(records * RECORD_BYTES) * CLUSTER_BYTES,
            len_bytes,
            order,
        };
        for (place, number) in layout.order.iter().enumerate() {
            let first = layout.free_at / CLUSTER_BYTES;
            layout.trees[*number as usize] = (first, place as u64 * records_of_tree);
            layout.free_at = walk(&plan.tree(*number), first, |_| {}) * CLUSTER_BYTES;
        }
        ensure!(layout.free_at < len_bytes, "the file set has {} bytes, a disk {len_bytes}", layout.free_at);
        Ok(layout)
    }

    /// What copying the trees wrote, in that order: of each tree its records and its data, a megabyte of
    /// records before the data of their files.
    pub(super) fn filling(&self) -> Vec<Range> {
        let mut out = vec![Range { at: 0, bytes: self.records_at }];
        let ends = self.order.iter().skip(1).map(|number| self.trees[*number as usize].0);
        let ends = ends.chain([self.free_at / CLUSTER_BYTES]);
        for (number, end) in self.order.iter().zip(ends) {
            let (first, record) = self.trees[*number as usize];
            let records = Range {
                at: self.records_at + record * RECORD_BYTES,
                bytes: self.records_of_tree * RECORD_BYTES,
            };
            let data = Range { at: first * CLUSTER_BYTES, bytes: (end - first) * CLUSTER_BYTES };
            let pieces: Vec<Range> = records.parts(1 << 20).collect();
            let share = clusters(data.bytes.div_ceil(pieces.len() as u64)).max(1) * CLUSTER_BYTES;
            let mut data = data.parts(share);
            out.extend(pieces.into_iter().flat_map(|records| [Some(records), data.next()]).flatten());
        }
        out
    }

    /// A tree, to be walked.
    pub(super) fn place(&self, tree: &Tree) -> Placed {
        let (first, record) = self.trees[tree.number as usize];
        let mut folders = vec![Folder::default(); tree.folders.len() as usize];
        let mut files = Vec::with_capacity(tree.files.len());
        walk(tree, first, |made| match made {
            Made::File(at) => files.push(at),
            Made::Entry(folder) => folders[folder as usize].entries += 1,
            Made::Buffer(folder, at) => folders[folder as usize].buffers.push(at),
        });
        Placed { folders, files, record_at: self.records_at + record * RECORD_BYTES }
    }
}

/// What copying a tree makes.
enum Made {
    /// The first cluster of the next file.
    File(u64),
    /// An entry in this folder.
    Entry(u32),
    /// A buffer for the index of this folder, in this cluster.
    Buffer(u32, u64),
}

/// Copies a tree to free clusters from here on; returns the next free one.
fn walk(tree: &Tree, first: u64, mut made: impl FnMut(Made)) -> u64 {
    let (mut next, mut entries) = (first, vec![0; tree.folders.len() as usize]);
    let mut enter = |folder: u32, next: &mut u64, made: &mut dyn FnMut(Made)| {
        let count = &mut entries[folder as usize];
        *count += 1;
        made(Made::Entry(folder));
        if takes_buffer(*count) {
            made(Made::Buffer(folder, *next));
            *next += 1;
        }
    };
    for folder in 1..tree.folders.len() {
        let way = tree.folders.way(folder);
        enter(way[way.len() - 2], &mut next, &mut made);
    }
    for file in &tree.files {
        enter(file.folder, &mut next, &mut made);
        made(Made::File(next));
        next += clusters_of_file(file.bytes);
    }
    next
}

#[derive(Clone, Debug, Default)]
struct Folder {
    entries: u64,
    /// The clusters of its index.
    buffers: Vec<u64>,
}

/// Where the parts of one tree lie.
#[derive(Debug)]
pub(super) struct Placed {
    folders: Vec<Folder>,
    /// The first cluster of each file.
    files: Vec<u64>,
    record_at: u64,
}

fn cluster(number: u64) -> Range {
    Range { at: number * CLUSTER_BYTES, bytes: CLUSTER_BYTES }
}

impl Placed {
    /// The buffers of a folder's index, in order of names.
    pub(super) fn index(&self, folder: u32) -> impl Iterator<Item = Range> {
        self.folders[folder as usize].buffers.iter().map(|number| cluster(*number))
    }

    /// The buffer with the entry of a file, the n-th of the folder's entries; none: the folder's own record.
    pub(super) fn buffer_of(&self, folder: u32, file: u32) -> Option<Range> {
        let buffers = &self.folders[folder as usize].buffers;
        let at = buffers.partition_point(|at| *at < self.files[file as usize]);
        buffers.get(at.saturating_sub(1)).map(|number| cluster(*number))
    }

    /// What a list of a folder has on the wire.
    pub(super) fn list_bytes(&self, folder: u32) -> u64 {
        self.folders[folder as usize].entries * LISTED_BYTES
    }

    fn record_number(&self, number: u64) -> Range {
        cluster((self.record_at + number * RECORD_BYTES) / CLUSTER_BYTES)
    }

    /// The cluster with the record of a folder.
    pub(super) fn folder_record(&self, folder: u32) -> Range {
        self.record_number(u64::from(folder))
    }

    /// The cluster with the record of a file.
    pub(super) fn record(&self, file: u32) -> Range {
        self.record_number(self.folders.len() as u64 + u64::from(file))
    }

    /// Where a file was created.
    pub(super) fn file_at(&self, file: u32) -> u64 {
        self.files[file as usize] * CLUSTER_BYTES
    }
}

/// The cluster with the record of one of the file system's own files, and of the first files beside them.
pub(super) fn system_record(number: u64) -> Range {
    cluster((LOG_BYTES + BITMAP_BYTES + number * RECORD_BYTES) / CLUSTER_BYTES)
}

/// The cluster of the bitmap that knows of this address.
pub(super) fn bitmap(at: u64) -> Range {
    let bit = at / CLUSTER_BYTES;
    Range { at: LOG_BYTES + bit / 8 / CLUSTER_BYTES * CLUSTER_BYTES, bytes: CLUSTER_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_tools::files::SetSpec;

    #[test]
    fn nothing_lies_on_something_else_and_all_of_it_was_filled() {
        let plan = Plan::new(SetSpec::published(1).with_trees(3, 2)).expect("a plan");
        let layout = Layout::new(&plan, 500 << 30).expect("it fits");
        let mut all = vec![];
        for number in 0..5 {
            let tree = plan.tree(number);
            let placed = layout.place(&tree);
            all.extend((0..tree.folders.len()).flat_map(|folder| placed.index(folder)));
            let file = |n: u32| {
                let bytes = clusters_of_file(tree.files[n as usize].bytes) * CLUSTER_BYTES;
                Range { at: placed.file_at(n), bytes }
            };
            all.extend((0..tree.files.len() as u32).map(file));
            assert!(placed.record(3999).at < layout.free_at);
        }
        all.retain(|range| range.bytes > 0);
        all.sort();
        assert!(all.windows(2).all(|pair| pair[0].end() <= pair[1].at));
        assert!(all.last().expect("files").end() <= layout.free_at);
        let mut filled = layout.filling();
        filled.sort();
        // But for the rest of the last record's cluster, without a gap.
        let gaps = filled.windows(2).map(|pair| pair[1].at - pair[0].end());
        assert_eq!(gaps.filter(|gap| *gap > 0).collect::<Vec<_>>(), [3 * RECORD_BYTES]);
        assert_eq!((filled[0].at, filled.last().map(|range| range.end())), (0, Some(layout.free_at)));
    }

    #[test]
    fn a_folder_of_many_files_has_its_index_between_them() {
        let plan = Plan::new(SetSpec::published(1).with_trees(1, 0)).expect("a plan");
        let layout = Layout::new(&plan, 500 << 30).expect("it fits");
        let tree = plan.tree(0);
        let placed = layout.place(&tree);
        let folder = (0..tree.folders.len()).max_by_key(|f| placed.list_bytes(*f)).expect("folders");
        let entries = placed.list_bytes(folder) / 128;
        let buffers: Vec<Range> = placed.index(folder).collect();
        assert_eq!(buffers.len() as u64, (entries - 6).div_ceil(19));
        assert!(buffers.windows(2).all(|pair| pair[1].at > pair[0].end()));
        let last = (0..4000).rev().find(|f| tree.files[*f as usize].folder == folder).expect("a file");
        assert_eq!(placed.buffer_of(folder, last), buffers.last().copied());
    }
}
