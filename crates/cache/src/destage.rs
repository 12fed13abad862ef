//! Destage: writes runs of dirty frames to stores, for a flush, a direct operation or in the background.

use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use block::{BackingStore, BlockError, Data, Device, Pieces, RangeGuard};
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use smallvec::SmallVec;

use crate::cache::Inner;
use crate::frames::{ALL_SECTORS, FRAME_BYTES, Key, Picked, SECTOR_BYTES, UnitId};
use crate::journal::Journal;
use crate::plan::{Run, run_at};
use crate::rows::{gathered, laid_over};
use crate::unit::{State, Unit, bytes_of};

/// Retry interval of the background task after a failed destage.
const RETRY: Duration = Duration::from_secs(1);
/// Retry interval after a turn in which direct operations locked all dirty blocks.
const HELD: Duration = Duration::from_millis(5);
/// The position of a finished sweep: behind every block.
const SWEPT: u64 = u64::MAX;

/// The destaged content of one block.
pub(crate) type PickedBlock = (u64, Picked);

/// Units of which as many runs may be under way at once as of one alone: eight groups of mirrors with two
/// each have 64 to sort then, four of RAID5 with four each 128, as many as one such group alone. In the
/// model, under random writes of sixteen servers, RAID5 (2D+1P) × 4 takes 187 a second of each with this, 155
/// with half of it; RAID1 × 8 671 and 575.
const UNITS_AT_ONCE_MAX: usize = 16;
/// Of the memory, what may be under way at most. Runs count by their length: of a small cache as many may be
/// under way as of a large one while they are short. With 64 MiB, under random writes of eight servers over
/// 48 MiB each, RAID5 (2D+1P) × 4 takes 488 a second of each in the model (with half of it 441; with eight
/// runs, whatever their length, 217), RAID1 × 8 2225 (2225, 1224).
const MEMORY_PARTS: u64 = 4;

/// Runs in progress.
struct UnderWay<F> {
    /// Boxed: a write's future through pool and group has ten thousand bytes, and the list would move it
    /// three times.
    runs: FuturesUnordered<Pin<Box<F>>>,
    bytes: u64,
    /// The first error.
    outcome: Result<(), BlockError>,
}

impl<F: Future<Output = (Run, Result<(), BlockError>)>> UnderWay<F> {
    fn new() -> UnderWay<F> {
        UnderWay { runs: FuturesUnordered::new(), bytes: 0, outcome: Ok(()) }
    }

    /// Adds a run: `finish` is called with it and its result.
    #[inline]
    fn begin(&mut self, run: Run, finish: F) {
        self.bytes += run.len_bytes();
        self.runs.push(Box::pin(finish));
    }

    /// Waits for one of them to end. Returns whether there was one.
    async fn end_one(&mut self) -> bool {
        let Some((run, ended)) = self.runs.next().await else { return false };
        self.bytes -= run.len_bytes();
        if self.outcome.is_ok() {
            self.outcome = ended;
        }
        true
    }
}

/// A run in progress, with its blocks.
struct Begun<'a, D: BackingStore, J: Device + Clone + 'static> {
    state: &'a Rc<State<D, J>>,
    run: Run,
    picked: SmallVec<[PickedBlock; 16]>,
    /// Whether the data between the picked blocks are read from the store and written again, with the row
    /// locked exclusively.
    row: Option<RangeGuard<'a>>,
}

