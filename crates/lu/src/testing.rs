//! A thin disk in memory for protocol tests: pages in a map, a pool that can be full, faults on demand.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockError, Buf, Geometry, Pieces};

use crate::{Capabilities, CommandContext, Copied, Durability, Extent, LogicalDisk, Space};

/// The bytes of a page, shared by clones and ROD.
type Page = Rc<Vec<u8>>;

/// A thin disk in memory: a handle.
#[derive(Clone)]
pub struct ThinMemory(Rc<Inner>);

struct Inner {
    pages: RefCell<BTreeMap<u64, Page>>,
    records: RefCell<BTreeMap<String, Vec<u8>>>,
    block_bytes: u32,
    page_bytes: u64,
    thin: bool,
    len_bytes: Cell<u64>,
    pool: Rc<Pool>,
    flushes: Cell<u64>,
    /// The last synced range.
    synced: Cell<Option<(u64, u64)>>,
    /// Flushes are cheap.
    has_journal: Cell<bool>,
    /// Operations complete without waiting, as on unmapped blocks.
    is_prompt: Cell<bool>,
    /// Reads in flight, and the most that there were.
    reading: Cell<u32>,
    reading_most: Cell<u32>,
    /// How often [`LogicalDisk::extent`] was called.
    extents: Cell<u64>,
    /// The RODs have given way to writes.
    rods_discarded: Cell<bool>,
    /// The next operations that fail, with their errors.
    fault: RefCell<Option<BlockError>>,
    /// The number of records until the power fails.
    records_left: Cell<Option<u64>>,
}

/// The pool behind one or several disks: how many pages it has, and how many are in use.
#[derive(Debug)]
pub struct Pool {
    /// Pages in all.
    pub pages: Cell<u64>,
    /// Pages in use.
    pub used: Cell<u64>,
}

/// A point-in-time copy: the offset of each page, and its content.
pub struct MemoryRod {
    from: u64,
    pages: BTreeMap<u64, Page>,
    users: Cell<u32>,
}

impl MemoryRod {
    /// Commands that use it.
    pub fn users(&self) -> u32 {
        self.users.get()
    }

    /// `len` bytes from offset `from`.
    fn bytes(&self, from: u64, len: usize, page_bytes: u64) -> Vec<u8> {
        let byte =
            |at: u64| self.pages.get(&(at / page_bytes)).map_or(0, |page| page[(at % page_bytes) as usize]);
        (self.from + from..self.from + from + len as u64).map(byte).collect()
    }
}

impl ThinMemory {
    /// A disk of `len_bytes` without a page in use.
    pub fn new(len_bytes: u64, block_bytes: u32, page_bytes: u64) -> ThinMemory {
        let pool = Rc::new(Pool { pages: Cell::new(1 << 40), used: Cell::new(0) });
        ThinMemory::in_pool(pool, len_bytes, block_bytes, page_bytes, true)
    }

    /// The same, thick.
    pub fn thick(len_bytes: u64, block_bytes: u32) -> ThinMemory {
        let pool = Rc::new(Pool { pages: Cell::new(1 << 40), used: Cell::new(0) });
        ThinMemory::in_pool(pool, len_bytes, block_bytes, 1 << 16, false)
    }

    /// A disk in a pool.
    pub fn in_pool(
        pool: Rc<Pool>,
        len_bytes: u64,
        block_bytes: u32,
        page_bytes: u64,
        thin: bool,
    ) -> ThinMemory {
        ThinMemory(Rc::new(Inner {
            pages: RefCell::default(),
            records: RefCell::default(),
            block_bytes,
            page_bytes,
            thin,
            len_bytes: Cell::new(len_bytes),
            pool,
            flushes: Cell::new(0),
            synced: Cell::new(None),
            has_journal: Cell::new(false),
            is_prompt: Cell::new(false),
            extents: Cell::new(0),
            reading: Cell::new(0),
            reading_most: Cell::new(0),
            rods_discarded: Cell::new(false),
            fault: RefCell::default(),
            records_left: Cell::new(None),
        }))
    }

    /// A copy of the disk whose power fails after it has stored `records` more records: from then on nothing
    /// is stored, and the write in progress stores its first half.
    pub fn with_power_cut_after(&self, records: u64) -> ThinMemory {
        let copy = self.after_power_on();
        copy.0.records_left.set(Some(records));
        copy
    }

    /// All RODs that there are, and that will be, are without content.
    pub fn discard_rods(&self) {
        self.0.rods_discarded.set(true);
    }

    fn check_rods(&self) -> Result<(), BlockError> {
        match self.0.rods_discarded.get() {
            true => Err(BlockError::NoSpace { pool: "memory".into() }),
            false => Ok(()),
        }
    }

    /// The disk as after a restart.
    pub fn after_power_on(&self) -> ThinMemory {
        let inner = &self.0;
        let copy = ThinMemory::new(inner.len_bytes.get(), inner.block_bytes, inner.page_bytes);
        *copy.0.pages.borrow_mut() = inner.pages.borrow().clone();
        copy.0.pool.used.set(copy.pages_used() as u64);
        *copy.0.records.borrow_mut() = inner.records.borrow().clone();
        copy
    }

