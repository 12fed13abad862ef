//! The application on the server: it writes files and pages, and records what it was told of each.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use world::{Rng, World};

use super::configuration::Configuration;
use super::file_system::FileSystem;
use super::layout::{BLOCK_BYTES, FILE_BLOCKS, FILES, PAGES};

/// At the same time; each has its own files and pages.
const WORKERS: u32 = 8;
/// The system writes back what is dirty (Windows: the lazy writer's second, halved to have more of it in a
/// short run).
const WRITE_BACK: Duration = Duration::from_millis(500);
/// Of 100 operations, so many write a file; the others write a page.
const FILE_PERCENT: u32 = 40;
/// Of 100 files, so many are made durable at once.
const FSYNC_PERCENT: u32 = 50;
/// Of 100 pages, so many are.
const SYNC_PAGE_PERCENT: u32 = 25;
/// Between two operations of a worker, so that memory is not all that is measured.
const THINK: Duration = Duration::from_micros(200);

/// What the application knows of one object: versions count up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The last one that it began to write.
    pub(super) issued: u64,
    /// The last one that it was told is in memory.
    pub(super) buffered: u64,
    /// ... that the disk has.
    pub(super) written: u64,
    /// ... that survives a power cut.
    pub(super) durable: u64,
}

/// Everything that it was told.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) files: Vec<Known>,
    pub(super) pages: Vec<Known>,
    /// Acknowledged since the beginning, in bytes.
    pub(super) bytes: u64,
    /// Writes acknowledged as durable.
    pub(super) durable_writes: u64,
}

impl Told {
    pub(super) fn new() -> Told {
        Told {
            files: vec![Known::default(); FILES as usize],
            pages: vec![Known::default(); PAGES as usize],
            bytes: 0,
            durable_writes: 0,
        }
    }
}

/// Starts the workers and the writer in the background, on the server's machine. Each ends at its first
/// error: the file system has failed.
pub(super) fn start(
    world: &World,
    system: &Rc<FileSystem>,
    told: &Rc<RefCell<Told>>,
    configuration: Configuration,
) {
    for number in 0..WORKERS {
        let worker = Worker { number, system: system.clone(), told: told.clone(), configuration };
        let (rng, clock) = (world.random(&format!("worker {number}, {}", world.now().0)), world.clone());
        world.spawn(async move {
            // What ends it is that the disk has failed: nothing more is acknowledged.
            let _ = worker.work(&clock, rng).await;
        });
    }
    let (system, clock) = (system.clone(), world.clone());
    world.spawn(async move {
        loop {
            clock.sleep(WRITE_BACK).await;
            if system.write_back().await.is_err() {
                return;
            }
        }
    });
}

struct Worker {
    number: u32,
    system: Rc<FileSystem>,
    told: Rc<RefCell<Told>>,
    configuration: Configuration,
}

impl Worker {
    async fn work(&self, world: &World, mut rng: Rng) -> Result<()> {
        loop {
            world.sleep(THINK).await;
            if rng.u32(..100) < FILE_PERCENT {
                let file = self.number + WORKERS * rng.u32(..FILES / WORKERS);
                self.write_file(file, rng.u32(..100) < FSYNC_PERCENT).await?;
            } else {
                let page = self.number + WORKERS * rng.u32(..PAGES / WORKERS);
                self.write_page(page, rng.u32(..100) < SYNC_PAGE_PERCENT).await?;
            }
        }
    }

    async fn write_file(&self, file: u32, syncs: bool) -> Result<()> {
        let version = self.change(|told| {
            let known = &mut told.files[file as usize];
            known.issued += 1;
            known.issued
        });
        self.system.write_file(file, version);
        self.change(|told| {
            told.files[file as usize].buffered = version;
            told.bytes += (FILE_BLOCKS * BLOCK_BYTES) as u64;
        });
        if syncs {
            self.system.fsync(file).await?;
            self.change(|told| {
                told.files[file as usize].durable = version;
                told.durable_writes += 1;
            });
        }
        Ok(())
    }

    async fn write_page(&self, page: u32, syncs: bool) -> Result<()> {
        let version = self.change(|told| {
            let known = &mut told.pages[page as usize];
            known.issued += 1;
            known.issued
        });
        self.system.write_page(page, version).await?;
        let is_durable = self.configuration.disk_is_durable();
        self.change(|told| {
            let known = &mut told.pages[page as usize];
            known.written = version;
            if is_durable {
                known.durable = version;
                told.durable_writes += 1;
            }
            told.bytes += BLOCK_BYTES as u64;
        });
        if syncs && !is_durable {
            self.sync_pages().await?;
        }
        Ok(())
    }

    /// fdatasync: what was written before is durable, and so the pages that this worker wrote earlier.
    async fn sync_pages(&self) -> Result<()> {
        let own = || (self.number..PAGES).step_by(WORKERS as usize).map(|page| page as usize);
        let covered: Vec<u64> = {
            let told = self.told.borrow();
            own().map(|page| told.pages[page].written).collect()
        };
        self.system.sync_pages().await?;
        self.change(|told| {
            for (page, version) in own().zip(covered) {
                let known = &mut told.pages[page];
                told.durable_writes += u64::from(version > known.durable);
                known.durable = known.durable.max(version);
            }
        });
        Ok(())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Told) -> T) -> T {
        change(&mut self.told.borrow_mut())
    }
}
