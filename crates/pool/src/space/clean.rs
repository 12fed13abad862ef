//! Free pages that are known to hold zeros.

use std::ops::Range;

use raid::Contents;

use super::Space;

impl Space {
    /// The content of pages of one group.
    pub(crate) fn contents(&self, pages: Range<u32>) -> Contents {
        let area = self.area(pages.start);
        let mut own = pages.start - area.first..pages.end - area.first;
        match (area.clean.all(own.clone()), own.all(|i| area.free.get(i))) {
            (true, _) => Contents::Zeros,
            (false, true) => Contents::Free,
            (false, false) => Contents::Kept,
        }
    }

    /// Takes the first contiguous free pages that are not known to hold zeros: at most `max`, and only so
    /// many that most free pages remain free. [`Space::give_back`] returns them.
    pub(crate) fn take_unclean(&mut self, pages: Range<u32>, max: u32) -> Option<Range<u32>> {
        let max = max.min(self.free_now() / 4);
        if pages.is_empty() {
            // After the last page of a group, another group or nothing follows.
            return None;
        }
        let area = self.area_mut(pages.start);
        if area.closed {
            // The group leaves the pool: once all of its pages are free, nobody may take one.
            return None;
        }
        let own = pages.start - area.first..(pages.end - area.first).min(area.end - area.first);
        let unclean = |i: &u32| area.free.get(*i) && !area.clean.get(*i);
        let first = own.clone().find(|i| unclean(i)).filter(|_| max > 0)?;
        let end = (first..own.end.min(first + max)).take_while(unclean).last()? + 1;
        (first..end).for_each(|i| area.free.set(i, false));
        area.free_count -= end - first;
        Some(area.first + first..area.first + end)
    }

    /// Returns pages that [`Space::take_unclean`] took.
    pub(crate) fn give_back(&mut self, pages: Range<u32>, clean: bool) {
        let area = self.area_mut(pages.start);
        for i in pages.start - area.first..pages.end - area.first {
            area.free.set(i, true);
            area.clean.set(i, clean);
        }
        area.free_count += pages.end - pages.start;
    }
}
