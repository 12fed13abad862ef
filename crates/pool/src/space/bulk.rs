//! Operations on many pages: opening, cloning, deleting. They count runs of pages instead of single pages.

use super::{Area, Space};

/// The last area used: contiguous pages are mostly of one group.
struct Hand(usize);

impl Hand {
    fn take<'a>(&mut self, areas: &'a mut [Area], page: u32) -> Option<&'a mut Area> {
        let fits = |a: &Area| (a.first..a.end).contains(&page);
        if !areas.get(self.0).is_some_and(fits) {
            self.0 = areas.partition_point(|a| a.end <= page);
        }
        areas.get_mut(self.0).filter(|a| fits(a))
    }
}

impl Space {
    /// Adds the pages of a volume's map while the pool is being opened. [`Space::count_owners`] follows. A
    /// page on no group is an error.
    pub(crate) fn load(&mut self, volume: u32, pages: impl Iterator<Item = u32>) -> Result<(), u32> {
        let mut hand = Hand(0);
        for page in pages {
            let area = hand.take(&mut self.areas, page).ok_or(page)?;
            let refs = area.refs_mut(page);
            refs.count += 1;
            refs.owners ^= volume;
            if refs.count == 1 {
                area.free.set(page - area.first, false);
                area.free_count -= 1;
                area.used_count += 1;
            }
        }
        Ok(())
    }

    /// Counts shared and exclusive pages from scratch.
    pub(crate) fn count_owners(&mut self) {
        self.exclusive.clear();
        self.shared_count = 0;
        let mut row = (0, 0);
        for refs in self.areas.iter().flat_map(|a| &a.refs) {
            match refs.count {
                0 => {}
                1 if refs.owners == row.0 => row.1 += 1,
                1 => {
                    self.exclusive.add(row.0, row.1);
                    row = (refs.owners, 1);
                }
                _ => self.shared_count += 1,
            }
        }
        self.exclusive.add(row.0, row.1);
    }

    /// Shares pages of volume `from` with volume `to`.
    pub(crate) fn share(&mut self, from: u32, to: u32, pages: impl Iterator<Item = u32>) {
        let mut hand = Hand(0);
        let mut newly_shared = 0;
        for page in pages {
            let area = hand.take(&mut self.areas, page).expect("a mapped page is of a group");
            let refs = area.refs_mut(page);
            assert!(refs.count > 0, "page {page} is mapped and has no reference");
            newly_shared += u32::from(refs.count == 1);
            refs.count += 1;
            refs.owners ^= to;
        }
        // The only reference was the one of the volume whose map names the page.
        self.exclusive.remove(from, newly_shared);
        self.shared_count += newly_shared;
    }

    /// Drops a volume's references to these pages. `settles_at` is as in [`Space::drop_reference`].
    pub(crate) fn drop_many(
        &mut self,
        volume: u32,
        settles_at: Option<u64>,
        pages: impl Iterator<Item = u32>,
    ) {
        let mut hand = Hand(0);
        let (mut released, mut row) = (0, (0, 0));
        for page in pages {
            let area = hand.take(&mut self.areas, page).expect("a mapped page is of a group");
            let refs = area.refs_mut(page);
            assert!(refs.count > 0, "page {page} has no reference to drop");
            refs.count -= 1;
            refs.owners ^= volume;
            let refs = *refs;
            if let Some(commit) = settles_at {
                area.page_mut(page).settles_at = commit;
            }
            self.only_held_count += u32::from(self.held_count > 0 && area.is_only_held(page));
            match (refs.count, refs.owners) {
                (0, _) => {
                    assert_eq!(area.page(page).writers, 0, "page {page} is released while it is written");
                    area.used_count -= 1;
                    self.releasing.push(page);
                    released += 1;
                }
                (1, owner) => {
                    area.page_mut(page).is_left();
                    self.shared_count -= 1;
                    if owner != row.0 {
                        self.exclusive.add(row.0, row.1);
                        row = (owner, 0);
                    }
                    row.1 += 1;
                }
                _ => {}
            }
        }
        self.exclusive.add(row.0, row.1);
        self.exclusive.remove(volume, released);
    }
}