impl<D: BackingStore, J: Device + Clone + 'static> Unit<D, J> {
    /// Destages the blocks that are dirty now; later writes may or may not be included. Returns the first
    /// error. The caller has locked the blocks, shared or exclusively, so that no direct operation works on
    /// them.
    pub(crate) async fn destage_range(&self, blocks: Range<u64>) -> Result<(), BlockError> {
        // A frame that is rewritten during its destage is dirty again at its end: it needs a second pass, but
        // no third.
        for _ in 0..2 {
            let mut from = blocks.start;
            let mut under_way = UnderWay::new();
            loop {
                let begun = self.cache.begin_from(&self.state, from..blocks.end);
                let more = begun.is_some();
                if let Some(begun) = begun {
                    from = begun.run.end().1;
                    under_way.begin(begun.run, self.cache.finish(begun));
                }
                let is_full = under_way.runs.len() >= self.cache.config.destages_max;
                if (!more || is_full) && !under_way.end_one().await {
                    break;
                }
            }
            under_way.outcome?;
            self.wait_for_destages(&blocks).await;
            if !self.cache.frames.borrow().any_dirty(self.state.id, blocks.clone()) {
                break;
            }
        }
        Ok(())
    }

    /// Waits until none of the blocks is being destaged.
    pub(crate) async fn wait_for_destages(&self, blocks: &Range<u64>) {
        let under_way = || self.cache.frames.borrow().any_destaging(self.state.id, blocks.clone());
        if under_way() {
            self.cache.cleaned.wait_for(|| (!under_way()).then_some(())).await;
        }
    }
}

