//! The heat of pages: counted by every access, halved once per interval. It is in memory only and starts at
//! zero.
//!
//! A page costs four bytes, and an access one addition per page that it touches and one for the group.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Area, Space};
use crate::placement::{ACCESS, ACCESS_BYTES, Class, MOVES_MAX, Tier, Warm};

/// Pages processed between two yields: 0.2 ms on average, by the measurement below (6 ns a page, with
/// assertions).
const STEP_PAGES: u32 = 32 << 10;

/// Accesses of the pages of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accesses {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// Collects the hottest and the coldest pages of one class.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) pages: u32,
    pub(crate) used: u32,
    coldest: BinaryHeap<Warm>,
    hottest: BinaryHeap<Reverse<Warm>>,
}

impl Survey {
    fn note(&mut self, warm: Warm) {
        if self.coldest.len() < MOVES_MAX {
            self.coldest.push(warm);
        } else if let Some(mut worst) = self.coldest.peek_mut()
            && warm < *worst
        {
            *worst = warm;
        }
        if warm.heat == 0 {
            return;
        }
        if self.hottest.len() < MOVES_MAX {
            self.hottest.push(Reverse(warm));
        } else if let Some(mut worst) = self.hottest.peek_mut()
            && warm > worst.0
        {
            *worst = Reverse(warm);
        }
    }

    pub(crate) fn tier(self) -> Tier {
        Tier {
            pages: self.pages,
            used: self.used,
            coldest: self.coldest.into_sorted_vec(),
            hottest: self.hottest.into_sorted_vec().into_iter().map(|r| r.0).collect(),
        }
    }
}

impl Area {
    /// Counts an access of `len` bytes to contiguous pages.
    pub(super) fn touch(&mut self, page: u32, count: u32, len: u64, way: Way) {
        let each = (len / u64::from(count.max(1))).div_ceil(ACCESS_BYTES).max(1);
        let heat = u32::try_from(each).unwrap_or(u32::MAX).saturating_mul(ACCESS);
        for page in &mut self.heat[(page - self.first) as usize..][..count as usize] {
            *page = page.saturating_add(heat);
        }
        match way {
            Way::Read => self.accesses.reads += each * u64::from(count),
            Way::Write => self.accesses.writes += each * u64::from(count),
        }
    }
}

impl Space {
    /// Counts an access of `len` bytes to contiguous pages of one group.
    pub(crate) fn touch(&mut self, page: u32, count: u32, len: u64, way: Way) {
        self.area_mut(page).touch(page, count, len, way);
    }

    /// Moves the heat of a page with it.
    pub(crate) fn carry_heat(&mut self, from: u32, to: u32) {
        let area = self.area(from);
        let heat = area.heat[(from - area.first) as usize];
        let area = self.area_mut(to);
        area.heat[(to - area.first) as usize] = heat;
    }

    /// Sets the class of the group that begins with this page.
    pub(crate) fn set_class(&mut self, first: u32, class: Class) {
        let i = self.position(first);
        self.areas[i].class = class;
        self.burst_left = 0;
    }

    /// Allocates a page of this class, from the group with the largest share of free pages.
    pub(crate) fn allocate_in(&mut self, class: Class) -> Option<super::Allocated> {
        let usable = |a: &Area| !a.closed && a.free_count > 0 && a.class == class;
        let candidates = (0..self.areas.len()).filter(|i| usable(&self.areas[*i]));
        let best = candidates.reduce(|best, i| self.freer(best, i))?;
        self.areas[best].allocate()
    }

    /// Reads the heat of some used pages from `from` on and halves it. On groups that are being evacuated it
    /// is only halved. Returns where to continue; `None` at the end.
    pub(crate) fn survey(&mut self, from: u32, surveys: &mut [Survey; 3]) -> Option<u32> {
        let i = self.position(from);
        let area = self.areas.get_mut(i)?;
        let start = from.max(area.first);
        let end = area.end.min(start.saturating_add(STEP_PAGES));
        let survey = &mut surveys[area.class as usize];
        for (page, i) in (start..end).zip((start - area.first) as usize..) {
            if area.refs[i].count > 0 && !area.closed {
                survey.note(Warm { heat: area.heat[i], page });
            }
            area.heat[i] /= 2;
        }
        if end == area.end && !area.closed {
            survey.pages += area.end - area.first;
            survey.used += area.used_count;
        }
        Some(end)
    }

