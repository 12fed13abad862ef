//! The shadow of a volume: for every sector, what a read must return now, and what it may return after a
//! power failure.
//!
//! A sector has a *base*, which is durable, and later contents whose survival is open, oldest first. A write
//! is open from its submission on. A flush makes the last content that had completed when it began the new
//! base. After a power failure a sector holds the base or any open content; the first read after it decides.
//!
//! A sector with open content at a power failure (or the death of the process) while a drive is missing may
//! be *lost*: reading it is an error until it is written again. A sector without open content never is.

use std::collections::VecDeque;

use crate::stamp::{SECTOR_BYTES, Stamp};

/// A moment: the number of operations that began or ended before it. It also identifies the operation that
/// begins there.
pub(crate) type Moment = u64;

#[derive(Clone)]
struct Open {
    stamp: Stamp,
    began: Moment,
    /// When the write was acknowledged; `None`: in flight, or it was when its process died.
    completed: Option<Moment>,
}

/// Whether the result of a read is known.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Content {
    #[default]
    Latest,
    /// Open: the process died with a write in flight. The first read decides; its content is as durable as
    /// before.
    Any,
    /// Open: the power failed. The first read decides; its content is on the medium.
    AnyOnMedium,
}

#[derive(Clone, Default)]
struct Sector {
    base: Stamp,
    /// Reads of the base are errors.
    lost: bool,
    open: VecDeque<Open>,
    content: Content,
}

/// The shadow of one volume.
#[derive(Clone)]
pub(crate) struct Shadow {
    sectors: Vec<Sector>,
    moment: Moment,
}

/// A deviation of a volume from its shadow.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "sector {sector} holds {found}, and may hold only {allowed}; {others} more sectors of this read are wrong"
)]
pub(crate) struct Wrong {
    sector: usize,
    found: String,
    allowed: String,
    others: usize,
}

impl Shadow {
    /// The shadow of a volume full of zeros.
    pub(crate) fn new(sectors: usize) -> Shadow {
        Shadow { sectors: vec![Sector::default(); sectors], moment: 0 }
    }

    pub(crate) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// The volume has grown.
    pub(crate) fn grow(&mut self, sectors: usize) {
        self.sectors.resize(sectors, Sector::default());
    }

    fn tick(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// The expected result of reads of this range.
    pub(crate) fn latest(&self, first: usize, count: usize) -> Vec<Stamp> {
        self.sectors[first..first + count].iter().map(Sector::latest).collect()
    }

    /// Begins an operation that stores these contents from sector `first` on.
    pub(crate) fn begin(&mut self, first: usize, stamps: impl IntoIterator<Item = Stamp>) -> Moment {
        let began = self.tick();
        for (sector, stamp) in self.sectors[first..].iter_mut().zip(stamps) {
            sector.open.push_back(Open { stamp, began, completed: None });
        }
        began
    }

    /// Acknowledges it.
    pub(crate) fn complete(&mut self, first: usize, count: usize, began: Moment) {
        let now = self.tick();
        for sector in &mut self.sectors[first..first + count] {
            sector.content = Content::Latest;
            if let Some(open) = sector.open.iter_mut().rev().find(|o| o.began == began) {
                open.completed = Some(now);
            }
        }
    }

    /// An operation on this range failed: any part of it may have been done. (Lost sectors remain lost.)
    pub(crate) fn fail(&mut self, first: usize, count: usize) {
        self.sectors[first..first + count].iter_mut().for_each(|s| s.content = Content::Any);
    }

    /// Begins a flush: everything completed by now will be durable.
    pub(crate) fn begin_flush(&mut self) -> Moment {
        self.tick()
    }

    /// Acknowledges the flush that began at `began`.
    pub(crate) fn complete_flush(&mut self, began: Moment) {
        for sector in &mut self.sectors {
            let covered = sector.open.iter().rposition(|o| o.completed.is_some_and(|c| c <= began));
            if let Some(last) = covered {
                sector.base = sector.open[last].stamp;
                sector.lost = false;
                sector.open.drain(..=last);
            }
        }
    }

    /// Power failure: open contents may survive or not.
    pub(crate) fn crash(&mut self) {
        for sector in self.sectors.iter_mut().filter(|s| !s.open.is_empty()) {
            sector.content = Content::AnyOnMedium;
        }
    }

    /// The process died: acknowledged contents that were not flushed are open.
    pub(crate) fn memory_lost(&mut self) {
        for sector in self.sectors.iter_mut().filter(|s| s.content == Content::Latest && !s.open.is_empty()) {
            sector.content = Content::Any;
        }
    }

    /// The process died, the disks' caches remain: only what was in flight is open.
    pub(crate) fn process_ended(&mut self) {
        for sector in &mut self.sectors {
            if sector.content == Content::Latest && sector.open.back().is_some_and(|o| o.completed.is_none())
            {
                sector.content = Content::Any;
            }
        }
    }

    /// A read of this sector failed. Returns whether that is allowed.
    pub(crate) fn lose(&mut self, sector: usize) -> Result<(), Wrong> {
        let here = &mut self.sectors[sector];
        let known = here.content == Content::Latest && !(here.lost && here.open.is_empty());
        if known {
            let (found, allowed) = ("an error".to_owned(), here.allowed());
            return Err(Wrong { sector, found, allowed, others: 0 });
        }
        *here = Sector { base: here.base, lost: true, ..Sector::default() };
        Ok(())
    }

    /// Whether reading this range must fail.
    pub(crate) fn is_lost(&self, first: usize, count: usize) -> bool {
        self.sectors[first..first + count].iter().any(|s| s.lost && s.open.is_empty())
    }

    /// Compares a read from `first` on with the shadow, and decides open contents.
    pub(crate) fn check(&mut self, first: usize, bytes: &[u8]) -> Result<(), Wrong> {
        let now = self.tick();
        let mut wrong: Option<Wrong> = None;
        for (i, read) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
            let sector = &mut self.sectors[first + i];
            match (Stamp::of(read), &mut wrong) {
                (Some(stamp), _) if sector.allows(stamp) => sector.decide(stamp, now),
                (_, Some(wrong)) => wrong.others += 1,
                (found, none) => {
                    let found = found.map_or("what no write put there".to_owned(), |s| s.to_string());
                    *none = Some(Wrong { sector: first + i, found, allowed: sector.allowed(), others: 0 });
                }
            }
        }
        wrong.map_or(Ok(()), Err)
    }
}

