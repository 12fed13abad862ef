//! Moves pages from one group to another while the pool is used.
//!
//! ```text
//!   batch: pages of the group with references ──> one scan of all maps: who refers to them
//!   step:  new pages ── all entries locked ── writers drained ── copied ── the entries changed, together ── unlocked
//!                                                                             └─ the next commit frees the old pages
//! ```
//!
//! The scan yields, so its result is a hint. With the entries locked, the references are counted again: a
//! page is moved only if all its references are known, so that shared pages stay shared. A page can still get
//! a reference from a ROD; therefore it is counted once more after the copy, and until then one additional
//! reference prevents writes in place. All entries of a page go into one commit, unless there are more than a
//! frame holds: then for a moment some refer to the new page and some to the old one, which hold the same.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;

use block::{BlockError, Pieces};
use futures::future::join_all;
use world::yield_now;

use crate::inner::Inner;
use crate::map::LEAF_LEN;
use crate::placement::Class;
use crate::space::Allocated;
use crate::span::Span;
use crate::volume::Volume;
use crate::volume_state::State;

/// Pages looked up in one scan of the maps. With their references they take less than 2 MiB.
const BATCH_PAGES: usize = 4096;
pub(crate) const BATCH_REFS_MAX: u64 = 64 << 10;
/// Pages moved with one set of locks: enough to keep the drives busy, and few enough that a waiting write is
/// delayed only by milliseconds.
const STEP_PAGES: usize = 4;
/// Unit of the copy, for each page of a step.
const COPY_STEP: u64 = 1 << 20;
/// Leaves of a map between two yields of a scan.
const SCAN_LEAVES: usize = 16;
/// Entries changed between two checks of the room for pending changes. A frame has 16 KiB to spare beside the
/// largest record.
const ENTRIES_MAX: usize = 900;
const _: () = assert!(ENTRIES_MAX * 17 <= 16 << 10);

/// The result of moving pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Bytes of moved pages.
    pub bytes: u64,
    /// Whether nothing is left to move; otherwise the work was stopped.
    pub complete: bool,
}

/// The destination of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    /// Like new pages.
    Anywhere,
    /// To the group that begins with this page.
    Group(u32),
    /// To any group of this class.
    Class(Class),
}

/// The result of a batch.
#[derive(Default)]
pub(crate) struct Batch {
    /// Moved pages; the others were in use, or failed.
    pub(crate) moved: u64,
    /// Where the next batch begins.
    pub(crate) next: u32,
    /// The destination had no free page.
    pub(crate) no_page: bool,
    /// The caller stopped the work.
    pub(crate) stopped: bool,
    /// Why a page could not be read or written: it stays, and others continue.
    pub(crate) failure: Option<BlockError>,
}

/// A page and the map entries that refer to it: volume and index.
struct Candidate {
    page: u32,
    entries: Vec<(u32, u32)>,
}

/// Records the candidates in these leaves of a volume's map.
fn note_leaves(found: &mut [Candidate], volume: &State, leaves: Range<usize>) {
    let map = volume.map.borrow();
    for leaf in leaves {
        for (start, count, page) in map.runs(leaf) {
            let index = leaf as u32 * LEAF_LEN as u32 + u32::from(start);
            note(found, volume.id, index, page..page + u32::from(count));
        }
    }
}

/// Records the candidates among contiguous pages, the first of which has this index.
fn note(found: &mut [Candidate], volume: u32, index: u32, pages: Range<u32>) {
    let first = found.partition_point(|c| c.page < pages.start);
    for candidate in found[first..].iter_mut().take_while(|c| c.page < pages.end) {
        candidate.entries.push((volume, index + (candidate.page - pages.start)));
    }
}

