//! What changed while a drive was away: it is filled with that when it comes back, and not anew.
//!
//! ```text
//!   a write ends ──> since the last flush ──(a flush)──> forgotten: every drive has it
//!                          │ a drive is dropped
//!                          v
//!                    what it missed  <── every write that ends from then on
//! ```
//!
//! What was not flushed counts as missed, too: the drive may have lost it with its cache. Regions of 1 MiB, in memory only: after a restart
//! a drive that was left out is filled anew.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use crate::inner::Inner;

/// Regions of at least this size.
const REGION_BYTES: u64 = 1 << 20;

/// A set of regions of the drives' data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regions {
    region_bytes: u64,
    words: Vec<u64>,
    /// Words that are not zero, each once: to forget costs what was noted, not what there is.
    used: Vec<u32>,
}

impl Regions {
    /// No region of drives with so much data, in whole units.
    pub(crate) fn new(data_len: u64, unit: u64) -> Regions {
        let region_bytes = REGION_BYTES.next_multiple_of(unit);
        let regions = data_len.div_ceil(region_bytes);
        Regions { region_bytes, words: vec![0; regions.div_ceil(64) as usize], used: Vec::new() }
    }

    fn add(&mut self, range: &Range<u64>) {
        for region in range.start / self.region_bytes..range.end.div_ceil(self.region_bytes) {
            self.add_word((region / 64) as usize, 1 << (region % 64));
        }
    }

    fn add_word(&mut self, index: usize, bits: u64) {
        let word = &mut self.words[index];
        if *word == 0 {
            self.used.push(index as u32);
        }
        *word |= bits;
    }

    fn add_all(&mut self, other: &Regions) {
        other.used.iter().for_each(|i| self.add_word(*i as usize, other.words[*i as usize]));
    }

    fn clear(&mut self) {
        self.used.drain(..).for_each(|i| self.words[i as usize] = 0);
    }

    /// The bytes from `from` on, up to `max` of them, that lie in no region of the set.
    fn clean_from(&self, from: u64, max: u64) -> u64 {
        let has = |region: u64| self.words[(region / 64) as usize] & 1 << (region % 64) != 0;
        let end = from + max;
        let mut region = from / self.region_bytes;
        while region * self.region_bytes < end && !has(region) {
            region += 1;
        }
        (region * self.region_bytes).clamp(from, end) - from
    }

    /// How many bytes its regions have.
    pub(crate) fn len_bytes(&self) -> u64 {
        let regions: u32 = self.used.iter().map(|i| self.words[*i as usize].count_ones()).sum();
        u64::from(regions) * self.region_bytes
    }
}

/// What was written since the last flush of all drives, in two generations: a flush covers what had ended when it began.
pub(crate) struct Unflushed {
    now: RefCell<Regions>,
    flushing: RefCell<Regions>,
    flushes: Cell<bool>,
}

impl Unflushed {
    pub(crate) fn new(none: &Regions) -> Unflushed {
        Unflushed {
            now: RefCell::new(none.clone()),
            flushing: RefCell::new(none.clone()),
            flushes: Cell::new(false),
        }
    }

    fn all(&self) -> Regions {
        let mut all = self.now.borrow().clone();
        all.add_all(&self.flushing.borrow());
        all
    }
}

/// Notes when it is dropped, however the operation ended, that a range may have changed. To be dropped before the hold of it.
pub(crate) struct Changing<'a> {
    inner: &'a Inner,
    /// On the drives' data.
    range: Range<u64>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let Some(unflushed) = &self.inner.unflushed else { return };
        unflushed.now.borrow_mut().add(&self.range);
        for member in &self.inner.members {
            if let Some(missed) = &mut *member.missed.borrow_mut() {
                missed.add(&self.range);
            }
        }
    }
}

/// A flush of all drives that goes on.
pub(crate) struct Flushing<'a> {
    inner: &'a Inner,
    /// None where another flush is on its way, which will forget.
    unflushed: Option<&'a Unflushed>,
    epoch: u64,
    succeeded: bool,
}

