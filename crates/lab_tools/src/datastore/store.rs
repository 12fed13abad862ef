//! Disks on a datastore: create, zero, clone, delete; by the host or by the array.

use std::cell::RefCell;
use std::future::Future;

use block::Pieces;
use world::{Buf, Data};

use super::cluster::{self, Cluster};
use super::file::{self, File, RANGES_MAX};
use super::layout::{CLUSTERS, EXTENT_BYTES, HOSTS_MAX, Layout, LayoutError, META_BYTES};
use super::lock::{self, LockRecord};
use super::locking::Locks;
use crate::hosts::{Capabilities, Disk, DiskError, Steps, segments, steps};
use lab_core::interrupt::Stop;

/// Why an operation on a datastore failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum StoreError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Lock(#[from] lock::Damaged),
    #[error(transparent)]
    Cluster(#[from] cluster::Damaged),
    #[error(transparent)]
    File(#[from] file::Damaged),
    #[error("datastore full: no room for {wanted} bytes")]
    Full { wanted: u64 },
    #[error("file too fragmented: {0} separate ranges")]
    Scattered(usize),
    #[error("lock {lock} was changed while it was held")]
    LockStolen { lock: u32 },
    #[error("the heartbeat was changed by another host")]
    HeartbeatTaken,
    #[error("gave up after {tries} conflicts in a row")]
    LockedOut { tries: u32 },
    #[error("extents were freed that were not allocated")]
    NotTaken,
    #[error("stopped")]
    Stopped,
}

/// The list identifier of token commands, of which one at a time is in flight.
const TOKEN_LIST: u32 = 1;

/// Who moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The host reads and writes.
    Host,
    /// The array, in these steps.
    Array(Steps),
    /// The array: copies by tokens (ODX) of at most so many bytes; zeros in ranges of this length.
    Tokens(u64),
}

/// How a host does its part.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// Commands in flight.
    pub outstanding: usize,
    /// Bytes of one read or write.
    pub transfer_bytes: u64,
}

/// A datastore as one host has it mounted.
pub struct Datastore {
    disk: Disk,
    layout: Layout,
    caps: Capabilities,
    locks: Locks,
    ways: Ways,
    stop: Stop,
}

/// Bytes of the writes that format.
const FORMAT_STEP_BYTES: usize = 1 << 20;

/// Creates a datastore on a LU and erases its content.
pub async fn format(disk: &Disk, layout: &Layout) -> Result<(), StoreError> {
    let zeros = Buf::zeroed(FORMAT_STEP_BYTES).freeze();
    for (at, len) in steps(&[(0, super::layout::DATA_AT)], FORMAT_STEP_BYTES as u64) {
        disk.write(at, zeros.slice(..len as usize).into()).await?;
    }
    let empty = Cluster::empty(layout.cluster_extents()).encode();
    for cluster in 0..CLUSTERS {
        disk.write(layout.cluster_at(cluster), Pieces::copy_of(&empty)).await?;
    }
    Ok(disk.write(0, Pieces::copy_of(&layout.encode())).await?)
}