impl<D: BackingStore, J: Device + Clone + 'static> Inner<D, J> {
    /// Takes the first run of the range. Blocks outside may be locked exclusively.
    fn begin_from<'a>(&self, state: &'a Rc<State<D, J>>, blocks: Range<u64>) -> Option<Begun<'a, D, J>> {
        let mut frames = self.frames.borrow_mut();
        let first = frames.dirty_after(state.id, blocks.start).next().filter(|b| *b < blocks.end)?;
        let row_blocks = state.store.row_bytes() / FRAME_BYTES as u64;
        let run = run_at(&frames, Key { unit: state.id, block: first }, row_blocks);
        let (first, end) = (run.first.max(blocks.start), run.end().1.min(blocks.end));
        let run = Run { first, blocks: (end - first) as u32, ..run };
        let pick = |block| (block, frames.begin_destage(Key { unit: state.id, block }));
        let picked = (run.first..run.end().1).map(pick).collect();
        Some(Begun { state, run, picked, row: None })
    }

    /// Takes all dirty blocks in the row around a block, if one write is cheaper, and no other operation
    /// works on the row.
    fn begin_row<'a>(&self, state: &'a Rc<State<D, J>>, block: u64) -> Option<Begun<'a, D, J>> {
        let row_blocks = state.store.row_bytes() / FRAME_BYTES as u64;
        let run = gathered(&self.frames.borrow(), (state.id, block), row_blocks, state.store.row_drives())?;
        let row = run.first / row_blocks * row_blocks..(run.first / row_blocks + 1) * row_blocks;
        let bytes = bytes_of(&row);
        let is_there = bytes.end <= state.store.geometry().len_bytes
            && state.store.takes_in_place(bytes.start, bytes.end - bytes.start);
        if !is_there || self.frames.borrow().any_destaging(state.id, row) {
            return None;
        }
        let held = state.locks.try_exclusive(bytes)?;
        let mut frames = self.frames.borrow_mut();
        let dirty: SmallVec<[u64; 16]> =
            frames.dirty_after(state.id, run.first).take_while(|block| *block < run.end().1).collect();
        let pick = |block| (block, frames.begin_destage(Key { unit: state.id, block }));
        Some(Begun { state, run, picked: dirty.into_iter().map(pick).collect(), row: Some(held) })
    }

    /// Writes a run to its store. Its records may not be durable yet: data that are not acknowledged may be
    /// on the store.
    async fn finish(&self, begun: Begun<'_, D, J>) -> (Run, Result<(), BlockError>) {
        let Begun { state, run, picked, row } = begun;
        let outcome = match &row {
            Some(_) => self.write_gathered(state, run, &picked).await,
            None => self.write_run(state, run, &picked).await,
        };
        let blocks = run.first..run.end().1;
        state.note_destage();
        // A concurrent read of the store returns old or new data, and must not be cached.
        state.generations.touch(&bytes_of(&blocks));
        let mut frames = self.frames.borrow_mut();
        picked.iter().for_each(|(block, _)| {
            frames.end_destage(Key { unit: state.id, block: *block }, outcome.is_ok());
        });
        drop((frames, row));
        state.count(|c| match outcome {
            Ok(()) => {
                c.destages += 1;
                c.destaged_bytes += run.len_bytes();
            }
            Err(_) => c.destages_failed += 1,
        });
        *state.failure.borrow_mut() = outcome.clone().err();
        self.cleaned.wake_all();
        (run, outcome)
    }

    async fn write_run(
        &self,
        state: &State<D, J>,
        run: Run,
        picked: &[PickedBlock],
    ) -> Result<(), BlockError> {
        let at = run.first * FRAME_BYTES as u64;
        if let [(_, one)] = picked
            && one.sectors != ALL_SECTORS
        {
            for sectors in runs_of(one.sectors) {
                let bytes = sectors.start * SECTOR_BYTES..sectors.end * SECTOR_BYTES;
                let data: Data = one.data.slice(bytes.clone());
                state.write_below(None, at + bytes.start as u64, &Pieces::from(data)).await?;
            }
            return Ok(());
        }
        let mut pieces = Pieces::new();
        picked.iter().for_each(|(_, p)| pieces.push(p.data.clone()));
        state.write_below(None, at, &pieces).await
    }

    /// Reads the data between the picked blocks from the store, and writes everything as one. Unreadable data
    /// are left alone.
    async fn write_gathered(
        &self,
        state: &State<D, J>,
        run: Run,
        picked: &[PickedBlock],
    ) -> Result<(), BlockError> {
        let bytes = bytes_of(&(run.first..run.end().1));
        let mut below = Pieces::new();
        if state.store.read(bytes.start, (bytes.end - bytes.start) as usize, &mut below).await.is_ok() {
            return state.write_below(None, bytes.start, &laid_over(&below, run.first, picked)).await;
        }
        for one in picked {
            let run = Run { first: one.0, blocks: 1, ..run };
            self.write_run(state, run, std::slice::from_ref(one)).await?;
        }
        Ok(())
    }

    /// Starts the background task, or wakes it under pressure.
    pub(crate) fn dirtied(self: &Rc<Self>) {
        let journal_full = || self.journal_presses();
        if !self.destaging.get() {
            self.destaging.set(true);
            self.world.spawn(background_task(self.clone()));
        } else if self.pending_percent() >= self.config.pending_low_percent || journal_full() {
            self.press();
        }
    }

    /// Wakes the background task.
    pub(crate) fn press(&self) {
        self.pressed.wake_all();
    }

    fn journal_presses(&self) -> bool {
        self.units.borrow().values().any(|u| u.journal.as_ref().is_some_and(|j| j.presses()))
    }

    fn is_pressed(&self) -> bool {
        self.pending_percent() >= self.config.pending_low_percent || self.journal_presses()
    }

    /// Waits for a clean frame.
    pub(crate) async fn wait_for_clean(self: &Rc<Self>) {
        self.waits.set(self.waits.get() + 1);
        self.press();
        let before = self.frames.borrow().counts().clean;
        let found = || self.frames.borrow().counts().clean > before;
        self.cleaned.wait_for(|| found().then_some(())).await;
    }

    /// Waits for a clean frame.
    ///
    /// # Errors
    /// None comes: what is dirty finds no space on its store.
    pub(crate) async fn wait_for_clean_or_full(self: &Rc<Self>) -> Result<(), BlockError> {
        self.dirtied();
        self.press();
        let before = self.frames.borrow().counts().clean;
        // The turn that runs may have looked already.
        let tried = self.turned.borrow().0 + 2;
        let ended = || match &*self.turned.borrow() {
            _ if self.frames.borrow().counts().clean > before => Some(Ok(())),
            (turns, Err(full @ BlockError::NoSpace { .. })) if *turns >= tried => Some(Err(full.clone())),
            _ => None,
        };
        self.cleaned.wait_for(ended).await
    }

    /// Limit of runs in progress for this number of units: it rises with write pending.
    fn width(&self, units: usize) -> usize {
        let (pending, high) =
            (usize::from(self.pending_percent()), usize::from(self.config.pending_high_percent));
        let most = self.config.destages_max * units.clamp(1, UNITS_AT_ONCE_MAX);
        (most * pending / high.max(1)).clamp(4, most)
    }

    /// Sweeps of the elevator over all units, each in order of addresses; the units take turns, because their
    /// groups work in parallel. Under pressure a unit that has finished begins its next sweep at once:
    /// otherwise drives would idle, and writers wait, until the slowest run of this sweep, or the slowest
    /// unit, has ended. Then records that are no longer needed are retired. Returns whether there was
    /// anything to destage.
    async fn turn(&self) -> Result<bool, BlockError> {
        let units = self.all_units();
        let has_journal = units.iter().any(|unit| unit.journal.is_some());
        let memory = self.config.memory_bytes / MEMORY_PARTS;
        let mut under_way = UnderWay::new();
        let mut sweeps: Vec<(&Rc<State<D, J>>, u64)> = units.iter().map(|unit| (unit, 0)).collect();
        let (mut any, mut active) = (false, units.len());
        loop {
            // Journals are retired between turns; a unit that was attached meanwhile is in the next turn.
            let goes_on =
                !has_journal && under_way.outcome.is_ok() && self.is_pressed() && self.are_all(&units);
            let mut began = 0;
            for (state, from) in &mut sweeps {
                let next = match self.begin_free(state, from) {
                    None if goes_on => {
                        *from = 0;
                        self.begin_free(state, from)
                    }
                    None => {
                        *from = SWEPT;
                        None
                    }
                    next => next,
                };
                let Some(begun) = next else { continue };
                began += 1;
                under_way.begin(begun.run, self.finish(begun));
                while under_way.runs.len() >= self.width(active) || under_way.bytes > memory {
                    under_way.end_one().await;
                }
            }
            any |= began > 0;
            active = began;
            let is_over = began == 0 && !(goes_on && under_way.end_one().await);
            // Who detached a unit closes its store, which this turn keeps open: on a busy cache for minutes.
            if is_over || self.is_one_detached(&units) {
                break;
            }
        }
        while under_way.end_one().await {}
        // What failed stays dirty, and its records are kept; the others must not wait for it.
        let retired = self.retire().await;
        under_way.outcome.and(retired).map(|()| any)
    }

    fn all_units(&self) -> Vec<Rc<State<D, J>>> {
        self.units.borrow().values().cloned().collect()
    }

    /// Whether the set of units is unchanged.
    fn are_all(&self, units: &[Rc<State<D, J>>]) -> bool {
        let now = self.units.borrow();
        now.len() == units.len() && now.values().zip(units).all(|(now, unit)| Rc::ptr_eq(now, unit))
    }

    /// Whether one of these units is no longer attached.
    fn is_one_detached(&self, units: &[Rc<State<D, J>>]) -> bool {
        let now = self.units.borrow();
        units.iter().any(|unit| !now.get(&unit.id).is_some_and(|known| Rc::ptr_eq(known, unit)))
    }

    /// The next run from `from` on that no direct operation has locked.
    fn begin_free<'a>(&self, state: &'a Rc<State<D, J>>, from: &mut u64) -> Option<Begun<'a, D, J>> {
        loop {
            let first = self.frames.borrow().dirty_after(state.id, *from).next()?;
            if let Some(begun) = self.begin_row(state, first) {
                *from = begun.run.end().1;
                return Some(begun);
            }
            let row_blocks = state.store.row_bytes() / FRAME_BYTES as u64;
            let run = run_at(&self.frames.borrow(), Key { unit: state.id, block: first }, row_blocks);
            *from = run.end().1.max(first + 1);
            let blocks = run.first..run.end().1;
            if !state.locks.is_held_exclusively(&bytes_of(&blocks)) {
                return self.begin_from(state, first..*from);
            }
        }
    }

    /// Flushes the stores of units with a journal, then retires the records of destaged frames. Returns the
    /// first error.
    async fn retire(&self) -> Result<(), BlockError> {
        if self.replaying.get() > 0 {
            return Ok(());
        }
        let mut outcome = Ok(());
        let mut done: Vec<Rc<State<D, J>>> = Vec::new();
        for state in self.all_units() {
            let Some(journal) = &state.journal else { continue };
            if done.iter().any(|d| d.journal.as_ref().is_some_and(|j| j.is_same(journal))) {
                continue;
            }
            done.push(state.clone());
            // All that share it now: one that was attached since the turn began has records, too.
            let mut sharing = self.all_units();
            sharing.retain(|u| u.journal.as_ref().is_some_and(|j| j.is_same(journal)));
            let retired = self.retire_one(journal, &sharing).await;
            let failure = sharing.iter().find_map(|u| u.failure.borrow().clone());
            if let Some(failure) = retired.clone().err().or(failure) {
                journal.gets_no_room(failure);
            }
            outcome = outcome.and(retired);
        }
        outcome
    }

    /// Retires the records of one journal, which these units share.
    async fn retire_one(&self, journal: &Journal<J>, sharing: &[Rc<State<D, J>>]) -> Result<(), BlockError> {
        // Writes during the flushes are not covered.
        let last = journal.next_sequence() - 1;
        let oldest = |id: UnitId| self.frames.borrow().oldest_sequence(id);
        let needed = sharing.iter().filter_map(|u| oldest(u.id)).min();
        for unit in sharing {
            let covered = unit.changes.get();
            if unit.flushed.get() < covered {
                unit.store.flush().await?;
                unit.flushed.set(unit.flushed.get().max(covered));
            }
        }
        journal.retire(needed.map_or(last, |oldest| oldest - 1));
        Ok(())
    }
}

