//! Reads: from frames, read-ahead data, the second level, the store.

use std::ops::Range;

use block::{BackingStore, BlockError, Buf, Data, Device, Pieces};
use smallvec::SmallVec;
use world::{OpenSpan, Trace};

use super::state::{Unit, WritePolicy, blocks_of, bytes_of};
use crate::frames::{FRAME_BYTES, Key, SECTOR_BYTES};
use crate::generations::Generation;
use crate::segments::Part;

/// A part of a read, as found at its beginning.
enum Found {
    /// Bytes of one frame.
    Hit(Data),
    /// Whole blocks that no frame has completely.
    Missing(Range<u64>),
}

/// A frame with some sectors of a block: they are valid even if the frame is destaged and evicted while the
/// rest is read.
struct Partial {
    block: u64,
    data: Data,
    valid: u8,
}

/// What a read found in frames.
#[derive(Default)]
struct Lookup {
    parts: SmallVec<[Found; 4]>,
    partial: SmallVec<[Partial; 2]>,
    hit_bytes: u64,
}

impl<D: BackingStore, J: Device + Clone + 'static> Unit<D, J> {
    /// Reads `len` bytes at `at`, appended to `out`.
    ///
    /// # Errors
    ///
    /// The volume could not be read. What is dirty in frames is never lost by this.
    pub fn read(
        &self,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> impl Future<Output = Result<(), BlockError>> {
        self.read_traced(None, at, len, out)
    }

    /// The same as part of a command whose stages are recorded.
    ///
    /// # Errors
    ///
    /// Those of [`Unit::read`].
    pub async fn read_traced(
        &self,
        trace: Option<&Trace>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let range = at..at.saturating_add(len as u64);
        self.geometry().check(at, len as u64)?;
        if len == 0 {
            return Ok(());
        }
        let found = self.look_up(&range);
        self.state.count(|c| {
            c.reads += 1;
            c.read_bytes += len as u64;
            c.read_hit_bytes += found.hit_bytes;
        });
        self.read_ahead(&range);
        for part in &found.parts {
            match part {
                Found::Hit(data) => out.push(data.clone()),
                Found::Missing(missing) => {
                    self.read_missing(trace, (&range, missing), &found.partial, out).await?;
                }
            }
        }
        Ok(())
    }

    /// The frames' part of the range, now: a later write may or may not be included.
    fn look_up(&self, range: &Range<u64>) -> Lookup {
        let state = &self.state;
        let mut frames = self.cache.frames.borrow_mut();
        let mut lookup = Lookup::default();
        let partition = state.partition.get();
        for block in blocks_of(range) {
            let bytes = bytes_of(&(block..block + 1));
            let (from, to) = (range.start.max(bytes.start), range.end.min(bytes.end));
            let within = (from - bytes.start) as usize..(to - bytes.start) as usize;
            let wanted = super::write::sectors_of(&within);
            match frames.get(partition, Key { unit: state.id, block }) {
                Some(frame) if frame.valid & wanted == wanted => {
                    lookup.hit_bytes += to - from;
                    lookup.parts.push(Found::Hit(frame.data.slice(within)));
                    continue;
                }
                Some(frame) => {
                    let (data, valid) = (frame.data.clone(), frame.valid);
                    lookup.partial.push(Partial { block, data, valid });
                }
                None => {}
            }
            match lookup.parts.last_mut() {
                Some(Found::Missing(missing)) => missing.end = bytes.end,
                _ => lookup.parts.push(Found::Missing(bytes)),
            }
        }
        lookup
    }

    /// Reads whole blocks from their locations, and appends the part in `range`.
    async fn read_missing(
        &self,
        trace: Option<&Trace>,
        (range, missing): (&Range<u64>, &Range<u64>),
        partial: &[Partial],
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        // The last block of a store may end within it.
        let missing = missing.start..missing.end.min(self.geometry().len_bytes);
        let mut pieces = Pieces::new();
        let mut next = missing.start;
        while next < missing.end {
            let parts = self.state.segments.borrow_mut().take(next, missing.end - next);
            for part in parts {
                match part {
                    Part::Ready { pieces: ready, .. } => {
                        next += ready.len() as u64;
                        self.state.count(|c| c.read_hit_bytes += ready.len() as u64);
                        pieces.append(ready);
                    }
                    Part::Absent { range } => {
                        next = range.end;
                        self.read_below(trace, range, &mut pieces).await?;
                    }
                    Part::Pending { range } => {
                        let segments = &self.state.segments;
                        let arrived = || !segments.borrow().is_pending(range.start);
                        let _span = OpenSpan::begin(trace, "read_ahead", "");
                        self.state.arrived.wait_for(|| arrived().then_some(())).await;
                        break;
                    }
                }
            }
        }
        let inside = partial.iter().filter(|p| missing.contains(&(p.block * FRAME_BYTES as u64)));
        let pieces = inside.fold(pieces, |pieces, partial| overlay(pieces, missing.start, partial));
        let (from, to) = (range.start.max(missing.start), range.end.min(missing.end));
        out.append(pieces.slice((from - missing.start) as usize, (to - from) as usize));
        Ok(())
    }

    /// Reads whole blocks from the second level as far as it has them, and the rest from the store.
    async fn read_below(
        &self,
        trace: Option<&Trace>,
        range: Range<u64>,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let second = self.cache.second.borrow().clone();
        let small = range.end - range.start < self.cache.config.direct_bytes;
        let Some(second) = second.filter(|_| small) else {
            return self.read_store(trace, range, out).await;
        };
        let mut next = range.start;
        while next < range.end {
            let block = Key { unit: self.state.id, block: next / FRAME_BYTES as u64 };
            // Read-ahead data may end within a block.
            let bytes = bytes_of(&(block.block..block.block + 1));
            let end = bytes.end.min(range.end);
            if second.holds(block) {
                let before = self.state.generations.of(&(next..end));
                let _span = OpenSpan::begin(trace, "second_level", "");
                if let Some(data) = second.read(block).await {
                    let data =
                        Pieces::from(data.slice((next - bytes.start) as usize..(end - bytes.start) as usize));
                    self.keep_unchanged(next..end, before, &data);
                    out.append(data);
                    next = end;
                    continue;
                }
            }
            // Up to the next block that it has.
            let has = |at: &u64| second.is_held(Key { block: at / FRAME_BYTES as u64, ..block });
            let until = (end..range.end).step_by(FRAME_BYTES).find(has).unwrap_or(range.end);
            self.read_store(trace, next..until, out).await?;
            next = until;
        }
        Ok(())
    }

    /// Caches data that were read below, if nothing changed them meanwhile.
    fn keep_unchanged(&self, range: Range<u64>, before: Generation, data: &Pieces) {
        let state = &self.state;
        if state.policy.get() != WritePolicy::Off && state.generations.of(&range) == before {
            self.keep(range.start, data);
        }
    }

    /// Reads from the store, and caches the data if worthwhile and unchanged meanwhile.
    async fn read_store(
        &self,
        trace: Option<&Trace>,
        range: Range<u64>,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let state = &self.state;
        let before = state.generations.of(&range);
        let mut pieces = Pieces::new();
        state.store.read_traced(trace, range.start, (range.end - range.start) as usize, &mut pieces).await?;
        if range.end - range.start < self.cache.config.direct_bytes {
            self.keep_unchanged(range, before, &pieces);
        }
        out.append(pieces);
        Ok(())
    }
}

/// The bytes from `start` on, overlaid with the frame's part of one block.
fn overlay(pieces: Pieces, start: u64, partial: &Partial) -> Pieces {
    let from = (partial.block * FRAME_BYTES as u64 - start) as usize;
    let len = FRAME_BYTES.min(pieces.len() - from);
    let mut block = Buf::new(len);
    pieces.slice(from, len).copy_to(&mut block);
    for sector in (0..u8::BITS as usize).filter(|s| partial.valid & (1 << s) != 0) {
        let bytes = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        block[bytes.clone()].copy_from_slice(&partial.data[bytes]);
    }
    let mut out = pieces.slice(0, from);
    out.push(block.freeze());
    out.append(pieces.slice(from + len, pieces.len() - from - len));
    out
}
