//! The server's file system: ordered data and a log, with the flushes that such file systems send.
//!
//! A commit writes the new data where nothing durable lies, then the transaction to the log, flushes the
//! disk, writes the commit block with FUA, and only then says that all of it is durable. Before the log is
//! used again, what it holds is in the table, and flushed. (ext4 with `data=ordered` and `barrier=1` does it
//! so.)

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result, ensure};
use block::Pieces;
use futures::future::try_join_all;
use futures::lock::Mutex;
use vdisk::Image;

use super::layout::{self, BLOCK_BYTES, FILE_BLOCKS, LOG_BLOCKS, Record, SLOTS, TABLE_BLOCKS, Tail};

/// The virtual disk, as the server's system uses it.
pub(super) struct GuestDisk {
    pub(super) image: Image,
    /// Without a write cache every write is durable when it returns, and a flush has nothing to do.
    pub(super) has_cache: bool,
}

impl GuestDisk {
    pub(super) async fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let mut out = Pieces::new();
        self.image.read(at, len as u64, &mut out).await?;
        Ok(out.joined().to_vec())
    }

    pub(super) async fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.image.write(at, &Pieces::copy_of(bytes)).await?;
        if !self.has_cache {
            self.image.flush().await?;
        }
        Ok(())
    }

    /// FUA: durable when it returns, whatever the cache.
    async fn write_durable(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.image.write(at, &Pieces::copy_of(bytes)).await?;
        Ok(self.image.flush().await?)
    }

    async fn flush(&self) -> Result<()> {
        if self.has_cache {
            self.image.flush().await?;
        }
        Ok(())
    }
}

/// Whether the file system sends flushes: without them ("nobarrier") it promises what it cannot keep on a
/// disk with a volatile cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barriers {
    On,
    #[cfg_attr(not(test), expect(dead_code, reason = "shows that losses are found"))]
    Off,
}

pub(super) struct FileSystem {
    pub(super) disk: GuestDisk,
    barriers: Barriers,
    /// As the last transaction has it.
    table: RefCell<Vec<Record>>,
    /// Versions that are in memory only.
    dirty: RefCell<BTreeMap<u32, u64>>,
    /// Slots that no durable version has.
    free: RefCell<VecDeque<u32>>,
    committing: Mutex<()>,
    /// A commit has failed: what it took from memory is on no disk, and nothing is durable any more.
    aborted: Cell<bool>,
    head: Cell<Tail>,
    tail: Cell<u64>,
}

impl FileSystem {
    /// Makes an empty one. The disk reads as zeros.
    pub(super) async fn format(disk: &GuestDisk) -> Result<()> {
        let superblock = layout::superblock(Tail { block: 0, sequence: 1 });
        disk.write_durable(0, &superblock).await?;
        // Pages have their place from the beginning, as those of a database do.
        for page in 0..layout::PAGES {
            disk.write(layout::page_at(page), &layout::content(layout::page_object(page), 0, 1)).await?;
        }
        Ok(disk.image.flush().await?)
    }

    /// Opens it: replays the log, and makes the result durable.
    pub(super) async fn mount(disk: GuestDisk, barriers: Barriers) -> Result<FileSystem> {
        let superblock = disk.read(0, BLOCK_BYTES).await?;
        let mut head = layout::tail_of(&superblock).context("no file system is on the disk")?;
        let bytes = disk.read(layout::table_at(0), TABLE_BLOCKS * BLOCK_BYTES).await?;
        let mut blocks: Vec<Vec<u8>> = bytes.chunks(BLOCK_BYTES).map(<[u8]>::to_vec).collect();
        while let Some((next, replayed)) = next_transaction(&disk, head).await? {
            head = next;
            replayed.into_iter().for_each(|(number, block)| blocks[number] = block);
        }
        let table: Vec<Record> = blocks.iter().flat_map(|block| layout::records_of(block)).collect();
        for (number, block) in blocks.iter().enumerate() {
            disk.write(layout::table_at(number), block).await?;
        }
        disk.image.flush().await?;
        disk.write_durable(0, &layout::superblock(head)).await?;
        let used = |slot: &u32| table.iter().any(|record| record.version > 0 && record.slot == *slot);
        let free = (0..SLOTS).filter(|slot| !used(slot)).collect();
        Ok(FileSystem {
            disk,
            barriers,
            table: RefCell::new(table),
            dirty: RefCell::default(),
            free: RefCell::new(free),
            committing: Mutex::default(),
            aborted: Cell::default(),
            head: Cell::new(head),
            tail: Cell::new(head.block),
        })
    }

    /// A buffered write of a whole file: it is in memory.
    pub(super) fn write_file(&self, file: u32, version: u64) {
        self.dirty.borrow_mut().insert(file, version);
    }

    /// fsync of a file: durable when it returns.
    pub(super) async fn fsync(&self, file: u32) -> Result<()> {
        let turn = self.committing.lock().await;
        self.check()?;
        // Somebody else's commit may have taken it along.
        if self.dirty.borrow().contains_key(&file) {
            self.commit().await?;
        }
        drop(turn);
        Ok(())
    }

    /// What the system does by itself every few seconds.
    pub(super) async fn write_back(&self) -> Result<()> {
        let _turn = self.committing.lock().await;
        self.commit().await
    }

    /// An unbuffered write in place (O_DIRECT): the disk has it.
    pub(super) async fn write_page(&self, page: u32, version: u64) -> Result<()> {
        let bytes = layout::content(layout::page_object(page), version, 1);
        self.disk.write(layout::page_at(page), &bytes).await
    }

    /// fdatasync of such a file: nothing but the disk's cache is between it and the medium.
    pub(super) async fn sync_pages(&self) -> Result<()> {
        self.barrier().await
    }

