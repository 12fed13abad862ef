//! Copies inside the array: pages are shared if both ends are in one pool and agree modulo the page;
//! otherwise bytes are copied.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{BlockError, Device, Pieces};
use futures::future::join4;

use crate::inner::Inner;
use crate::record::Record;
use crate::rod::Rod;
use crate::rods::Keep;
use crate::span::Span;
use crate::volume::Volume;
use crate::volume_state::Provisioning;

/// Step of a byte copy. On drives that turn a step pays off where it takes longer than the way to it: 4 MiB
/// over four sets are 1 MiB of each drive, 8 ms, and a seek with half a turn takes 7 ms.
const MOVE_STEP: u64 = 4 << 20;
/// Step of page sharing: one lock, and one check of the room for pending changes.
const SHARE_STEP_PAGES: u32 = 256;

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that are now shared pages, without a data transfer.
    pub shared_bytes: u64,
    /// Bytes that were read and written, or zeroed if the source is unmapped.
    pub moved_bytes: u64,
}

/// The source of a copy.
#[derive(Clone, Copy)]
enum Source<'a> {
    Volume(&'a Volume),
    Rod(&'a Rod),
}

impl Source<'_> {
    fn pool(&self) -> &Rc<Inner> {
        match self {
            Source::Volume(volume) => &volume.pool,
            Source::Rod(rod) => &rod.pool,
        }
    }

    /// The offset of byte `from` within its page.
    fn within(&self, from: u64) -> u64 {
        match self {
            Source::Volume(volume) => from % volume.pool.page_bytes,
            Source::Rod(rod) => (rod.within + from) % rod.pool.page_bytes,
        }
    }

    /// Sharing a page of a thick volume would take away its reserved space. A clone or a ROD does so on
    /// purpose; a copy transfers.
    fn may_share(&self) -> bool {
        match self {
            Source::Volume(volume) => volume.state.provisioning == Provisioning::Thin,
            Source::Rod(_) => true,
        }
    }

    /// The index of the page with byte `from`.
    fn index(&self, from: u64) -> u32 {
        match self {
            Source::Volume(volume) => (from / volume.pool.page_bytes) as u32,
            Source::Rod(rod) => ((rod.within + from) / rod.pool.page_bytes) as u32,
        }
    }

    fn page(&self, index: u32) -> Option<u32> {
        match self {
            Source::Volume(volume) => volume.state.map.borrow().get(index),
            Source::Rod(rod) => rod.page(index),
        }
    }

    fn extent(&self, from: u64) -> (u64, bool) {
        match self {
            Source::Volume(volume) => {
                let extent = volume.extent(from);
                (extent.len_bytes, extent.mapped)
            }
            Source::Rod(rod) => rod.extent(from),
        }
    }

    async fn read(&self, from: u64, len: u64) -> Result<Pieces, BlockError> {
        let mut out = Pieces::new();
        match self {
            Source::Volume(volume) => volume.read(from, len as usize, &mut out).await?,
            Source::Rod(rod) => rod.read(from, len as usize, &mut out).await?,
        }
        Ok(out)
    }
}

impl Volume {
    /// Copies `len` bytes from `source` at `from` to `at`.
    ///
    /// # Errors
    ///
    /// The pool is full, or a group failed. The part of the range before the failure may be copied.
    pub async fn share_or_copy(
        &self,
        source: &Volume,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        self.check(at, len)?;
        source.check(from, len)?;
        let same = Rc::ptr_eq(&self.state, &source.state);
        if same && from < at + len && at < from + len {
            // Overlapping ranges: copy the source as it was before.
            let rod = source.hold_as(from, len, Keep::Always).await?;
            return self.copy(Source::Rod(&rod), 0, at, len).await;
        }
        self.copy(Source::Volume(source), from, at, len).await
    }

    /// Copies `len` bytes from offset `from` of a ROD to `at`.
    ///
    /// # Errors
    ///
    /// As [`Volume::share_or_copy`].
    pub async fn copy_from_rod(&self, rod: &Rod, from: u64, at: u64, len: u64) -> Result<Copied, BlockError> {
        self.check(at, len)?;
        block::Geometry { len_bytes: rod.len, block_bytes: 512 }.check(from, len)?;
        self.copy(Source::Rod(rod), from, at, len).await
    }

