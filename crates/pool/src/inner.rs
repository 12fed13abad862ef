//! The state of a pool, shared by all its handles.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockError, Buf, Cause, Data};
use world::sync::{Permits, Signal};
use world::{Instant, Stage, World};

use crate::area::{Area, Areas};
use crate::catalog::{Catalog, Cataloged, Size};
use crate::commit::{Commit, Journal};
use crate::events::{Events, Thresholds};
use crate::layout::Layout;
use crate::placed::Placement;
use crate::record::{Pending, Record};
use crate::rods::RodList;
use crate::space::{Allocated, Space};
use crate::structure::Structure;
use crate::superblock::Superblock;
use crate::totals::Totals;
use crate::volume_state::{Provisioning, State};
use crate::{PoolCounts, PoolId};

/// Bytes that the copies to a pool hold in memory, between their reads and their writes.
const COPYING_BYTES_MAX: u64 = 64 << 20;
/// The block of zeros for reads of unmapped ranges.
const ZEROS_LEN: usize = 1 << 20;

pub(crate) struct Inner {
    pub(crate) world: World,
    pub(crate) id: PoolId,
    pub(crate) name: String,
    pub(crate) page_bytes: u64,
    /// In table order.
    areas: RefCell<Areas>,
    pub(crate) layout: Layout,
    /// The superblock of group 0 as last written.
    pub(crate) superblock: RefCell<Superblock>,
    pub(crate) structure: Structure,
    /// Memory for copies, in bytes.
    pub(crate) copying: Permits,
    pub(crate) placement: Placement,
    pub(crate) entries_max: u64,
    pub(crate) records_max: u64,
    pub(crate) volumes_max: usize,
    pub(crate) space: RefCell<Space>,
    /// Wakes when a lingering page became free.
    pub(crate) freed: Signal,
    pub(crate) volumes: RefCell<BTreeMap<u32, Rc<State>>>,
    pub(crate) rods: RodList,
    pub(crate) next_volume: Cell<u32>,
    /// How often what takes pages for long was interrupted.
    pub(crate) interrupts: Cell<u64>,
    /// Map entries of all volumes.
    pub(crate) entries: Cell<u64>,
    pub(crate) records: RefCell<BTreeMap<String, Rc<[u8]>>>,
    /// Totals of the volumes and records.
    pub(crate) totals: Totals,
    pub(crate) thresholds: Cell<Thresholds>,
    pub(crate) events: Events,
    pub(crate) commit: Rc<Commit>,
    pub(crate) journal: Journal,
    pub(crate) pending: RefCell<Pending>,
    pub(crate) counts: Cell<PoolCounts>,
    pub(crate) zeros: Data,
    poisoned: Cell<bool>,
    /// Why metadata cannot be written at the moment.
    pub(crate) stalled: RefCell<Option<BlockError>>,
    /// When a write last found no room below a drive, and how that is told.
    pub(crate) no_room: RefCell<Option<(Instant, BlockError)>>,
    /// The last write that a drive refused, and no redundancy took.
    pub(crate) refused: RefCell<Option<(Instant, BlockError)>>,
    cause: RefCell<Option<Cause>>,
    /// Latencies of reads and writes of its volumes.
    pub(crate) stage: Stage,
}