    async fn barrier(&self) -> Result<()> {
        match self.barriers {
            Barriers::On => self.disk.flush().await,
            Barriers::Off => Ok(()),
        }
    }

    /// With the turn to commit.
    async fn commit(&self) -> Result<()> {
        self.check()?;
        let done = self.commit_dirty().await;
        if done.is_err() {
            self.aborted.set(true);
        }
        done
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.aborted.get(), "the file system has aborted its log");
        Ok(())
    }

    async fn commit_dirty(&self) -> Result<()> {
        let dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        if dirty.is_empty() {
            return Ok(());
        }
        let mut table = self.table.borrow().clone();
        let mut released = Vec::new();
        for (file, version) in &dirty {
            let slot = self.free.borrow_mut().pop_front().context("a slot for each file")?;
            let old = std::mem::replace(&mut table[*file as usize], Record { version: *version, slot });
            released.extend((old.version > 0).then_some(old.slot));
        }
        let data = dirty.iter().map(async |(file, version)| {
            let bytes = layout::content(layout::file_object(*file), *version, FILE_BLOCKS);
            self.disk.write(layout::slot_at(table[*file as usize].slot), &bytes).await
        });
        try_join_all(data).await?;
        let mut numbers: Vec<usize> = dirty.keys().map(|file| layout::table_block_of(*file)).collect();
        numbers.dedup();
        let blocks = numbers.into_iter().map(|number| (number, layout::table_block(&table, number)));
        self.log(&blocks.collect::<Vec<_>>()).await?;
        *self.table.borrow_mut() = table;
        self.free.borrow_mut().extend(released);
        if self.logged_blocks() > LOG_BLOCKS / 2 {
            self.checkpoint().await?;
        }
        Ok(())
    }

    async fn log(&self, blocks: &[(usize, Vec<u8>)]) -> Result<()> {
        let mut head = self.head.get();
        let len = blocks.len() as u64 + 2;
        if head.block + len > LOG_BLOCKS {
            head.block = 0;
        }
        let transaction = layout::transaction(head.sequence, blocks);
        self.disk.write(layout::log_at(head.block), &transaction).await?;
        let (commit, at) = (layout::commit(&transaction), layout::log_at(head.block + len - 1));
        self.barrier().await?;
        match self.barriers {
            Barriers::On => self.disk.write_durable(at, &commit).await?,
            Barriers::Off => self.disk.write(at, &commit).await?,
        }
        self.head.set(Tail { block: head.block + len, sequence: head.sequence + 1 });
        Ok(())
    }

    fn logged_blocks(&self) -> u64 {
        (self.head.get().block + LOG_BLOCKS - self.tail.get()) % LOG_BLOCKS
    }

    /// The table takes over from the log.
    async fn checkpoint(&self) -> Result<()> {
        let table = self.table.borrow().clone();
        for number in 0..TABLE_BLOCKS {
            self.disk.write(layout::table_at(number), &layout::table_block(&table, number)).await?;
        }
        self.barrier().await?;
        let head = self.head.get();
        let head = Tail { block: head.block % LOG_BLOCKS, ..head };
        let superblock = layout::superblock(head);
        match self.barriers {
            Barriers::On => self.disk.write_durable(0, &superblock).await?,
            Barriers::Off => self.disk.write(0, &superblock).await?,
        }
        self.head.set(head);
        self.tail.set(head.block);
        Ok(())
    }

    /// The version of a file whose data are all there; none: what is there is not what the table says.
    pub(super) async fn read_file(&self, file: u32) -> Result<Option<u64>> {
        let record = self.table.borrow()[file as usize];
        if record.version == 0 {
            return Ok(Some(0));
        }
        let bytes = self.disk.read(layout::slot_at(record.slot), FILE_BLOCKS * BLOCK_BYTES).await?;
        let is_whole = layout::versions(layout::file_object(file), &bytes).all(|v| v == Some(record.version));
        Ok(is_whole.then_some(record.version))
    }

    /// The oldest and the newest version among the sectors of a page; none: another object's.
    pub(super) async fn read_page(&self, page: u32) -> Result<Option<(u64, u64)>> {
        let bytes = self.disk.read(layout::page_at(page), BLOCK_BYTES).await?;
        let all: Option<Vec<u64>> = layout::versions(layout::page_object(page), &bytes).collect();
        Ok(all.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?))))
    }
}

/// The transaction at the head of the log, if it was committed: behind it, or at the log's beginning when it
/// did not fit there.
async fn next_transaction(disk: &GuestDisk, head: Tail) -> Result<Option<(Tail, Vec<(usize, Vec<u8>)>)>> {
    for block in [head.block, 0] {
        if block >= LOG_BLOCKS {
            continue;
        }
        let descriptor = disk.read(layout::log_at(block), BLOCK_BYTES).await?;
        let Some(numbers) = layout::described(&descriptor, head.sequence) else { continue };
        let len = numbers.len() as u64 + 2;
        ensure!(block + len <= LOG_BLOCKS, "a transaction passes the end of the log");
        let bytes = disk.read(layout::log_at(block), len as usize * BLOCK_BYTES).await?;
        let (transaction, commit) = bytes.split_at(bytes.len() - BLOCK_BYTES);
        if layout::is_commit_of(commit, transaction) {
            let blocks = transaction[BLOCK_BYTES..].chunks(BLOCK_BYTES).map(<[u8]>::to_vec);
            let next = Tail { block: block + len, sequence: head.sequence + 1 };
            return Ok(Some((next, numbers.into_iter().zip(blocks).collect())));
        }
    }
    Ok(None)
}