/// What the array can do, with COMPARE AND WRITE tried on an unused heartbeat of a formatted datastore: there
/// are arrays that state a length for it and refuse the command.
pub async fn capabilities(disk: &Disk, layout: &Layout) -> Result<Capabilities, StoreError> {
    let mut caps = disk.capabilities().await?;
    if caps.compare_and_write_blocks_max > 0 {
        let zeros = vec![0; caps.block_bytes as usize];
        match disk.compare_and_write(layout.heartbeat_at(HOSTS_MAX - 1), &zeros, &zeros).await {
            Ok(_) => {}
            Err(error) if error.is_refusal() => caps.compare_and_write_blocks_max = 0,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(caps)
}

impl Datastore {
    /// Mounts the datastore of a LU.
    pub async fn mount(
        disk: Disk,
        caps: Capabilities,
        locks: Locks,
        ways: Ways,
        stop: Stop,
    ) -> Result<Datastore, StoreError> {
        let layout = Layout::of(caps.len_bytes, caps.block_bytes)?;
        layout.check(&locks.read(0, META_BYTES).await?.joined())?;
        Ok(Datastore { disk, layout, caps, locks, ways, stop })
    }

    /// The offloads that the array reports.
    pub fn caps(&self) -> &Capabilities {
        &self.caps
    }

    /// The locks of this host.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// How the host does its part.
    pub fn ways(&self) -> Ways {
        self.ways
    }

    /// Works on all items, a few at once.
    pub async fn at_once<T, F, Fut>(&self, items: Vec<T>, work: F) -> Result<(), StoreError>
    where
        F: Fn(T) -> Fut,
        Fut: Future<Output = Result<(), StoreError>>,
    {
        let items = RefCell::new(items.into_iter());
        let worker = || async {
            loop {
                if self.stop.is_asked() {
                    return Err(StoreError::Stopped);
                }
                let next = items.borrow_mut().next();
                let Some(item) = next else { return Ok(()) };
                work(item).await?;
            }
        };
        futures::future::try_join_all((0..self.ways.outstanding).map(|_| worker())).await.map(drop)
    }

    /// Takes space, cluster by cluster from `first` on, each under its lock: first the clusters that nobody
    /// works on, then the others in turn. Gives the places of the extents.
    pub async fn allocate(&self, first: u32, extents: u64) -> Result<Vec<u64>, StoreError> {
        let mut places = Vec::new();
        let mut busy = Vec::new();
        for cluster in (0..CLUSTERS).map(|n| (first + n) % CLUSTERS) {
            match self.locks.try_acquire(cluster).await? {
                Some(held) => self.take_extents(cluster, held, extents, &mut places).await?,
                None => busy.push(cluster),
            }
            if places.len() as u64 == extents {
                return Ok(places);
            }
        }
        for cluster in busy {
            let held = self.locks.acquire(cluster).await?;
            self.take_extents(cluster, held, extents, &mut places).await?;
            if places.len() as u64 == extents {
                return Ok(places);
            }
        }
        self.give_back(&places).await?;
        Err(StoreError::Full { wanted: extents * EXTENT_BYTES })
    }

    async fn take_extents(
        &self,
        cluster: u32,
        held: LockRecord,
        extents: u64,
        places: &mut Vec<u64>,
    ) -> Result<(), StoreError> {
        let wanted = extents - places.len() as u64;
        let taken = self.change_held(cluster, held, |c| c.take(wanted)).await?;
        places.extend(taken.into_iter().map(|index| self.layout.extent_at(cluster, index)));
        Ok(())
    }

    /// Frees extents.
    pub async fn give_back(&self, places: &[u64]) -> Result<(), StoreError> {
        for cluster in 0..CLUSTERS {
            let indexes: Vec<u64> = places
                .iter()
                .map(|at| self.layout.extent_of(*at))
                .filter(|(c, _)| *c == cluster)
                .map(|(_, index)| index)
                .collect();
            if !indexes.is_empty() && !self.change_cluster(cluster, |c| c.give_back(&indexes)).await? {
                return Err(StoreError::NotTaken);
            }
        }
        Ok(())
    }

    /// Changes a cluster under its lock.
    async fn change_cluster<T>(
        &self,
        cluster: u32,
        change: impl FnOnce(&mut Cluster) -> T,
    ) -> Result<T, StoreError> {
        let held = self.locks.acquire(cluster).await?;
        self.change_held(cluster, held, change).await
    }

    /// Reads a cluster's block, changes it, writes it back, and releases its lock.
    async fn change_held<T>(
        &self,
        cluster: u32,
        held: LockRecord,
        change: impl FnOnce(&mut Cluster) -> T,
    ) -> Result<T, StoreError> {
        let at = self.layout.cluster_at(cluster);
        let block = self.locks.read(at, META_BYTES).await?;
        let mut content = Cluster::decode(&block.joined(), self.layout.cluster_extents())?;
        let outcome = change(&mut content);
        self.locks.write(at, Pieces::copy_of(&content.encode())).await?;
        self.locks.release(cluster, held).await?;
        Ok(outcome)
    }

    /// A file with space of its own, described on the datastore; its bytes are whatever lay there.
    pub async fn create_file(
        &self,
        slot: u32,
        name: &str,
        promised_bytes: u64,
        taken_bytes: u64,
    ) -> Result<File, StoreError> {
        let places = self.allocate(0, taken_bytes.div_ceil(EXTENT_BYTES)).await?;
        let ranges = cluster::ranges(&places, EXTENT_BYTES);
        if ranges.len() > RANGES_MAX {
            return Err(StoreError::Scattered(ranges.len()));
        }
        let file = File { name: name.into(), len_bytes: promised_bytes, ranges };
        self.describe(slot, &file).await?;
        Ok(file)
    }

    /// Writes a file's descriptor, or that of a file that has changed.
    pub async fn describe(&self, slot: u32, file: &File) -> Result<(), StoreError> {
        self.locks.write(self.layout.file_at(slot), Pieces::copy_of(&file.encode())).await
    }

    /// The file that a slot describes.
    pub async fn file(&self, slot: u32) -> Result<Option<File>, StoreError> {
        let block = self.locks.read(self.layout.file_at(slot), META_BYTES).await?;
        Ok(File::decode(&block.joined())?)
    }

    /// An eager-zeroed disk: space, zeros in it, a descriptor.
    pub async fn create_zeroed(
        &self,
        slot: u32,
        name: &str,
        len_bytes: u64,
        mode: Mode,
    ) -> Result<File, StoreError> {
        let file = self.create_file(slot, name, len_bytes, len_bytes).await?;
        self.zero(&file, mode).await?;
        Ok(file)
    }

    async fn zero(&self, file: &File, mode: Mode) -> Result<(), StoreError> {
        self.zero_ranges(&file.ranges, mode).await
    }

    /// Zeros in ranges of the LU.
    pub async fn zero_ranges(&self, ranges: &[(u64, u64)], mode: Mode) -> Result<(), StoreError> {
        match mode {
            Mode::Host => {
                let zeros: Data = Buf::zeroed(self.ways.transfer_bytes as usize).freeze();
                let all = steps(ranges, self.ways.transfer_bytes);
                self.at_once(all, |(at, len)| self.locks.write(at, zeros.slice(..len as usize).into())).await
            }
            Mode::Array(Steps { write_same_bytes, .. }) | Mode::Tokens(write_same_bytes) => {
                let block = Buf::zeroed(self.caps.block_bytes as usize).freeze();
                let all = steps(ranges, write_same_bytes);
                self.at_once(all, |(at, len)| {
                    let block = block.clone();
                    async move { Ok(self.disk.write_same(at, len, block).await?) }
                })
                .await
            }
        }
    }

    /// A clone of a file of `source` (this datastore or another): space here, the same content, a descriptor.
    pub async fn clone_file(
        &self,
        source: &Datastore,
        from: &File,
        slot: u32,
        name: &str,
        mode: Mode,
    ) -> Result<File, StoreError> {
        let file = self.create_file(slot, name, from.len_bytes, from.taken_bytes()).await?;
        self.copy_ranges(source, &from.ranges, &file.ranges, mode).await?;
        Ok(file)
    }

    /// Copies ranges of `source` (this datastore or another) to as many bytes here.
    pub async fn copy_ranges(
        &self,
        source: &Datastore,
        from: &[(u64, u64)],
        to: &[(u64, u64)],
        mode: Mode,
    ) -> Result<(), StoreError> {
        match mode {
            Mode::Host => self.copy_by_host(source, from, to).await,
            Mode::Array(by) => self.copy_by_array(source, from, to, by).await,
            Mode::Tokens(bytes) => self.copy_by_tokens(source, from, to, bytes).await,
        }
    }

    async fn copy_by_host(
        &self,
        source: &Datastore,
        from: &[(u64, u64)],
        to: &[(u64, u64)],
    ) -> Result<(), StoreError> {
        let all = segments(from, to, self.ways.transfer_bytes);
        self.at_once(all, |s| async move {
            let data = source.locks.read(s.from, s.len).await?;
            self.locks.write(s.to, data).await
        })
        .await
    }

    async fn copy_by_array(
        &self,
        source: &Datastore,
        from: &[(u64, u64)],
        to: &[(u64, u64)],
        by: Steps,
    ) -> Result<(), StoreError> {
        let all = segments(from, to, by.segment_bytes);
        let commands: Vec<_> = all.chunks(by.segments).map(<[_]>::to_vec).collect();
        self.at_once(commands, |segments| async move {
            let naa = [&source.caps.naa[..], &self.caps.naa[..]];
            Ok(self.disk.extended_copy(naa, &segments).await?)
        })
        .await
    }

    /// One token after the other, as a host's copy engine does.
    async fn copy_by_tokens(
        &self,
        source: &Datastore,
        from: &[(u64, u64)],
        to: &[(u64, u64)],
        bytes: u64,
    ) -> Result<(), StoreError> {
        for s in segments(from, to, bytes) {
            let token = source.disk.populate_token(TOKEN_LIST, (s.from, s.len)).await?;
            self.disk.write_using_token(TOKEN_LIST, &token, (s.to, s.len)).await?;
        }
        Ok(())
    }

    /// Erases a file's descriptor.
    pub async fn forget(&self, slot: u32) -> Result<(), StoreError> {
        self.locks.write(self.layout.file_at(slot), Buf::zeroed(META_BYTES as usize).freeze().into()).await
    }

    /// Deletes a file. With `unmap` its space goes back to the array, too.
    pub async fn delete(&self, slot: u32, file: &File, unmap: bool) -> Result<(), StoreError> {
        self.forget(slot).await?;
        if unmap && self.caps.unmap {
            self.unmap(file).await?;
        }
        let places: Vec<u64> = steps(&file.ranges, EXTENT_BYTES).into_iter().map(|(at, _)| at).collect();
        self.give_back(&places).await
    }

    /// UNMAP of everything that a file has, within the limits that the array states.
    pub async fn unmap(&self, file: &File) -> Result<(), StoreError> {
        // An array that states no limit gets one range of 256 MiB per command.
        let most = |stated: u64, careful: u64| if stated == 0 { careful } else { stated };
        let bytes_max = most(self.caps.unmap_bytes_max, 256 << 20) / EXTENT_BYTES * EXTENT_BYTES;
        let all = steps(&file.ranges, bytes_max.max(EXTENT_BYTES));
        self.at_once(all, |range| async move { Ok(self.disk.unmap(&[range]).await?) }).await
    }
}