impl Inner {
    /// A pool with the state of `catalog`, and an empty journal of the superblock's generation.
    pub(crate) fn new(
        world: World,
        superblock: Superblock,
        areas: Areas,
        catalog: Catalog,
        clean: bool,
    ) -> Result<Rc<Inner>, BlockError> {
        let mut space = Space::default();
        for entry in &superblock.table.groups {
            space.add(entry.first_page, entry.end_page(), clean, entry.evacuating);
        }
        let entries = catalog.volumes.values().map(|v| v.map.mapped()).sum();
        for (id, volume) in &catalog.volumes {
            space.load(*id, volume.map.pages(0..volume.map.leaves())).map_err(|page| {
                let place = format!("the map of volume {} of pool {}", volume.name, superblock.name);
                let cause = format!("page {page} is on no group");
                BlockError::Corrupt { place, cause }
            })?;
        }
        space.count_owners();
        let volumes = catalog.volumes.into_iter().map(|(id, v)| {
            let provisioning = if v.thick { Provisioning::Thick } else { Provisioning::Thin };
            (id, Rc::new(State::new(id, v.name, v.len_bytes, provisioning, v.map)))
        });
        let volumes = volumes.collect();
        let totals = Totals::of(superblock.page_bytes, &volumes, &catalog.records);
        Ok(Rc::new(Inner {
            world,
            id: superblock.pool_id,
            name: superblock.name.clone(),
            page_bytes: superblock.page_bytes,
            areas: RefCell::new(areas),
            layout: superblock.layout,
            entries_max: superblock.layout.entries_max(),
            records_max: superblock.layout.records_max(),
            volumes_max: superblock.layout.volumes_max(),
            journal: Journal::new(superblock.generation, superblock.sequence),
            superblock: RefCell::new(superblock),
            structure: Structure::default(),
            copying: Permits::new(COPYING_BYTES_MAX),
            placement: Placement::default(),
            space: RefCell::new(space),
            freed: Signal::default(),
            volumes: RefCell::new(volumes),
            totals,
            rods: RodList::default(),
            next_volume: Cell::new(catalog.next_volume),
            interrupts: Cell::default(),
            entries: Cell::new(entries),
            records: RefCell::new(catalog.records),
            thresholds: Cell::new(catalog.thresholds),
            events: Events::default(),
            commit: Rc::default(),
            pending: RefCell::default(),
            counts: Cell::default(),
            zeros: Buf::zeroed(ZEROS_LEN).freeze(),
            stage: Stage::default(),
            poisoned: Cell::new(false),
            stalled: RefCell::default(),
            no_room: RefCell::default(),
            refused: RefCell::default(),
            cause: RefCell::default(),
        }))
    }

    /// A snapshot of the state; leaves of maps are shared, not copied.
    pub(crate) fn catalog(&self) -> Catalog {
        let volumes = self.volumes.borrow();
        let catalogued = volumes.iter().map(|(id, v)| {
            let thick = v.provisioning == Provisioning::Thick;
            let (name, len_bytes, unfinished) = (v.name.clone(), v.len_bytes.get(), v.unfinished.get());
            (*id, Cataloged { name, len_bytes, thick, unfinished, map: v.map.borrow().clone() })
        });
        Catalog {
            volumes: catalogued.collect(),
            records: self.records.borrow().clone(),
            next_volume: self.next_volume.get(),
            thresholds: self.thresholds.get(),
            pages: self.superblock.borrow().table.next_page,
            entries_max: self.entries_max,
            size: Size::default(),
        }
    }

    /// An error after a failed metadata write.
    pub(crate) fn alive(&self) -> Result<(), BlockError> {
        match self.poisoned.get() {
            false => Ok(()),
            true => Err(BlockError::Poisoned {
                component: format!("pool {}", self.name),
                cause: self.cause.borrow().clone().unwrap_or_else(|| "its cause is not known".into()),
            }),
        }
    }

    /// An error while metadata cannot be written, temporarily or permanently.
    pub(crate) fn goes_on(&self) -> Result<(), BlockError> {
        self.alive()?;
        self.stalled.borrow().clone().map_or(Ok(()), Err)
    }

    /// Notes that the storage below a drive had no room for a write, or that a drive refused it.
    pub(crate) fn note_write(&self, outcome: &Result<(), BlockError>) {
        let Err(error) = outcome else { return };
        let noted = match error {
            BlockError::NoRoom { .. } => &self.no_room,
            BlockError::Unreadable { .. } | BlockError::Failed { .. } => &self.refused,
            _ => return,
        };
        *noted.borrow_mut() = Some((self.world.now(), error.clone()));
    }

    /// Poisons the pool: nothing is accepted any more, because it is unknown what is durable.
    pub(crate) fn poison(&self, error: &BlockError) {
        if !self.poisoned.replace(true) {
            *self.cause.borrow_mut() = Some(error.into());
        }
        self.commit.wake_everybody();
        self.freed.wake_all();
    }

    /// All areas.
    pub(crate) fn areas(&self) -> Areas {
        self.areas.borrow().clone()
    }

    /// Replaces the areas.
    pub(crate) fn set_areas(&self, areas: Areas) {
        *self.areas.borrow_mut() = areas;
    }

    /// The area of a page, and its address on the group.
    pub(crate) fn locate(&self, page: u32) -> (Rc<Area>, u64) {
        let areas = self.areas.borrow();
        let area = &areas[areas.partition_point(|a| a.end_page() <= page)];
        (area.clone(), area.at(page))
    }