impl Inner {
    /// Moves at most `max` pages from `from` on, of the group that has `from`.
    pub(crate) async fn relocate(
        self: &Rc<Self>,
        from: u32,
        max: usize,
        to: Destination,
        pace: &mut impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Batch, BlockError> {
        let pages = self.space.borrow().used_from(from, max.min(BATCH_PAGES), BATCH_REFS_MAX);
        let next = pages.last().map_or(from, |p| p + 1);
        Ok(Batch { next, ..self.relocate_pages(pages, to, pace).await? })
    }

    /// Moves these pages, which are sorted and at most [`BATCH_PAGES`].
    pub(crate) async fn relocate_pages(
        self: &Rc<Self>,
        pages: Vec<u32>,
        to: Destination,
        pace: &mut impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Batch, BlockError> {
        debug_assert!(pages.is_sorted(), "maps are compared with them in order");
        let mut batch = Batch::default();
        let mut candidates = self.look_up(pages).await;
        while !candidates.is_empty() && !batch.no_page && !batch.stopped {
            self.alive()?;
            let rest = candidates.split_off(candidates.len().min(STEP_PAGES));
            let step = std::mem::replace(&mut candidates, rest);
            let mut pairs = Vec::new();
            for candidate in step {
                match self.page_at(to) {
                    Some(new) => pairs.push((candidate, new)),
                    None => batch.no_page = true,
                }
            }
            let before = batch.moved;
            self.move_pages(pairs, &mut batch).await;
            batch.stopped = pace((batch.moved - before) * self.page_bytes).await.is_break();
            yield_now().await;
        }
        Ok(batch)
    }

    fn page_at(&self, to: Destination) -> Option<Allocated> {
        let mut space = self.space.borrow_mut();
        match to {
            Destination::Anywhere => space.allocate(),
            Destination::Group(first) => space.allocate_on(first),
            Destination::Class(class) => space.allocate_in(class),
        }
    }

    /// Finds the entries that refer to these sorted pages.
    async fn look_up(&self, pages: Vec<u32>) -> Vec<Candidate> {
        let mut found: Vec<Candidate> =
            pages.into_iter().map(|page| Candidate { page, entries: Vec::new() }).collect();
        let volumes: Vec<Rc<State>> = self.volumes.borrow().values().cloned().collect();
        for volume in volumes {
            let mut leaf = 0;
            while leaf < volume.map.borrow().leaves() {
                note_leaves(&mut found, &volume, leaf..leaf + SCAN_LEAVES);
                leaf += SCAN_LEAVES;
                yield_now().await;
            }
        }
        found
    }

    /// Moves pages, each to a page allocated for it.
    async fn move_pages(self: &Rc<Self>, pairs: Vec<(Candidate, Allocated)>, batch: &mut Batch) {
        let mut wanted: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (volume, index) in pairs.iter().flat_map(|(c, _)| &c.entries) {
            wanted.entry(*volume).or_default().push(*index);
        }
        let mut volumes = Vec::new();
        for (id, mut indices) in wanted {
            let Some(state) = self.volumes.borrow().get(&id).cloned() else { continue };
            indices.sort_unstable();
            indices.dedup();
            volumes.push((Volume { pool: self.clone(), state }, indices));
        }
        let mut locks = Vec::new();
        for (volume, indices) in &volumes {
            let entries = indices.iter().map(|index| Span::one(*index).into());
            locks.push(volume.state.locks.exclusive_of(entries).await);
            volume.drain_pages(indices).await;
        }
        let moves = pairs.iter().map(|(candidate, new)| self.move_locked(candidate, new.page));
        for outcome in join_all(moves).await {
            match outcome {
                Ok(moved) => batch.moved += u64::from(moved),
                Err(error) => batch.failure = Some(error),
            }
        }
        // Drop the references that protected the new pages.
        pairs.iter().for_each(|(_, new)| self.drop_unlogged(new.page));
    }

    /// Moves a page. All its entries are locked, and no write to it is in flight. Returns whether it was
    /// unchanged.
    async fn move_locked(self: &Rc<Self>, candidate: &Candidate, new: u32) -> Result<bool, BlockError> {
        if !self.is_complete(candidate, 0) {
            return Ok(false);
        }
        self.space.borrow_mut().refer(candidate.page);
        let outcome = match self.copy_page(candidate.page, new).await {
            Ok(()) => self.exchange(candidate, new).await,
            Err(error) => Err(error),
        };
        if matches!(outcome, Ok(true)) {
            self.space.borrow_mut().carry_heat(candidate.page, new);
        }
        self.drop_unlogged(candidate.page);
        outcome
    }

    /// Whether the known entries, RODs and `more` are all references to the page.
    fn is_complete(&self, candidate: &Candidate, more: u32) -> bool {
        if !self.space.borrow().has(candidate.page) {
            // It became free, and its group left the pool.
            return false;
        }
        let refs = self.space.borrow().refs(candidate.page);
        match self.unexplained(candidate, more) {
            0 => refs > more,
            rods => rods > 0 && self.rods.count(candidate.page) == rods as u32,
        }
    }

    /// The references to the page: the known entries that still exist, RODs, and `more`.
    fn unexplained(&self, candidate: &Candidate, more: u32) -> i64 {
        let volumes = self.volumes.borrow();
        let refers = |(volume, index): &&(u32, u32)| {
            volumes.get(volume).is_some_and(|v| v.map.borrow().get(*index) == Some(candidate.page))
        };
        let entries = candidate.entries.iter().filter(refers).count() as i64;
        i64::from(self.space.borrow().refs(candidate.page)) - entries - i64::from(more)
    }

    async fn copy_page(&self, from: u32, to: u32) -> Result<(), BlockError> {
        let (area, base) = self.locate(to);
        let mut at = 0;
        while at < self.page_bytes {
            let n = (self.page_bytes - at).min(COPY_STEP);
            let mut data = Pieces::new();
            self.read_pages(None, from, at, n, &mut data).await?;
            area.write(None, base + at, &data).await?;
            at += n;
        }
        Ok(())
    }

    /// Changes all references from the candidate to its copy. Returns whether these were all.
    async fn exchange(self: &Rc<Self>, candidate: &Candidate, new: u32) -> Result<bool, BlockError> {
        let mut parts = candidate.entries.chunks(ENTRIES_MAX);
        self.room().await?;
        if !self.is_complete(candidate, 1) {
            return Ok(false);
        }
        let rods =
            if self.unexplained(candidate, 1) > 0 { self.rods.replace(candidate.page, new) } else { 0 };
        for _ in 0..rods {
            self.space.borrow_mut().hold(new);
            self.let_go(candidate.page);
        }
        let mut part = parts.next();
        while let Some(entries) = part {
            for (volume, index) in entries {
                let state = self.volumes.borrow().get(volume).cloned();
                let Some(state) = state.filter(|s| s.map.borrow().get(*index) == Some(candidate.page)) else {
                    continue;
                };
                self.space.borrow_mut().refer(new);
                Volume { pool: self.clone(), state }.set_page(*index, new);
            }
            part = parts.next();
            if part.is_some() {
                self.room().await?;
            }
        }
        // Drop the protecting reference. Another one may have come while there was no room.
        Ok(self.space.borrow().refs(candidate.page) == 1)
    }
}
