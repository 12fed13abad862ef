//! A volume: an address space mapped to pages of the pool.

use std::rc::Rc;

use block::{BackingStore, BlockError, Device, Geometry, Pieces};
use world::{Kind, OpenSpan, Trace};

use crate::area::Content;
use crate::inner::Inner;
use crate::layout::BLOCK_BYTES;
use crate::span::Span;
use crate::volume_state::{Provisioning, State};

/// The number of a volume in its pool; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeId(pub u32);

/// Whether a range is mapped, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the given address on in the same state.
    pub len_bytes: u64,
    /// Whether they are mapped; unmapped bytes read as zeros.
    pub mapped: bool,
}

/// The space of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeSpace {
    /// Its size.
    pub len_bytes: u64,
    /// Bytes of its pages: `shared_bytes + exclusive_bytes`.
    pub used_bytes: u64,
    /// Bytes of pages with other references.
    pub shared_bytes: u64,
    /// Bytes of pages without other references: deleting the volume would free them.
    pub exclusive_bytes: u64,
}

/// A volume: a handle, cheap to clone. It keeps the pool open.
#[derive(Clone)]
pub struct Volume {
    pub(crate) pool: Rc<Inner>,
    pub(crate) state: Rc<State>,
}

impl Volume {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Its number.
    pub fn id(&self) -> VolumeId {
        VolumeId(self.state.id)
    }

    /// Whether it is thin or thick.
    pub fn provisioning(&self) -> Provisioning {
        self.state.provisioning
    }

    /// The pool that has its pages.
    pub fn pool(&self) -> crate::Pool {
        crate::Pool(self.pool.clone())
    }

    /// The granularity of allocation and release; `None` for a thick volume.
    pub fn page_bytes(&self) -> Option<u64> {
        (self.state.provisioning == Provisioning::Thin).then_some(self.pool.page_bytes)
    }

    /// Bytes of its pages, shared or not.
    pub fn used_bytes(&self) -> u64 {
        self.state.map.borrow().mapped() * self.pool.page_bytes
    }

    /// Its exclusive and shared space. Cheap: maintained with every change.
    pub fn space(&self) -> VolumeSpace {
        let (map, page) = (self.state.map.borrow(), self.pool.page_bytes);
        // A volume that is being deleted has no map, but still pages for a moment.
        let exclusive = u64::from(self.pool.space.borrow().exclusive(self.state.id)).min(map.mapped());
        VolumeSpace {
            len_bytes: self.state.len_bytes.get(),
            used_bytes: map.mapped() * page,
            shared_bytes: (map.mapped() - exclusive) * page,
            exclusive_bytes: exclusive * page,
        }
    }

    /// Whether byte `at` is mapped, and how far that state extends at least: in a large volume it may
    /// continue behind. Empty at or past the end.
    pub fn extent(&self, at: u64) -> Extent {
        let (len, page) = (self.state.len_bytes.get(), self.pool.page_bytes);
        if at >= len {
            return Extent { len_bytes: 0, mapped: false };
        }
        let (first, end) = ((at / page) as u32, len.div_ceil(page) as u32);
        let (mapped, count) = self.state.map.borrow().extent(first, end - first);
        Extent { len_bytes: (u64::from(first + count) * page).min(len) - at, mapped }
    }

    /// An error if the volume can no longer be used.
    pub(crate) fn alive(&self) -> Result<(), BlockError> {
        if self.state.deleted.get() {
            return Err(BlockError::Failed {
                cause: format!("volume {} was deleted", self.state.name).into(),
            });
        }
        self.pool.alive()
    }

    /// Bounds errors come from hosts; a wrong alignment is the caller's bug.
    pub(crate) fn check(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.alive()?;
        self.pool.count(|c| c.operations += 1);
        self.geometry().check(at, len)?;
        let block = u64::from(BLOCK_BYTES);
        assert!(
            at.is_multiple_of(block) && len.is_multiple_of(block),
            "volume {}: {len} bytes at {at} are not whole blocks of {block}",
            self.state.name
        );
        Ok(())
    }

    /// Waits until no write in place to these single indices is in flight, like [`Volume::drain`].
    pub(crate) async fn drain_pages(&self, indices: &[u32]) {
        let quiet = || {
            let (map, space) = (self.state.map.borrow(), self.pool.space.borrow());
            indices.iter().all(|i| map.get(*i).is_none_or(|page| space.writers(page) == 0))
        };
        self.state.drained.wait_for(|| quiet().then_some(())).await;
    }

    /// Waits until no write in place to these indices is in flight. The caller has locked them, so none
    /// begins.
    pub(crate) async fn drain(&self, span: Span) {
        let quiet = || {
            if self.state.writers.get() == 0 {
                return true;
            }
            let (map, space) = (self.state.map.borrow(), self.pool.space.borrow());
            let mut index = span.from;
            while let Some(i) = map.next_mapped(index, span.end) {
                if map.get(i).is_some_and(|page| space.writers(page) > 0) {
                    return false;
                }
                index = i + 1;
            }
            true
        };
        self.state.drained.wait_for(|| quiet().then_some(())).await;
    }
}

impl Device for Volume {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.state.len_bytes.get(), block_bytes: BLOCK_BYTES }
    }

    fn read(&self, at: u64, len: usize, out: &mut Pieces) -> impl Future<Output = Result<(), BlockError>> {
        self.read_traced(None, at, len, out)
    }

    fn write(&self, at: u64, data: &Pieces) -> impl Future<Output = Result<(), BlockError>> {
        self.write_traced(None, at, data)
    }

    async fn read_traced(
        &self,
        trace: Option<&Trace>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        self.check(at, len as u64)?;
        let span = OpenSpan::begin(trace, "pool", &self.pool.name);
        let (pool, began) = (&self.pool, self.pool.stage.begin(|| self.pool.world.now()));
        let result = self.read_runs(span.trace(), at, len as u64, out).await;
        pool.stage.end(began, || pool.world.now(), Kind::Read);
        result
    }

    async fn write_traced(&self, trace: Option<&Trace>, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.check(at, data.len() as u64)?;
        let span = OpenSpan::begin(trace, "pool", &self.pool.name);
        let (pool, began) = (&self.pool, self.pool.stage.begin(|| self.pool.world.now()));
        let result = self.overwrite(span.trace(), at, Content::Data(data)).await;
        pool.stage.end(began, || pool.world.now(), Kind::Write);
        pool.note_write(&result);
        result
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.unmap(at, len).await.map(drop)
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.alive()?;
        self.pool.flush().await
    }
}

impl BackingStore for Volume {
    /// Whether all pages of the range are mapped and exclusive.
    fn takes_in_place(&self, at: u64, len: u64) -> bool {
        let page = self.pool.page_bytes;
        let (first, end) = ((at / page) as u32, (at + len).div_ceil(page) as u32);
        let (map, space) = (self.state.map.borrow(), self.pool.space.borrow());
        (first..end).all(|index| map.get(index).is_some_and(|page| space.refs(page) == 1))
    }

    fn row_bytes(&self) -> u64 {
        let areas = self.pool.areas();
        areas.iter().map(|area| area.group.row_bytes()).max().unwrap_or(u64::from(BLOCK_BYTES))
    }

    fn row_drives(&self) -> u32 {
        let areas = self.pool.areas();
        let longest = areas.iter().max_by_key(|area| area.group.row_bytes());
        longest.map_or(1, |area| area.group.row_drives())
    }
}