/// Destages until nothing is dirty: at once under pressure, otherwise after the delay.
async fn background_task<D: BackingStore, J: Device + Clone + 'static>(cache: Rc<Inner<D, J>>) {
    loop {
        if !cache.is_pressed() {
            wait_or_pressed(&cache, cache.config.destage_delay).await;
        }
        let turned = cache.turn().await;
        let turns = cache.turned.borrow().0;
        *cache.turned.borrow_mut() = (turns + 1, turned.clone().map(drop));
        cache.cleaned.wake_all();
        match turned {
            Ok(true) => {}
            Ok(false) => cache.world.sleep(HELD).await,
            Err(_) => cache.world.sleep(RETRY).await,
        }
        if cache.frames.borrow().dirty_frames() == 0 {
            break;
        }
        world::yield_now().await;
    }
    cache.destaging.set(false);
}

async fn wait_or_pressed<D: BackingStore, J: Device + Clone + 'static>(cache: &Inner<D, J>, delay: Duration) {
    let pressed = std::pin::pin!(cache.pressed.wait_for(|| cache.is_pressed().then_some(())));
    match select(cache.world.sleep(delay), pressed).await {
        Either::Left(_) | Either::Right(_) => {}
    }
}

/// The runs of set bits.
pub(crate) fn runs_of(mask: u8) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        while from < 8 && mask & (1 << from) == 0 {
            from += 1;
        }
        let start = from;
        while from < 8 && mask & (1 << from) != 0 {
            from += 1;
        }
        (start < from).then_some(start..from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_sectors() {
        assert_eq!(runs_of(0b1100_0110).collect::<Vec<_>>(), [1..3, 6..8]);
        assert_eq!(runs_of(0).count(), 0);
        assert_eq!((runs_of(0xff).next(), runs_of(0xff).count()), (Some(0..8), 1));
    }
}