    fn has_power(&self) -> bool {
        self.0.records_left.get() != Some(0)
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Makes the disk larger.
    pub fn grow(&self, len_bytes: u64) {
        self.0.len_bytes.set(len_bytes);
    }

    /// The number of flushes.
    pub fn flushes(&self) -> u64 {
        self.0.flushes.get()
    }

    /// The last synced range: address and length.
    pub fn synced(&self) -> Option<(u64, u64)> {
        self.0.synced.get()
    }

    /// Makes flushes cheap: WCE = 0 for its LUs.
    pub fn gets_journal(&self) {
        self.0.has_journal.set(true);
    }

    /// Reads, writes and unmaps complete without waiting from now on, as on unmapped blocks.
    pub fn becomes_prompt(&self) {
        self.0.is_prompt.set(true);
    }

    /// The most reads that were in flight at once.
    pub fn reading_most(&self) -> u32 {
        self.0.reading_most.get()
    }

    /// How often the state of blocks was asked.
    pub fn extents_asked(&self) -> u64 {
        self.0.extents.get()
    }

    async fn wait(&self) {
        if !self.0.is_prompt.get() {
            world::yield_now().await;
        }
    }

    /// Every read and write fails with this error from now on; `None`: none does.
    pub fn fail_with(&self, fault: Option<BlockError>) {
        *self.0.fault.borrow_mut() = fault;
    }

    /// Pages in use by this disk.
    pub fn pages_used(&self) -> usize {
        self.0.pages.borrow().len()
    }

    fn check(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let block = u64::from(self.0.block_bytes);
        assert!(at.is_multiple_of(block) && len.is_multiple_of(block), "whole blocks: {at}+{len}");
        self.geometry().check(at, len)?;
        self.0.fault.borrow().clone().map_or(Ok(()), Err)
    }

    /// The pieces of a range by page: page number, offset within the page, length.
    fn parts(&self, at: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> + use<> {
        let page = self.0.page_bytes;
        let mut done = 0;
        std::iter::from_fn(move || {
            let here = at + done;
            let n = (page - here % page).min(len - done);
            done += n;
            (n > 0).then_some((here / page, (here % page) as usize, n as usize))
        })
    }

    /// Changes a part of a page, which is copied first if it is shared.
    fn change(&self, page: u64, edit: impl FnOnce(&mut [u8])) -> Result<(), BlockError> {
        let mut pages = self.0.pages.borrow_mut();
        if let std::collections::btree_map::Entry::Vacant(place) = pages.entry(page) {
            let pool = &self.0.pool;
            if pool.used.get() >= pool.pages.get() {
                return Err(BlockError::NoSpace { pool: "memory".into() });
            }
            pool.used.set(pool.used.get() + 1);
            place.insert(Rc::new(vec![0; self.0.page_bytes as usize]));
        }
        let bytes: &mut Vec<u8> = Rc::make_mut(pages.get_mut(&page).expect("inserted above"));
        edit(bytes);
        Ok(())
    }

    fn bytes(&self, at: u64, len: usize) -> Buf {
        let mut buf = Buf::zeroed(len);
        let mut done = 0;
        for (page, from, n) in self.parts(at, len as u64) {
            if let Some(bytes) = self.0.pages.borrow().get(&page) {
                buf[done..done + n].copy_from_slice(&bytes[from..from + n]);
            }
            done += n;
        }
        buf
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<(), BlockError> {
        let mut done = 0;
        for (page, from, n) in self.parts(at, bytes.len() as u64) {
            self.change(page, |p| p[from..from + n].copy_from_slice(&bytes[done..done + n]))?;
            done += n;
        }
        Ok(())
    }

    /// Zeros a range; whole pages are dropped. Returns the freed bytes.
    fn clear(&self, at: u64, len: u64) -> Result<u64, BlockError> {
        let mut freed = 0;
        for (page, from, n) in self.parts(at, len) {
            if n as u64 == self.0.page_bytes {
                if self.0.pages.borrow_mut().remove(&page).is_some() {
                    self.0.pool.used.set(self.0.pool.used.get() - 1);
                    freed += n as u64;
                }
            } else if self.0.pages.borrow().contains_key(&page) {
                self.change(page, |p| p[from..from + n].fill(0))?;
            }
        }
        Ok(freed)
    }

    /// Shares a page of another disk (`None`: unmapped).
    fn adopt(&self, page: u64, bytes: Option<Page>) {
        let mut pages = self.0.pages.borrow_mut();
        let used = &self.0.pool.used;
        used.set(used.get() - u64::from(pages.contains_key(&page)) + u64::from(bytes.is_some()));
        match bytes {
            Some(bytes) => pages.insert(page, bytes),
            None => pages.remove(&page),
        };
    }
}

impl LogicalDisk for ThinMemory {
    type Rod = MemoryRod;

    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.0.len_bytes.get(), block_bytes: self.0.block_bytes }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            page_bytes: self.0.thin.then_some(self.0.page_bytes),
            volatile_cache: !self.0.has_journal.get(),
            keeps_records: true,
            offloads: true,
        }
    }

