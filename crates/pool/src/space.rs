//! The pages of a pool: who refers to them, who is using them, which are free.
//!
//! ```text
//!   free ──allocate──> used (refs > 0) ──last reference──> releasing ──commit durable──> free
//!                                                              └── still being read ──> lingering ──> free
//! ```

use std::collections::BTreeSet;

/// Pages are taken from one area until this many were taken, so that what is written in a row lies in a row; then from
/// the area with the most free pages.
const BURST_PAGES: u32 = 16;

/// One page.
#[derive(Clone, Copy, Default)]
struct Page {
    /// Map entries and RODs that refer to it.
    refs: u32,
    /// Reads in flight.
    readers: u32,
    /// Writes in place in flight.
    writers: u32,
    /// The commit with which the present ownership is durable.
    settles_at: u64,
}

/// The pages of one group.
struct Area {
    first: u32,
    end: u32,
    free: u32,
    cursor: u32,
}

/// All pages.
pub(crate) struct Space {
    pages: Vec<Page>,
    /// One bit per page that may be allocated.
    free: Bits,
    /// One bit per page that is known to hold zeros.
    clean: Bits,
    areas: Vec<Area>,
    current: usize,
    burst_left: u32,
    free_count: u32,
    used_count: u32,
    /// Without a reference, but the durable map may still have one.
    releasing: Vec<u32>,
    /// Released durably, but still being read.
    lingering: BTreeSet<u32>,
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

/// A page that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) page: u32,
    /// It holds zeros everywhere.
    pub(crate) clean: bool,
}

impl Space {
    /// All pages free. `areas` are the first and the end page of each group.
    pub(crate) fn new(areas: &[(u32, u32)], clean: bool) -> Space {
        let count = areas.last().map_or(0, |a| a.1);
        let areas = areas.iter().map(|&(first, end)| Area { first, end, free: end - first, cursor: first });
        let mut space = Space {
            pages: vec![Page::default(); count as usize],
            free: Bits::new(count as usize, true),
            clean: Bits::new(count as usize, clean),
            areas: areas.collect(),
            current: 0,
            burst_left: 0,
            free_count: count,
            used_count: 0,
            releasing: Vec::new(),
            lingering: BTreeSet::new(),
        };
        // Bits past the last page would never be found, but must not be counted either.
        (count..(count as usize).div_ceil(64) as u32 * 64).for_each(|i| space.free.set(i, false));
        space
    }

    /// Takes a free page; its first reference is the caller's.
    pub(crate) fn allocate(&mut self) -> Option<Allocated> {
        if self.burst_left == 0 || self.areas[self.current].free == 0 {
            let most = |i: &usize| (self.areas[*i].free, usize::MAX - i);
            self.current = (0..self.areas.len()).max_by_key(most)?;
            self.burst_left = BURST_PAGES;
        }
        self.burst_left -= 1;
        let area = &mut self.areas[self.current];
        let page =
            self.free.first(area.cursor, area.end).or_else(|| self.free.first(area.first, area.cursor))?;
        area.cursor = page + 1;
        self.take(page);
        let clean = self.clean.get(page);
        self.clean.set(page, false);
        Some(Allocated { page, clean })
    }

    fn take(&mut self, page: u32) {
        self.free.set(page, false);
        self.area(page).free -= 1;
        self.free_count -= 1;
        self.used_count += 1;
        let state = &mut self.pages[page as usize];
        assert!(
            state.refs == 0 && state.readers == 0 && state.writers == 0,
            "page {page} was free and in use"
        );
        // Nobody else has it in the durable map: it was free.
        *state = Page { refs: 1, readers: 0, writers: 0, settles_at: 0 };
    }

    fn area(&mut self, page: u32) -> &mut Area {
        let i = self.areas.partition_point(|a| a.end <= page);
        &mut self.areas[i]
    }

    /// One more reference; while opening also the first.
    pub(crate) fn refer(&mut self, page: u32) {
        if self.pages[page as usize].refs == 0 {
            assert!(self.free.get(page), "page {page} is being released");
            return self.take(page);
        }
        self.pages[page as usize].refs += 1;
    }

