//! The shadow: for every sector, what a read must give now, and what it may give after a power cut.
//!
//! A sector has a *base*, which is durable, and later versions whose survival is open, oldest first. A write is open from
//! its submission on. A flush makes the last version that had completed when the flush began the new base. After a
//! power cut a sector holds the base or any open version; the first read after it decides which, once and for all.

use std::collections::VecDeque;

use super::stamp::{SECTOR_BYTES, Version, version_of};

/// A moment of the run: how many operations had begun or ended before it.
type Moment = u64;

struct Open {
    version: Version,
    /// When the write was acknowledged; `None`: it is in flight, or was when its process died.
    completed: Option<Moment>,
}

/// Whether it is known which version a read gives.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Content {
    /// The latest.
    #[default]
    Latest,
    /// Any: the process died with a write in flight. The first read decides; what it gives is as durable as it was.
    Any,
    /// Any: the power was cut. The first read decides; what it gives is on the medium.
    AnyOnMedium,
}

#[derive(Default)]
struct Sector {
    base: Version,
    open: VecDeque<Open>,
    content: Content,
}

/// The shadow of one device.
pub(crate) struct Shadow {
    sectors: Vec<Sector>,
    moment: Moment,
    version_next: Version,
}

/// A device that does not hold what it must.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("sector {sector} holds {found}, and may hold only {allowed}")]
pub(crate) struct Wrong {
    sector: u64,
    found: String,
    allowed: String,
}

impl Shadow {
    /// The shadow of a device full of zeros.
    pub(crate) fn new(sectors: usize) -> Shadow {
        Shadow { sectors: (0..sectors).map(|_| Sector::default()).collect(), moment: 0, version_next: 1 }
    }

    pub(crate) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    fn tick(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// A version that no sector has yet.
    pub(crate) fn new_version(&mut self) -> Version {
        self.version_next += 1;
        self.version_next - 1
    }

    /// A write (or zero) of `count` sectors is submitted.
    pub(crate) fn begin(&mut self, first: usize, count: usize, version: Version) {
        for sector in &mut self.sectors[first..first + count] {
            sector.open.push_back(Open { version, completed: None });
        }
    }

    /// It was acknowledged.
    pub(crate) fn complete(&mut self, first: usize, count: usize, version: Version) {
        let now = self.tick();
        for sector in &mut self.sectors[first..first + count] {
            sector.content = Content::Latest;
            if let Some(open) = sector.open.iter_mut().rev().find(|o| o.version == version) {
                open.completed = Some(now);
            }
        }
    }

    /// A flush begins: what has completed by the moment that is returned will be durable.
    pub(crate) fn begin_flush(&mut self) -> Moment {
        self.tick()
    }

    /// The flush that began at `began` was acknowledged.
    pub(crate) fn complete_flush(&mut self, began: Moment) {
        for sector in &mut self.sectors {
            let covered = sector.open.iter().rposition(|o| o.completed.is_some_and(|c| c <= began));
            if let Some(last) = covered {
                sector.base = sector.open[last].version;
                sector.open.drain(..=last);
            }
        }
    }

    /// The power was cut: what was open may be there or not.
    pub(crate) fn crash(&mut self) {
        for sector in self.sectors.iter_mut().filter(|s| !s.open.is_empty()) {
            sector.content = Content::AnyOnMedium;
        }
    }

    /// The process is gone, the caches are not: only what was in flight is open.
    pub(crate) fn process_ended(&mut self) {
        for sector in &mut self.sectors {
            if sector.content == Content::Latest && sector.open.back().is_some_and(|o| o.completed.is_none())
            {
                sector.content = Content::Any;
            }
        }
    }

    /// Holds what was read from `first` on against the shadow. What was undecided is decided by it.
    pub(crate) fn check(&mut self, first: usize, bytes: &[u8]) -> Result<(), Wrong> {
        let now = self.tick();
        for (i, read) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
            let place = (first + i) as u64;
            let found = version_of(read, place);
            let sector = &mut self.sectors[first + i];
            if !sector.allows(found) {
                let found = found.map_or("what no write put there".to_owned(), |v| format!("version {v}"));
                return Err(Wrong { sector: place, found, allowed: sector.allowed() });
            }
            if let Some(version) = found {
                sector.decide(version, now);
            }
        }
        Ok(())
    }
}

impl Sector {
    fn now(&self) -> Version {
        self.open.back().map_or(self.base, |o| o.version)
    }

    fn allows(&self, found: Option<Version>) -> bool {
        let Some(version) = found else { return false };
        if self.content == Content::Latest {
            return version == self.now();
        }
        version == self.base || self.open.iter().any(|o| o.version == version)
    }

    /// A read gave this version.
    fn decide(&mut self, version: Version, now: Moment) {
        match self.content {
            Content::Latest => {}
            Content::Any => self.open.push_back(Open { version, completed: Some(now) }),
            Content::AnyOnMedium => *self = Sector { base: version, ..Sector::default() },
        }
        self.content = Content::Latest;
    }

    fn allowed(&self) -> String {
        if self.content == Content::Latest {
            return format!("version {}", self.now());
        }
        let open: Vec<String> = self.open.iter().map(|o| o.version.to_string()).collect();
        format!("version {} or {}", self.base, open.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamp::fill;
    use super::*;

    fn sector(version: Version) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        fill(&mut bytes, version, 0);
        bytes
    }

    /// Writes versions 1, 2 and 3 to the one sector, with a flush that begins after the first.
    fn three_writes() -> Shadow {
        let mut shadow = Shadow::new(1);
        shadow.begin(0, 1, 1);
        shadow.complete(0, 1, 1);
        let flush = shadow.begin_flush();
        shadow.begin(0, 1, 2);
        shadow.complete(0, 1, 2);
        shadow.complete_flush(flush);
        shadow.begin(0, 1, 3);
        shadow.complete(0, 1, 3);
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
    fn a_process_that_dies_leaves_open_only_what_was_in_flight() {
        let mut shadow = three_writes();
        shadow.process_ended();
        assert!(shadow.check(0, &sector(2)).is_err());
        shadow.begin(0, 1, 4);
        shadow.process_ended();
        assert_eq!(shadow.check(0, &sector(3)), Ok(()));
        assert!(shadow.check(0, &sector(4)).is_err(), "decided");
        shadow.crash();
        assert_eq!(shadow.check(0, &sector(1)), Ok(()), "and not durable");
    }
}