impl Flushing<'_> {
    /// The drives have carried it out: all of them, where none was dropped meanwhile.
    pub(crate) fn succeeded(mut self) {
        self.succeeded = self.inner.epoch.get() == self.epoch;
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        let Some(unflushed) = self.unflushed else { return };
        if !self.succeeded {
            unflushed.now.borrow_mut().add_all(&unflushed.flushing.borrow());
        }
        unflushed.flushing.borrow_mut().clear();
        unflushed.flushes.set(false);
    }
}

impl Inner {
    /// A range of the drives' data is about to change.
    pub(crate) fn changing(&self, range: Range<u64>) -> Changing<'_> {
        Changing { inner: self, range }
    }

    /// The range that has all of `ranges`: those of one operation are next to each other.
    pub(crate) fn changing_all(&self, ranges: impl Iterator<Item = Range<u64>>) -> Changing<'_> {
        let hull = ranges.reduce(|all, range| all.start.min(range.start)..all.end.max(range.end));
        self.changing(hull.unwrap_or(0..0))
    }

    /// A flush of all drives begins. One at a time forgets something.
    pub(crate) fn begin_flush(&self) -> Flushing<'_> {
        let unflushed = self.unflushed.as_ref().filter(|u| !u.flushes.replace(true));
        if let Some(unflushed) = unflushed {
            std::mem::swap(&mut *unflushed.now.borrow_mut(), &mut *unflushed.flushing.borrow_mut());
        }
        Flushing { inner: self, unflushed, epoch: self.epoch.get(), succeeded: false }
    }

    /// A drive is dropped: what it misses is noted from now on, unless mirrors may differ anyway.
    pub(crate) fn begin_to_miss(&self, m: usize, was_active: bool) {
        let mut missed = self.members[m].missed.borrow_mut();
        let (Some(unflushed), false) = (&self.unflushed, self.pinned.get()) else {
            *missed = None;
            return;
        };
        match &mut *missed {
            Some(missed) => missed.add_all(&unflushed.all()),
            None if was_active => *missed = Some(unflushed.all()),
            None => {}
        }
    }

    /// The content was put right in another way than by writes: drives that are away are filled anew.
    pub(crate) fn forget_missed(&self) {
        self.members.iter().for_each(|m| *m.missed.borrow_mut() = None);
    }

    /// The bytes of the drive at a position, from `from` on and at most `max`, that it has as the others have them. To be asked again when
    /// the range is held.
    pub(crate) fn unchanged(&self, position: usize, from: u64, max: u64) -> u64 {
        let missed = self.members[position].missed.borrow();
        missed.as_ref().map_or(0, |missed| missed.clean_from(from, max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn regions_are_those_that_were_added_and_no_others() {
        let mut regions = Regions::new(1000 * MIB + 512, 64 << 10);
        assert_eq!(regions.clean_from(0, 1000 * MIB + 512), 1000 * MIB + 512);
        regions.add(&(70 * MIB + 5..70 * MIB + 6));
        regions.add(&(200 * MIB - 1..200 * MIB + 1));
        assert_eq!(regions.clean_from(0, 1000 * MIB), 70 * MIB);
        assert_eq!(regions.clean_from(70 * MIB, MIB), 0);
        assert_eq!(regions.clean_from(71 * MIB, 1000 * MIB), 128 * MIB);
        assert_eq!(regions.clean_from(201 * MIB, 100 * MIB), 100 * MIB);
        assert_eq!(regions.len_bytes(), 3 * MIB);
        let mut other = Regions::new(1000 * MIB + 512, 64 << 10);
        other.add(&(1000 * MIB..1000 * MIB + 512));
        other.add_all(&regions);
        assert_eq!(other.len_bytes(), 4 * MIB);
        other.clear();
        assert_eq!(other, Regions::new(1000 * MIB + 512, 64 << 10));
    }
}