    /// One reference less. `settles_at` is the commit that makes it durable; `None` when the reference never was in a map
    /// that could become durable. Whether it was the last one.
    pub(crate) fn drop_reference(&mut self, page: u32, settles_at: Option<u64>) -> bool {
        let state = &mut self.pages[page as usize];
        assert!(state.refs > 0, "page {page} has no reference to drop");
        state.refs -= 1;
        if let Some(commit) = settles_at {
            state.settles_at = commit;
        }
        if state.refs > 0 {
            return false;
        }
        assert_eq!(state.writers, 0, "page {page} is released while it is written");
        self.used_count -= 1;
        self.releasing.push(page);
        true
    }

    pub(crate) fn refs(&self, page: u32) -> u32 {
        self.pages[page as usize].refs
    }

    pub(crate) fn writers(&self, page: u32) -> u32 {
        self.pages[page as usize].writers
    }

    /// The commit that must be durable before the page may be written in place.
    pub(crate) fn settles_at(&self, page: u32) -> u64 {
        self.pages[page as usize].settles_at
    }

    /// How many of the pages from `page` on, at most `max`, may be written in place when `done` commits are durable.
    pub(crate) fn writable(&self, page: u32, max: u32, done: u64) -> u32 {
        let pages = &self.pages[page as usize..][..max as usize];
        pages.iter().take_while(|p| p.refs == 1 && p.settles_at <= done).count() as u32
    }

    pub(crate) fn begin_write(&mut self, page: u32, count: u32) {
        self.pages[page as usize..][..count as usize].iter_mut().for_each(|p| p.writers += 1);
    }

    pub(crate) fn end_write(&mut self, page: u32, count: u32) {
        self.pages[page as usize..][..count as usize].iter_mut().for_each(|p| p.writers -= 1);
    }

    pub(crate) fn begin_read(&mut self, page: u32, count: u32) {
        self.pages[page as usize..][..count as usize].iter_mut().for_each(|p| p.readers += 1);
    }

    /// Whether a page became free by it.
    pub(crate) fn end_read(&mut self, page: u32, count: u32) -> bool {
        let mut freed = false;
        for p in page..page + count {
            let state = &mut self.pages[p as usize];
            state.readers -= 1;
            if state.readers == 0 && state.refs == 0 && self.lingering.remove(&p) {
                self.put_back(p);
                freed = true;
            }
        }
        freed
    }

    /// What was released since the last call: free once the commit that is being made is durable.
    pub(crate) fn take_releasing(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.releasing)
    }

    /// The releases are durable.
    pub(crate) fn released(&mut self, pages: &[u32]) {
        for &page in pages {
            if self.pages[page as usize].readers > 0 {
                self.lingering.insert(page);
            } else {
                self.put_back(page);
            }
        }
    }

    fn put_back(&mut self, page: u32) {
        assert_eq!(self.pages[page as usize].refs, 0, "page {page} is freed while it is referred to");
        self.free.set(page, true);
        self.area(page).free += 1;
        self.free_count += 1;
    }

    /// Pages that can be allocated now.
    pub(crate) fn free_now(&self) -> u32 {
        self.free_count
    }

    /// Whether pages wait for the next commit.
    pub(crate) fn is_releasing(&self) -> bool {
        !self.releasing.is_empty()
    }

    /// Whether pages wait for reads in flight.
    pub(crate) fn is_lingering(&self) -> bool {
        !self.lingering.is_empty()
    }

    /// Pages that wait for a commit or for reads in flight. (A commit that is being made holds some more.)
    pub(crate) fn waiting(&self) -> u32 {
        (self.releasing.len() + self.lingering.len()) as u32
    }

    pub(crate) fn is_free(&self, page: u32) -> bool {
        self.free.get(page)
    }

    /// Whether something reads or writes the page right now.
    pub(crate) fn is_in_use(&self, page: u32) -> bool {
        let state = &self.pages[page as usize];
        state.readers > 0 || state.writers > 0
    }

    /// Pages with a reference.
    pub(crate) fn used(&self) -> u32 {
        self.used_count
    }

    /// All pages.
    pub(crate) fn total(&self) -> u32 {
        self.pages.len() as u32
    }
}
