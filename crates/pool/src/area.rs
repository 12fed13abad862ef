//! A group as the pool uses it: the location of its pages, and whether it must be flushed.

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockError, Buf, Device, Pieces};
use raid::Group;
use world::Trace;

use crate::layout::{METADATA_BLOCK, SLOTS_AT};
use crate::table::GroupEntry;

/// All groups of a pool, in table order. A change replaces the whole list; operations in progress keep
/// theirs.
pub(crate) type Areas = Rc<Vec<Rc<Area>>>;

/// The content of a write.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    Data(&'a Pieces),
    Zeros(u64),
}

impl Content<'_> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Content::Data(data) => data.len() as u64,
            Content::Zeros(len) => *len,
        }
    }
}

/// A group's share of the pool.
pub(crate) struct Area {
    pub(crate) group: Group,
    /// The entry when the area was created; the superblock's table has what may change later.
    entry: GroupEntry,
    pub(crate) block_bytes: u64,
    /// Something was written since the last flush began, possibly by an earlier process.
    dirty: Cell<bool>,
    /// Flushes in flight: the writes that they cover are not durable yet.
    flushing: Cell<u32>,
}

impl Area {
    pub(crate) fn new(group: Group, entry: GroupEntry) -> Area {
        let block_bytes = group.geometry().block_bytes.into();
        Area { group, entry, block_bytes, dirty: Cell::new(true), flushing: Cell::new(0) }
    }

    pub(crate) fn first_page(&self) -> u32 {
        self.entry.first_page
    }

    /// The page after the last one.
    pub(crate) fn end_page(&self) -> u32 {
        self.entry.end_page()
    }

    /// The address of a page of this area.
    pub(crate) fn at(&self, page: u32) -> u64 {
        self.entry.pages_at + u64::from(page - self.entry.first_page) * self.entry.stride
    }

    /// How many of `count` pages from `page` on are contiguous on this group.
    pub(crate) fn in_one_piece(&self, page: u32, count: u32, page_bytes: u64) -> u32 {
        if self.entry.stride != page_bytes { 1 } else { count.min(self.end_page() - page) }
    }

    pub(crate) async fn write(
        &self,
        trace: Option<&Trace>,
        at: u64,
        data: &Pieces,
    ) -> Result<(), BlockError> {
        let outcome = self.group.write_traced(trace, at, data).await;
        self.dirty.set(true);
        outcome
    }

    /// Writes `n` bytes of `content` from `skip` on.
    pub(crate) async fn put(
        &self,
        trace: Option<&Trace>,
        at: u64,
        content: &Content<'_>,
        skip: u64,
        n: u64,
    ) -> Result<(), BlockError> {
        match content {
            Content::Zeros(_) => self.zero(at, n).await,
            Content::Data(data) if n == data.len() as u64 => self.write(trace, at, data).await,
            Content::Data(data) => self.write(trace, at, &data.slice(skip as usize, n as usize)).await,
        }
    }

    pub(crate) async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let outcome = self.group.zero(at, len).await;
        self.dirty.set(true);
        outcome
    }

    /// Flushes, unless everything is durable already.
    pub(crate) async fn flush(&self) -> Result<(), BlockError> {
        if !self.dirty.get() && self.flushing.get() == 0 {
            return Ok(());
        }
        self.dirty.set(false);
        self.flushing.set(self.flushing.get() + 1);
        let outcome = self.group.flush().await;
        self.flushing.set(self.flushing.get() - 1);
        if outcome.is_err() {
            self.dirty.set(true);
        }
        outcome
    }

    /// Whether a flush is in flight.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing.get() > 0
    }

    /// Marks a group that a pool is about to take, and zeroes all its pages if that is cheap. Slot 1 is empty
    /// before slot 0 is written, and is written only after it.
    pub(crate) async fn prepare(&self, mark: &Pieces, clean: bool) -> Result<(), BlockError> {
        self.group.write(SLOTS_AT[1], &empty_slot()).await?;
        if clean {
            let pages = u64::from(self.entry.pages);
            self.group.zero(self.entry.pages_at, pages * self.entry.stride).await?;
        }
        self.group.flush().await?;
        self.group.write(SLOTS_AT[0], mark).await?;
        self.group.flush().await
    }
}

/// Erases both slots, slot 1 first, as in creation: a torn write leaves no superblock or a valid one.
pub(crate) async fn erase_slots(group: &Group) -> Result<(), BlockError> {
    for at in [SLOTS_AT[1], SLOTS_AT[0]] {
        group.write(at, &empty_slot()).await?;
        group.flush().await?;
    }
    Ok(())
}

fn empty_slot() -> Pieces {
    Buf::zeroed(METADATA_BLOCK as usize).freeze().into()
}
