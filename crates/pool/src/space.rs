//! The pages of a pool: references, operations in flight, and free pages.
//!
//! ```text
//!   free ──allocate──> used (refs > 0) ──last reference──> releasing ──commit durable──> free
//!                                                              └── still being read ──> lingering ──> free
//! ```

mod bulk;
mod clean;
pub(crate) mod heat;
mod held;
mod owners;

use std::collections::BTreeSet;

use heat::Accesses;
use owners::Exclusive;

use crate::placement::{Class, NEW_PERCENT_MAX};

/// Pages are allocated from one area until this many were taken, so that sequential writes are contiguous;
/// then from the area with the largest share of free pages.
const BURST_PAGES: u32 = 16;

/// The references of a page, separate from its operations: opening, cloning and deleting read nothing else.
#[derive(Clone, Copy, Default)]
struct Refs {
    /// Map entries and RODs that refer to it.
    count: u32,
    /// The exclusive or of the numbers of the volumes whose entries refer to it; with one reference, its
    /// owner (see `owners.rs`).
    owners: u32,
}

/// The operations on a page.
#[derive(Clone, Copy, Default)]
struct Page {
    /// Reads in flight.
    readers: u32,
    /// Some of them may have come by a reference that is gone: a write in place would change what they read,
    /// and they began before it, elsewhere.
    read_elsewhere: bool,
    /// Writes in place in flight.
    writers: u32,
    /// The commit that makes the current ownership durable.
    settles_at: u64,
}

impl Page {
    /// One reference is left.
    fn is_left(&mut self) {
        self.read_elsewhere = self.readers > 0;
    }
}

/// The pages of one group.
struct Area {
    first: u32,
    end: u32,
    refs: Vec<Refs>,
    /// Of the references of a page, those of RODs.
    held: Vec<u32>,
    pages: Vec<Page>,
    heat: Vec<u32>,
    accesses: Accesses,
    /// One bit per page that can be allocated.
    free: Bits,
    /// One bit per page that is known to hold zeros.
    clean: Bits,
    free_count: u32,
    used_count: u32,
    cursor: u32,
    /// No page is allocated any more.
    closed: bool,
    class: Class,
}

/// The page counts of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AreaSpace {
    /// Its first page, which identifies the group.
    pub(crate) first: u32,
    pub(crate) pages: u32,
    /// Referenced pages.
    pub(crate) used: u32,
    /// Free pages; the rest waits for a commit or for reads.
    pub(crate) free: u32,
    /// No page is allocated any more.
    pub(crate) closed: bool,
    pub(crate) class: Class,
}

/// All pages.
#[derive(Default)]
pub(crate) struct Space {
    /// In page order.
    areas: Vec<Area>,
    current: usize,
    burst_left: u32,
    /// Pages without a reference that the durable map may still have.
    releasing: Vec<u32>,
    /// Pages released durably, but still being read.
    lingering: BTreeSet<u32>,
    /// Pages with more than one reference.
    shared_count: u32,
    /// References of RODs.
    held_count: u64,
    /// Pages that only RODs refer to.
    only_held_count: u32,
    /// Exclusive pages of each volume.
    exclusive: Exclusive,
}

struct Bits(Vec<u64>);

impl Bits {
    fn new(len: usize, value: bool) -> Bits {
        Bits(vec![if value { u64::MAX } else { 0 }; len.div_ceil(64)])
    }

    fn get(&self, i: u32) -> bool {
        self.0[i as usize / 64] >> (i % 64) & 1 != 0
    }

    fn set(&mut self, i: u32, value: bool) {
        let bit = 1 << (i % 64);
        let word = &mut self.0[i as usize / 64];
        *word = if value { *word | bit } else { *word & !bit };
    }

    /// Whether all bits of a range are set, a word at a time where possible.
    fn all(&self, range: std::ops::Range<u32>) -> bool {
        let mut i = range.start;
        while i < range.end {
            let whole = i.is_multiple_of(64) && range.end - i >= 64;
            let set = if whole { self.0[i as usize / 64] == u64::MAX } else { self.get(i) };
            if !set {
                return false;
            }
            i += if whole { 64 } else { 1 };
        }
        true
    }

    /// The first set bit in `from..end`.
    fn first(&self, from: u32, end: u32) -> Option<u32> {
        let mut i = from;
        while i < end {
            let rest = self.0[i as usize / 64] >> (i % 64);
            if rest != 0 {
                let found = i + rest.trailing_zeros();
                return (found < end).then_some(found);
            }
            i = (i / 64 + 1) * 64;
        }
        None
    }
}

/// An allocated page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) page: u32,
    /// Whether it holds only zeros.
    pub(crate) clean: bool,
}