impl Sector {
    fn latest(&self) -> Stamp {
        self.open.back().map_or(self.base, |o| o.stamp)
    }

    fn allows(&self, found: Stamp) -> bool {
        let base = found == self.base && !self.lost;
        if self.content == Content::Latest {
            return self.open.back().map_or(base, |o| o.stamp == found);
        }
        base || self.open.iter().any(|o| o.stamp == found)
    }

    /// Records the result of a read.
    fn decide(&mut self, stamp: Stamp, now: Moment) {
        match self.content {
            Content::Latest => {}
            Content::Any => self.open.push_back(Open { stamp, began: now, completed: Some(now) }),
            Content::AnyOnMedium => *self = Sector { base: stamp, ..Sector::default() },
        }
        self.content = Content::Latest;
    }

    fn allowed(&self) -> String {
        if self.content == Content::Latest {
            return self.latest().to_string();
        }
        let open: Vec<String> = self.open.iter().map(|o| o.stamp.to_string()).collect();
        format!("{}, or {}", self.base, open.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(version: u64) -> Stamp {
        Stamp { version, place: 0 }
    }

    fn sector(version: u64) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        stamp(version).fill(&mut bytes);
        bytes
    }

    /// Writes versions 1, 2 and 3 to the one sector, with a flush that begins after the first.
    fn three_writes() -> Shadow {
        let mut shadow = Shadow::new(1);
        let mut flush = 0;
        for version in 1..=3 {
            let write = shadow.begin(0, [stamp(version)]);
            shadow.complete(0, 1, write);
            match version {
                1 => flush = shadow.begin_flush(),
                2 => shadow.complete_flush(flush),
                _ => {}
            }
        }
        shadow
    }

    #[test]
    fn a_read_gives_the_latest_and_after_a_crash_anything_since_the_flush() {
        let mut shadow = three_writes();
        assert_eq!(shadow.check(0, &sector(3)), Ok(()));
        assert!(shadow.check(0, &sector(2)).is_err());
        for survivor in [1, 2, 3] {
            let mut shadow = three_writes();
            shadow.crash();
            assert!(shadow.check(0, &sector(0)).is_err(), "before the flush");
            assert_eq!(shadow.check(0, &sector(survivor)), Ok(()));
            for other in [1, 2, 3].into_iter().filter(|v| *v != survivor) {
                assert!(shadow.check(0, &sector(other)).is_err(), "what was read once stays");
            }
        }
    }

    #[test]
    fn only_what_was_open_at_a_power_cut_may_be_lost_and_stays_so_until_it_is_written() {
        let mut shadow = three_writes();
        assert!(shadow.lose(0).is_err(), "the power is on");
        shadow.crash();
        assert_eq!(shadow.lose(0), Ok(()));
        assert!(shadow.is_lost(0, 1));
        assert!(shadow.check(0, &sector(3)).is_err(), "it comes back from nowhere");
        assert_eq!(shadow.lose(0), Ok(()));
        let began = shadow.begin(0, [stamp(4)]);
        shadow.complete(0, 1, began);
        assert!(shadow.lose(0).is_err(), "it was written again");
        assert_eq!(shadow.check(0, &sector(4)), Ok(()));
        shadow.crash();
        assert_eq!(shadow.clone().lose(0), Ok(()), "and not flushed");
        assert!(shadow.clone().check(0, &sector(0)).is_err(), "what filled its place shows");
        assert_eq!(shadow.check(0, &sector(4)), Ok(()));
        assert!(shadow.lose(0).is_err(), "what was read once stays");
    }

    #[test]
    fn a_process_that_dies_leaves_open_only_what_was_in_flight() {
        let mut shadow = three_writes();
        shadow.process_ended();
        assert!(shadow.check(0, &sector(2)).is_err());
        shadow.begin(0, [stamp(4)]);
        shadow.process_ended();
        assert_eq!(shadow.check(0, &sector(3)), Ok(()));
        assert!(shadow.check(0, &sector(4)).is_err(), "decided");
        shadow.crash();
        assert_eq!(shadow.check(0, &sector(1)), Ok(()), "and not durable");
    }
}