    async fn copy(&self, source: Source<'_>, from: u64, at: u64, len: u64) -> Result<Copied, BlockError> {
        let page = self.pool.page_bytes;
        let (first, last) = (at.next_multiple_of(page), (at + len) / page * page);
        let one_pool = Rc::ptr_eq(&self.pool, source.pool());
        let thin = self.state.provisioning == Provisioning::Thin;
        let sharable = one_pool && thin && source.may_share() && source.within(from) == at % page;
        if !sharable || first >= last {
            self.move_bytes(source, from, at, len).await?;
            return Ok(Copied { shared_bytes: 0, moved_bytes: len });
        }
        self.move_bytes(source, from, at, first - at).await?;
        let mut next = first;
        while next < last {
            let pages = ((last - next) / page).min(SHARE_STEP_PAGES.into()) as u32;
            self.share(source, source.index(from + (next - at)), (next / page) as u32, pages).await?;
            next += u64::from(pages) * page;
        }
        self.move_bytes(source, from + (last - at), last, at + len - last).await?;
        Ok(Copied { shared_bytes: last - first, moved_bytes: len - (last - first) })
    }

    /// Maps `count` indices from `index` on to the source's pages.
    async fn share(&self, source: Source<'_>, from: u32, index: u32, count: u32) -> Result<(), BlockError> {
        let to = Span { from: index, end: index + count };
        let origin = Span { from, end: from + count };
        let (locks, id) = (&self.state.locks, self.state.id);
        let (_one, _other) = match source {
            Source::Rod(_) => (locks.exclusive(to.into()).await, None),
            Source::Volume(volume) if volume.state.id == id => {
                (locks.exclusive_of([to.into(), origin.into()]).await, None)
            }
            Source::Volume(volume) if volume.state.id < id => {
                let first = volume.state.locks.exclusive(origin.into()).await;
                (first, Some(locks.exclusive(to.into()).await))
            }
            Source::Volume(volume) => {
                let first = locks.exclusive(to.into()).await;
                (first, Some(volume.state.locks.exclusive(origin.into()).await))
            }
        };
        self.drain(to).await;
        if let Source::Volume(volume) = source {
            volume.drain(origin).await;
            volume.alive()?;
        }
        self.alive()?;
        self.pool.room().await?;
        if self.pool.entries.get() + u64::from(count) > self.pool.entries_max {
            return Err(self.pool.no_space());
        }
        if let Source::Rod(rod) = source {
            rod.alive()?;
        }
        for i in 0..count {
            self.share_page(source.page(from + i), index + i);
        }
        Ok(())
    }

    fn share_page(&self, page: Option<u32>, index: u32) {
        let volume = self.state.id;
        match page {
            _ if page == self.state.map.borrow().get(index) => {}
            Some(page) => {
                self.pool.space.borrow_mut().refer(page);
                self.set_page(index, page);
            }
            None => {
                let old = self.state.map.borrow_mut().set(index, None).expect("it differs from no page");
                self.pool.entries.set(self.pool.entries.get() - 1);
                self.pool.log(Record::Unmap { volume, index, count: 1 });
                self.pool.drop_logged(volume, old);
            }
        }
    }

    /// Reads and writes, some steps in flight. After a failure no step begins, and those in flight end.
    async fn move_bytes(&self, source: Source<'_>, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        let (next, failed) = (Cell::new(0), RefCell::new(None));
        let mover = async || {
            while next.get() < len && failed.borrow().is_none() {
                let done = next.get();
                let (run, mapped) = source.extent(from + done);
                let n = if mapped { run.min(MOVE_STEP) } else { run }.min(len - done);
                next.set(done + n);
                let moved = match mapped {
                    true => self.move_step(source, from + done, at + done, n).await,
                    false => self.zero(at + done, n).await,
                };
                if let Err(error) = moved {
                    failed.borrow_mut().get_or_insert(error);
                }
            }
        };
        // As many as a step of a copy manager has: with three, the fourth ran alone at the end of each.
        join4(mover(), mover(), mover(), mover()).await;
        failed.into_inner().map_or(Ok(()), Err)
    }

    async fn move_step(&self, source: Source<'_>, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        let _memory = self.pool.copying.take(len).await;
        let data = source.read(from, len).await?;
        self.write(at, &data).await
    }
}