    /// The accesses since the last call, by class.
    pub(crate) fn take_accesses(&mut self) -> [Accesses; 3] {
        let mut taken = [Accesses::default(); 3];
        for area in &mut self.areas {
            let accesses = std::mem::take(&mut area.accesses);
            let sum = &mut taken[area.class as usize];
            *sum = Accesses { reads: sum.reads + accesses.reads, writes: sum.writes + accesses.writes };
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let mut space = Space::default();
        space.add(0, 100, false, false);
        space.add(100, 200, false, false);
        space.set_class(0, Class::Fast);
        (0..150).for_each(|_| _ = space.allocate().expect("free"));
        space
    }

    fn survey(space: &mut Space) -> [Tier; 3] {
        let mut surveys: [Survey; 3] = Default::default();
        let mut next = Some(0);
        while let Some(from) = next {
            next = space.survey(from, &mut surveys);
        }
        surveys.map(Survey::tier)
    }

    #[test]
    fn accesses_are_counted_by_size_and_halved_exactly() {
        let mut space = space();
        space.touch(5, 1, 4096, Way::Read);
        space.touch(6, 1, 65_537, Way::Write);
        space.touch(100, 2, 128 << 10, Way::Read);
        assert_eq!(space.take_accesses()[0], Accesses { reads: 1, writes: 2 });
        assert_eq!(space.take_accesses(), [Accesses::default(); 3]);
        for age in 0..6 {
            let [fast, capacity, archive] = survey(&mut space);
            let of = |accesses: u32| (accesses * ACCESS) >> age;
            let expected = |heat, page| Warm { heat, page };
            let hot = vec![expected(of(2), 6), expected(of(1), 5)];
            let still: Vec<Warm> = hot.into_iter().filter(|w| w.heat > 0).collect();
            assert_eq!(fast.hottest, still, "age {age}");
            assert_eq!((fast.used + capacity.used, archive.pages), (150, 0));
            assert_eq!(fast.coldest[0], expected(0, 0));
        }
        (0..200).for_each(|_| space.touch(7, 1, u64::MAX, Way::Write));
        assert_eq!(
            survey(&mut space)[0].hottest[0],
            Warm { heat: u32::MAX, page: 7 },
            "it does not overflow"
        );
    }

    #[test]
    fn heat_goes_with_a_page_and_ends_with_it() {
        let mut space = space();
        (0..9).for_each(|_| space.touch(3, 1, 512, Way::Read));
        let new = space.allocate_in(Class::Capacity).expect("free").page;
        space.carry_heat(3, new);
        assert_eq!(survey(&mut space)[1].hottest, [Warm { heat: 9 * ACCESS, page: new }]);
        space.drop_reference(new, None);
        let released = space.take_releasing();
        space.released(&released);
        assert_eq!(survey(&mut space)[1].hottest, [], "what is free is not hot");
        while space.allocate_in(Class::Capacity).is_some() {}
        assert_eq!(survey(&mut space)[1].hottest, [], "who gets the page begins anew");
    }

    /// `cargo test --release -p pool ten_million -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    #[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement by hand")]
    fn ten_million_pages_are_looked_at() {
        let mut space = Space::default();
        space.add(0, 10 << 20, false, false);
        while space.allocate().is_some() {}
        let mut rng = world::Rng::with_seed(1);
        let begun = std::time::Instant::now();
        (0..10_000_000).for_each(|_| space.touch(rng.u32(0..10 << 20), 1, 4096, Way::Read));
        println!("an access: {} ns", begun.elapsed().as_nanos() / 10_000_000);
        let (begun, mut longest) = (std::time::Instant::now(), std::time::Duration::ZERO);
        let mut surveys: [Survey; 3] = Default::default();
        let mut next = Some(0);
        while let Some(from) = next {
            let step = std::time::Instant::now();
            next = space.survey(from, &mut surveys);
            longest = longest.max(step.elapsed());
        }
        println!("all pages: {:?}, the longest step {longest:?}", begun.elapsed());
    }
}