impl Area {
    fn new(first: u32, end: u32, clean: bool, closed: bool) -> Area {
        let count = end - first;
        let len = count as usize;
        Area {
            first,
            end,
            refs: vec![Refs::default(); len],
            held: vec![0; len],
            pages: vec![Page::default(); len],
            heat: vec![0; len],
            accesses: Accesses::default(),
            free: Bits::new(len, true),
            clean: Bits::new(len, clean),
            free_count: count,
            used_count: 0,
            cursor: 0,
            closed,
            class: Class::default(),
        }
    }

    fn refs(&self, page: u32) -> Refs {
        self.refs[(page - self.first) as usize]
    }

    fn refs_mut(&mut self, page: u32) -> &mut Refs {
        &mut self.refs[(page - self.first) as usize]
    }

    fn page(&self, page: u32) -> &Page {
        &self.pages[(page - self.first) as usize]
    }

    fn page_mut(&mut self, page: u32) -> &mut Page {
        &mut self.pages[(page - self.first) as usize]
    }

    fn range(&mut self, page: u32, count: u32) -> &mut [Page] {
        &mut self.pages[(page - self.first) as usize..][..count as usize]
    }

    /// The next free page after the last one taken, wrapping around.
    fn next_free(&mut self) -> Option<u32> {
        let end = self.end - self.first;
        let i = self.free.first(self.cursor, end).or_else(|| self.free.first(0, self.cursor))?;
        self.cursor = i + 1;
        Some(self.first + i)
    }

    fn take(&mut self, page: u32) {
        self.free.set(page - self.first, false);
        self.free_count -= 1;
        self.used_count += 1;
        let state = self.page_mut(page);
        let idle = state.readers == 0 && state.writers == 0;
        // The page was free, so the durable map does not have it.
        *state = Page::default();
        self.heat[(page - self.first) as usize] = 0;
        let refs = self.refs_mut(page);
        assert!(refs.count == 0 && idle, "page {page} was free and in use");
        refs.count = 1;
    }

    /// Allocates a free page.
    fn allocate(&mut self) -> Option<Allocated> {
        let page = self.next_free()?;
        self.take(page);
        let clean = self.clean.get(page - self.first);
        self.clean.set(page - self.first, false);
        Some(Allocated { page, clean })
    }

    fn space(&self) -> AreaSpace {
        let Area { first, end, used_count: used, free_count: free, closed, class, .. } = *self;
        AreaSpace { first, pages: end - first, used, free, closed, class }
    }
}

impl Space {
    /// Adds the pages of a group, all free, after the existing ones.
    pub(crate) fn add(&mut self, first: u32, end: u32, clean: bool, closed: bool) {
        assert!(self.areas.last().is_none_or(|a| a.end <= first), "pages from {first} on are there already");
        self.areas.push(Area::new(first, end, clean, closed));
    }

    /// Removes the pages of a group, which are all free.
    pub(crate) fn remove(&mut self, first: u32) {
        let i = self.position(first);
        let area = self.areas.remove(i).space();
        assert_eq!((area.first, area.free), (first, area.pages), "pages are taken out that are not all free");
        (self.current, self.burst_left) = (0, 0);
    }

    /// Closes or reopens a group for allocation.
    pub(crate) fn close(&mut self, first: u32, closed: bool) {
        let i = self.position(first);
        self.areas[i].closed = closed;
        self.burst_left = 0;
    }

    /// The area with this page, or the next one.
    fn position(&self, page: u32) -> usize {
        self.areas.partition_point(|a| a.end <= page)
    }

    fn area(&self, page: u32) -> &Area {
        &self.areas[self.position(page)]
    }

    fn area_mut(&mut self, page: u32) -> &mut Area {
        let i = self.position(page);
        &mut self.areas[i]
    }

    /// Whether any group has this page.
    pub(crate) fn has(&self, page: u32) -> bool {
        self.areas.get(self.position(page)).is_some_and(|a| a.first <= page)
    }

    /// Allocates a free page; the caller owns its first reference.
    pub(crate) fn allocate(&mut self) -> Option<Allocated> {
        let usable = |a: &Area| !a.closed && a.free_count > 0;
        if self.burst_left == 0 || !usable(&self.areas[self.current]) {
            let best = |i: &usize| usable(&self.areas[*i]).then(|| self.preference(self.areas[*i].class));
            let class = (0..self.areas.len()).filter_map(|i| best(&i)).min()?;
            let candidates = (0..self.areas.len()).filter(|i| best(i) == Some(class));
            self.current = candidates.reduce(|best, i| self.freer(best, i))?;
            self.burst_left = BURST_PAGES;
        }
        self.burst_left -= 1;
        self.areas[self.current].allocate()
    }