    fn space(&self) -> Space {
        let (pool, page) = (&self.0.pool, self.0.page_bytes);
        Space {
            used_bytes: self.pages_used() as u64 * page,
            pool_free_bytes: (pool.pages.get() - pool.used.get()) * page,
            pool_bytes: pool.pages.get() * page,
            soft_threshold_percent: 80,
        }
    }

    fn extent(&self, at: u64) -> Extent {
        self.0.extents.set(self.0.extents.get() + 1);
        let page = self.0.page_bytes;
        let mapped = !self.0.thin || self.0.pages.borrow().contains_key(&(at / page));
        Extent { len_bytes: (page - at % page).min(self.0.len_bytes.get() - at), mapped }
    }

    async fn read(
        &self,
        _: CommandContext<'_>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        self.check(at, len as u64)?;
        let reading = &self.0.reading;
        reading.set(reading.get() + 1);
        self.0.reading_most.set(self.0.reading_most.get().max(reading.get()));
        self.wait().await;
        reading.set(reading.get() - 1);
        out.push(self.bytes(at, len).freeze());
        Ok(())
    }

    async fn write(
        &self,
        _: CommandContext<'_>,
        at: u64,
        data: &Pieces,
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.check(at, data.len() as u64)?;
        if !self.has_power() {
            self.put(at, &data.slice(0, data.len() / 2).joined())?;
            return std::future::pending().await;
        }
        let mut done = 0;
        for piece in data.iter() {
            // Yields between two pieces, so that tests see what is not atomic.
            self.wait().await;
            self.put(at + done, piece)?;
            done += piece.len() as u64;
        }
        if durability == Durability::Durable {
            self.sync(at, done).await?;
        }
        Ok(())
    }

    async fn zero(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<(), BlockError> {
        self.unmap(command, at, len).await.map(|_| ())
    }

    async fn unmap(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<u64, BlockError> {
        self.check(at, len)?;
        self.wait().await;
        self.clear(at, len)
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.wait().await;
        self.0.flushes.set(self.0.flushes.get() + 1);
        Ok(())
    }

    async fn sync(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.0.synced.set(Some((at, len)));
        self.flush().await
    }

    async fn copy_from(
        &self,
        command: CommandContext<'_>,
        source: &Self,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        source.check(from, len)?;
        let rod = source.take_rod(command, from, len).await?;
        self.copy_from_rod(command, &rod, 0, at, len).await
    }

    async fn take_rod(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<MemoryRod, BlockError> {
        self.check(at, len)?;
        let pages = self.0.pages.borrow();
        let here = self.parts(at, len).filter_map(|(p, ..)| pages.get(&p).map(|bytes| (p, bytes.clone())));
        Ok(MemoryRod { from: at, pages: here.collect(), users: Cell::default() })
    }

    fn has_rod(&self, _: &MemoryRod) -> bool {
        !self.0.rods_discarded.get()
    }

    fn keep_rod(rod: &MemoryRod, keep: bool) {
        rod.users.set(if keep { rod.users.get() + 1 } else { rod.users.get() - 1 });
    }

    async fn read_rod(
        &self,
        _: CommandContext<'_>,
        rod: &MemoryRod,
        from: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        world::yield_now().await;
        self.check_rods()?;
        let bytes = rod.bytes(from, len, self.0.page_bytes);
        out.append(Pieces::copy_of(&bytes));
        Ok(())
    }

    async fn copy_from_rod(
        &self,
        _: CommandContext<'_>,
        rod: &MemoryRod,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        self.check(at, len)?;
        self.check_rods()?;
        self.wait().await;
        let (start, page) = (rod.from + from, self.0.page_bytes);
        let mut copied = Copied::default();
        let mut done = 0;
        for (to, offset, n) in self.parts(at, len) {
            let source = start + done;
            if n as u64 == page && source.is_multiple_of(page) {
                self.adopt(to, rod.pages.get(&(source / page)).cloned());
                copied.shared_bytes += page;
            } else {
                let bytes = rod.bytes(from + done, n, page);
                self.change(to, |p| p[offset..offset + n].copy_from_slice(&bytes))?;
                copied.moved_bytes += n as u64;
            }
            done += n as u64;
        }
        Ok(copied)
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        world::yield_now().await;
        if !self.has_power() {
            // Part of a write in progress at the power failure is stored, see above; a record is not.
            return Err(BlockError::Failed { cause: "no power".into() });
        }
        self.0.records_left.set(self.0.records_left.get().map(|n| n - 1));
        self.0.records.borrow_mut().insert(name.into(), bytes.to_vec());
        Ok(())
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.0.records.borrow().get(name).cloned()
    }
}