    /// Allocates a free page. If there is none, commits so that released pages become free.
    pub(crate) async fn allocate(&self) -> Result<Allocated, BlockError> {
        loop {
            self.alive()?;
            if self.entries.get() >= self.entries_max {
                return Err(self.no_space());
            }
            if let Some(allocated) = self.space.borrow_mut().allocate() {
                break Ok(allocated);
            }
            let (releasing, lingering) = {
                let space = self.space.borrow();
                (space.is_releasing(), space.is_lingering())
            };
            if releasing || self.commit.is_running() {
                self.commit().await?;
            } else if lingering {
                let ready = || self.space.borrow().free_now() > 0 || !self.space.borrow().is_lingering();
                self.freed.wait_for(|| (ready() || self.alive().is_err()).then_some(())).await;
            } else if !self.discard_rod() {
                self.events.full();
                return Err(self.no_space());
            }
        }
        .inspect(|_| self.watch())
    }

    /// Discards the oldest ROD that may be, so that its pages are free. False if there is none.
    pub(crate) fn discard_rod(&self) -> bool {
        let Some(pages) = self.rods.discard_oldest() else { return false };
        pages.into_iter().for_each(|page| self.let_go(page));
        true
    }

    /// Drops the reference of a ROD.
    pub(crate) fn let_go(&self, page: u32) {
        self.space.borrow_mut().let_go(page);
        self.drop_unlogged(page);
    }

    pub(crate) fn no_space(&self) -> BlockError {
        BlockError::NoSpace { pool: self.name.clone() }
    }

    /// Checks the thresholds.
    pub(crate) fn watch(&self) {
        let space = self.space.borrow();
        let (used, total) = (space.used(), space.total());
        let bytes = |pages| u64::from(pages) * self.page_bytes;
        self.events.watch(bytes(used), bytes(total), self.thresholds.get());
    }

    /// Drops the reference of a map entry of this volume, as the pending records say. Returns whether it was
    /// the last one.
    pub(crate) fn drop_logged(&self, volume: u32, page: u32) -> bool {
        let settles_at = self.commit.next();
        let mut space = self.space.borrow_mut();
        space.disown(page, volume);
        let last = space.drop_reference(page, Some(settles_at));
        drop(space);
        if last {
            self.watch();
        }
        last
    }

    /// Drops a reference that was never in the durable map.
    pub(crate) fn drop_unlogged(&self, page: u32) {
        let mut space = self.space.borrow_mut();
        if space.drop_reference(page, None) && self.pending.borrow().len() == 0 && !self.commit.is_running() {
            // No commit is pending, so everything that is being released can be freed at once.
            let released = space.take_releasing();
            space.released(&released);
        }
        drop(space);
        self.freed.wake_all();
        self.watch();
    }

    /// Logs a change that was just made in memory. There must be no await between the two.
    pub(crate) fn log(self: &Rc<Self>, record: Record) {
        self.pending.borrow_mut().push(record);
        let pending = self.pending.borrow().len();
        if pending >= self.layout.pending_soft() {
            self.commit.ask_for(self.commit.next());
        }
        self.commit_before_long();
    }

    /// Yields, and lets completed I/O be processed: a plain yield may be polled hundreds of times before the
    /// world checks for completions.
    pub(crate) async fn give_way(&self) {
        self.world.sleep(Duration::from_micros(1)).await;
    }

    /// Updates the counters.
    pub(crate) fn count(&self, add: impl FnOnce(&mut PoolCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }

    /// Waits until no read of a page is in flight that may have come by a reference that is gone.
    pub(crate) async fn reads_elsewhere_ended(&self, page: u32) {
        let ended = || !self.space.borrow().is_read_elsewhere(page) || self.alive().is_err();
        self.freed.wait_for(|| ended().then_some(())).await;
    }

    /// A read of pages in flight.
    pub(crate) fn begin_reading(&self, page: u32, count: u32) -> Reading<'_> {
        self.space.borrow_mut().begin_read(page, count);
        Reading { inner: self, page, count }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.commit.close();
    }
}

/// Prevents pages from being allocated again while they are read.
pub(crate) struct Reading<'a> {
    inner: &'a Inner,
    page: u32,
    count: u32,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if self.inner.space.borrow_mut().end_read(self.page, self.count) {
            self.inner.freed.wake_all();
        }
    }
}