    /// The order of allocation: the fastest class with room for new pages; if none has room, the slowest one,
    /// so that the rest of the faster ones stays reserved for hot pages.
    fn preference(&self, class: Class) -> (bool, u8) {
        let open = || self.areas.iter().filter(|a| !a.closed && a.class == class);
        let pages: u64 = open().map(|a| a.pages.len() as u64).sum();
        let used: u64 = open().map(|a| u64::from(a.used_count)).sum();
        match used * 100 < pages * NEW_PERCENT_MAX {
            true => (false, class as u8),
            false => (true, u8::MAX - class as u8),
        }
    }

    /// Of two areas the one with the larger share of free pages; of equal ones the first.
    fn freer(&self, a: usize, b: usize) -> usize {
        let share = |i: usize, other: usize| {
            u64::from(self.areas[i].free_count) * self.areas[other].pages.len() as u64
        };
        if share(b, a) > share(a, b) { b } else { a }
    }

    /// Allocates a free page of the group that begins with page `first`.
    pub(crate) fn allocate_on(&mut self, first: u32) -> Option<Allocated> {
        let i = self.areas.iter().position(|a| a.first == first && !a.closed)?;
        self.areas[i].allocate()
    }

    /// The page counts of all groups.
    pub(crate) fn areas(&self) -> impl Iterator<Item = AreaSpace> + '_ {
        self.areas.iter().map(Area::space)
    }

    /// Referenced pages from `from` on, of the group that has `from`: at most `max`, and with at most
    /// `refs_max` references in total, but at least one page.
    pub(crate) fn used_from(&self, from: u32, max: usize, refs_max: u64) -> Vec<u32> {
        let area = self.area(from);
        let mut found = Vec::new();
        let mut refs = 0;
        for page in from.max(area.first)..area.end {
            let count = u64::from(area.refs(page).count);
            if count == 0 {
                continue;
            }
            if found.len() == max || (refs + count > refs_max && !found.is_empty()) {
                break;
            }
            refs += count;
            found.push(page);
        }
        found
    }

    /// Adds a reference without an owner.
    pub(crate) fn refer(&mut self, page: u32) {
        let was_held = self.is_only_held(page);
        let refs = self.area_mut(page).refs_mut(page);
        assert!(refs.count > 0, "page {page} is free or being released");
        refs.count += 1;
        let Refs { count, owners } = *refs;
        self.only_held_count -= u32::from(was_held);
        if count == 2 {
            self.shared_count += 1;
            self.exclusive.remove(owners, 1);
        }
    }

    /// Drops a reference without an owner. `settles_at` is the commit that makes it durable; `None` if the
    /// reference was never in a map that could become durable. Returns whether it was the last one.
    pub(crate) fn drop_reference(&mut self, page: u32, settles_at: Option<u64>) -> bool {
        let area = self.area_mut(page);
        let refs = area.refs_mut(page);
        assert!(refs.count > 0, "page {page} has no reference to drop");
        refs.count -= 1;
        let Refs { count, owners } = *refs;
        if let Some(commit) = settles_at {
            area.page_mut(page).settles_at = commit;
        }
        let is_held = self.is_only_held(page);
        self.only_held_count += u32::from(is_held);
        let area = self.area_mut(page);
        if count > 0 {
            if count == 1 {
                area.page_mut(page).is_left();
                self.shared_count -= 1;
                self.exclusive.add(owners, 1);
            }
            return false;
        }
        assert_eq!(owners, 0, "page {page} is released while a volume owns it");
        assert_eq!(area.page(page).writers, 0, "page {page} is released while it is written");
        area.used_count -= 1;
        self.releasing.push(page);
        true
    }

    pub(crate) fn refs(&self, page: u32) -> u32 {
        self.area(page).refs(page).count
    }

    pub(crate) fn writers(&self, page: u32) -> u32 {
        self.area(page).page(page).writers
    }

    /// The commit that must be durable before the page can be written in place.
    pub(crate) fn settles_at(&self, page: u32) -> u64 {
        self.area(page).page(page).settles_at
    }

    /// How many of the contiguous pages from `page` on, at most `max`, can be written in place once `done`
    /// commits are durable.
    pub(crate) fn writable(&self, page: u32, max: u32, done: u64) -> u32 {
        let area = self.area(page);
        let settled = |p: &u32| {
            let state = area.page(*p);
            area.refs(*p).count == 1 && state.settles_at <= done && !state.read_elsewhere
        };
        (page..page + max).take_while(settled).count() as u32
    }

    /// Whether reads in flight may have come by a reference to the page that is gone.
    pub(crate) fn is_read_elsewhere(&self, page: u32) -> bool {
        self.area(page).page(page).read_elsewhere
    }

    pub(crate) fn begin_write(&mut self, page: u32, count: u32) {
        self.area_mut(page).range(page, count).iter_mut().for_each(|p| p.writers += 1);
    }

    pub(crate) fn end_write(&mut self, page: u32, count: u32) {
        self.area_mut(page).range(page, count).iter_mut().for_each(|p| p.writers -= 1);
    }

    pub(crate) fn begin_read(&mut self, page: u32, count: u32) {
        self.area_mut(page).range(page, count).iter_mut().for_each(|p| p.readers += 1);
    }

    /// Returns whether a page became free, or can be written in place again.
    pub(crate) fn end_read(&mut self, page: u32, count: u32) -> bool {
        let mut freed = false;
        for p in page..page + count {
            let area = self.area_mut(p);
            let unused = area.refs(p).count == 0;
            let state = area.page_mut(p);
            state.readers -= 1;
            freed |= state.readers == 0 && std::mem::take(&mut state.read_elsewhere);
            if state.readers == 0 && unused && self.lingering.remove(&p) {
                self.put_back(p);
                freed = true;
            }
        }
        freed
    }

    /// The pages released since the last call: free once the current commit is durable.
    pub(crate) fn take_releasing(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.releasing)
    }

    /// The releases are durable.
    pub(crate) fn released(&mut self, pages: &[u32]) {
        for &page in pages {
            if self.area(page).page(page).readers > 0 {
                self.lingering.insert(page);
            } else {
                self.put_back(page);
            }
        }
    }

    fn put_back(&mut self, page: u32) {
        let area = self.area_mut(page);
        assert_eq!(area.refs(page).count, 0, "page {page} is freed while it is referred to");
        area.free.set(page - area.first, true);
        area.free_count += 1;
    }

    /// Pages that can be allocated now.
    pub(crate) fn free_now(&self) -> u32 {
        self.areas.iter().filter(|a| !a.closed).map(|a| a.free_count).sum()
    }

    /// Whether pages wait for the next commit.
    pub(crate) fn is_releasing(&self) -> bool {
        !self.releasing.is_empty()
    }

    /// Whether pages wait for reads in flight.
    pub(crate) fn is_lingering(&self) -> bool {
        !self.lingering.is_empty()
    }

    /// Pages that wait for a commit or for reads in flight. (A running commit holds some more.)
    pub(crate) fn waiting(&self) -> u32 {
        (self.releasing.len() + self.lingering.len()) as u32
    }

    pub(crate) fn is_free(&self, page: u32) -> bool {
        let area = self.area(page);
        area.free.get(page - area.first)
    }

    /// Whether operations on the page are in flight.
    pub(crate) fn is_in_use(&self, page: u32) -> bool {
        let state = self.area(page).page(page);
        state.readers > 0 || state.writers > 0
    }

    /// Referenced pages.
    pub(crate) fn used(&self) -> u32 {
        self.areas.iter().map(|a| a.used_count).sum()
    }

    /// The size of the pool in pages: of a closed group only the used ones count, because its free pages
    /// cannot be allocated.
    pub(crate) fn total(&self) -> u32 {
        self.areas.iter().map(|a| if a.closed { a.used_count } else { a.end - a.first }).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_from_the_area_with_the_largest_free_share_and_none_from_a_closed_one() {
        let mut space = Space::default();
        space.add(0, 1000, false, false);
        space.add(1000, 1100, true, false);
        space.add(2000, 2064, false, true);
        assert!(space.has(0) && space.has(1099) && !space.has(1100) && !space.has(1999) && space.has(2063));
        for _ in 0..550 {
            space.allocate().expect("free");
        }
        let [a, b, c]: [AreaSpace; 3] = space.areas().collect::<Vec<_>>().try_into().expect("three");
        let shares = (f64::from(a.used) / 1000.0, f64::from(b.used) / 100.0);
        assert!((shares.0 - shares.1).abs() < 0.17, "{shares:?}");
        assert_eq!((c.used, space.total(), space.free_now()), (0, 1100, 550));
        assert_eq!((space.allocate_on(2000), space.allocate_on(7)), (None, None));
        assert!(space.allocate_on(1000).expect("free").clean);
        space.close(2000, false);
        assert_eq!(space.allocate().map(|a| a.page), Some(2000), "it is empty");
        space.close(0, true);
        space.close(1000, true);
        assert_eq!((0..64).filter_map(|_| space.allocate()).count(), 63);
    }

    #[test]
    fn what_is_taken_out_was_free() {
        let mut space = Space::default();
        space.add(0, 10, false, false);
        space.add(10, 20, false, false);
        let page = space.allocate_on(0).expect("free").page;
        space.close(0, true);
        assert_eq!(space.used_from(0, 10, 10), [page]);
        assert_eq!((space.total(), space.used(), space.free_now()), (11, 1, 10));
        space.drop_reference(page, None);
        let released = space.take_releasing();
        space.released(&released);
        space.remove(0);
        assert_eq!((space.total(), space.has(3), space.has(13)), (10, false, true));
        assert_eq!(space.allocate().map(|a| a.page), Some(10));
    }
}
