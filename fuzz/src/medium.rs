//! A disk in memory: pages that are there or not, RODs as copies. It checks that its caller keeps to whole
//! blocks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockError, Geometry, Pieces};
use lu::{Capabilities, CommandContext, Copied, Durability, Extent, LogicalDisk, Space};
use world::Data;

/// The unit in which space is taken and given back.
const PAGE: u64 = 4096;

struct Store {
    len_bytes: u64,
    block_bytes: u32,
    is_thin: bool,
    pages: RefCell<BTreeMap<u64, [u8; PAGE as usize]>>,
    records: RefCell<BTreeMap<String, Vec<u8>>>,
    changes: Cell<u64>,
}

/// A handle of a medium.
#[derive(Clone)]
pub(crate) struct Memory(Rc<Store>);

impl Memory {
    pub(crate) fn new(len_bytes: u64, block_bytes: u32, is_thin: bool) -> Memory {
        let (pages, records, changes) = Default::default();
        Memory(Rc::new(Store { len_bytes, block_bytes, is_thin, pages, records, changes }))
    }

    /// How often its blocks were changed.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.get()
    }

    fn check(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let block = u64::from(self.0.block_bytes);
        assert!(at % block == 0 && len % block == 0, "{at}+{len} is not whole blocks");
        self.geometry().check(at, len)
    }

    fn bytes(&self, at: u64, len: u64) -> Vec<u8> {
        let pages = self.0.pages.borrow();
        let mut out = vec![0; len as usize];
        let mut done = 0;
        while done < len {
            let (page, from) = ((at + done) / PAGE, (at + done) % PAGE);
            let n = (PAGE - from).min(len - done);
            if let Some(bytes) = pages.get(&page) {
                out[done as usize..(done + n) as usize]
                    .copy_from_slice(&bytes[from as usize..(from + n) as usize]);
            }
            done += n;
        }
        out
    }

    fn set(&self, at: u64, bytes: &[u8]) {
        self.0.changes.set(self.0.changes.get() + 1);
        let mut pages = self.0.pages.borrow_mut();
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let from = (at % PAGE) as usize;
            let (now, after) = rest.split_at(rest.len().min(PAGE as usize - from));
            pages.entry(at / PAGE).or_insert([0; PAGE as usize])[from..from + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            rest = after;
        }
    }

    /// Clears a range; whole pages go. Returns how many bytes of them were there.
    fn clear(&self, at: u64, len: u64) -> u64 {
        let (first, end) = (at.div_ceil(PAGE) * PAGE, (at + len) / PAGE * PAGE);
        if first >= end {
            self.set(at, &vec![0; len as usize]);
            return 0;
        }
        self.set(at, &vec![0; (first - at) as usize]);
        self.set(end, &vec![0; (at + len - end) as usize]);
        let mut pages = self.0.pages.borrow_mut();
        let before = pages.len();
        pages.retain(|page, _| !(first / PAGE..end / PAGE).contains(page));
        (before - pages.len()) as u64 * PAGE
    }
}

impl LogicalDisk for Memory {
    type Rod = Vec<u8>;

    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.0.len_bytes, block_bytes: self.0.block_bytes }
    }

    fn capabilities(&self) -> Capabilities {
        let page_bytes = self.0.is_thin.then_some(PAGE);
        Capabilities { page_bytes, volatile_cache: true, keeps_records: true, offloads: true }
    }

    fn space(&self) -> Space {
        let used_bytes = self.0.pages.borrow().len() as u64 * PAGE;
        let pool_bytes = 2 * self.0.len_bytes;
        Space { used_bytes, pool_free_bytes: pool_bytes - used_bytes, pool_bytes, soft_threshold_percent: 80 }
    }

    fn extent(&self, at: u64) -> Extent {
        let pages = self.0.pages.borrow();
        let mapped = !self.0.is_thin || pages.contains_key(&(at / PAGE));
        let last = self.0.len_bytes.div_ceil(PAGE);
        let differs = |page: &u64| (!self.0.is_thin || pages.contains_key(page)) != mapped;
        let end = (at / PAGE..last).find(differs).map_or(self.0.len_bytes, |page| page * PAGE);
        Extent { len_bytes: end - at, mapped }
    }

    async fn read(
        &self,
        _: CommandContext<'_>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        self.check(at, len as u64)?;
        if len > 0 {
            out.push(Data::copy_of(&self.bytes(at, len as u64)));
        }
        Ok(())
    }

    async fn write(
        &self,
        _: CommandContext<'_>,
        at: u64,
        data: &Pieces,
        _: Durability,
    ) -> Result<(), BlockError> {
        self.check(at, data.len() as u64)?;
        let mut at = at;
        for piece in data.iter() {
            self.set(at, piece);
            at += piece.len() as u64;
        }
        Ok(())
    }

    async fn zero(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<(), BlockError> {
        self.check(at, len)?;
        self.clear(at, len);
        Ok(())
    }

    async fn unmap(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<u64, BlockError> {
        self.check(at, len)?;
        Ok(self.clear(at, len))
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Ok(())
    }

    async fn sync(&self, _: u64, _: u64) -> Result<(), BlockError> {
        Ok(())
    }

    async fn copy_from(
        &self,
        _: CommandContext<'_>,
        source: &Memory,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        source.check(from, len)?;
        self.check(at, len)?;
        self.set(at, &source.bytes(from, len));
        Ok(Copied { shared_bytes: 0, moved_bytes: len })
    }

    async fn take_rod(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<Vec<u8>, BlockError> {
        self.check(at, len)?;
        Ok(self.bytes(at, len))
    }

    fn has_rod(&self, _: &Self::Rod) -> bool {
        true
    }

    fn keep_rod(_: &Self::Rod, _: bool) {}

    async fn read_rod(
        &self,
        _: CommandContext<'_>,
        rod: &Vec<u8>,
        from: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        out.append(Pieces::copy_of(&rod[from as usize..from as usize + len]));
        Ok(())
    }

    async fn copy_from_rod(
        &self,
        _: CommandContext<'_>,
        rod: &Vec<u8>,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        self.check(at, len)?;
        self.set(at, &rod[from as usize..(from + len) as usize]);
        Ok(Copied { shared_bytes: len, moved_bytes: 0 })
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        assert!(bytes.len() <= 64 << 10, "a record of {} bytes", bytes.len());
        self.0.records.borrow_mut().insert(name.into(), bytes.into());
        Ok(())
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.0.records.borrow().get(name).cloned()
    }
}
