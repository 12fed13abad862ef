//! The groups of a pool, their pages, and the holders of the metadata: plain data and pure changes of it.

use raid::GroupId;

use crate::layout::{GROUPS_MAX, HOLDERS_MAX, PAGE_BYTES_MAX, Place};

/// Pages begin at, and are spaced by, multiples of this: the smallest block of a drive.
const ALIGNMENT: u64 = 512;
/// A stride is at most a page and a row of 32 units of 16 MiB; no pool writes a larger one.
const STRIDE_MAX: u64 = PAGE_BYTES_MAX + (32 << 24);

/// The pages of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupEntry {
    pub(crate) group_id: GroupId,
    /// The offset of its first page.
    pub(crate) pages_at: u64,
    /// The distance from one page to the next: the page, rounded up to whole rows.
    pub(crate) stride: u64,
    /// The number of its first page in the pool.
    pub(crate) first_page: u32,
    pub(crate) pages: u32,
    /// No page of it is allocated any more.
    pub(crate) evacuating: bool,
}

impl GroupEntry {
    /// The page after the last one.
    pub(crate) fn end_page(&self) -> u32 {
        self.first_page + self.pages
    }

    /// The bytes that a group needs.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.pages_at.saturating_add(u64::from(self.pages).saturating_mul(self.stride))
    }
}

/// The groups at one time. Page numbers increase from group to group; those of a removed group are never used
/// again, so that nothing in an old journal or checkpoint can refer to a page of another group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) groups: Vec<GroupEntry>,
    /// The positions in `groups` of the holders of journal and checkpoints: two of them, or the only one.
    pub(crate) holders: Vec<u32>,
    /// The number of the first page of the next group.
    pub(crate) next_page: u32,
}

impl Table {
    /// The position of a group.
    pub(crate) fn position(&self, id: GroupId) -> Option<usize> {
        self.groups.iter().position(|g| g.group_id == id)
    }

    /// Pages of all groups.
    pub(crate) fn pages(&self) -> u64 {
        self.groups.iter().map(|g| u64::from(g.pages)).sum()
    }

    /// Whether the group at this place holds metadata.
    pub(crate) fn is_holder(&self, position: usize) -> bool {
        self.holders.iter().any(|h| *h as usize == position)
    }

    /// The table with one more group; `None` if page numbers or positions are exhausted.
    pub(crate) fn with(&self, group_id: GroupId, place: Place) -> Option<Table> {
        let pages = u32::try_from(place.pages).ok()?;
        // The last number means no page.
        let next_page = self.next_page.checked_add(pages).filter(|next| *next < u32::MAX)?;
        let (first_page, evacuating) = (self.next_page, false);
        let Place { pages_at, stride, .. } = place;
        let mut table = self.clone();
        table.groups.push(GroupEntry { group_id, pages_at, stride, first_page, pages, evacuating });
        table.next_page = next_page;
        table.elect();
        (table.groups.len() <= GROUPS_MAX).then_some(table)
    }

    /// The table without a group; another one replaces it as a holder.
    pub(crate) fn without(&self, position: usize) -> Table {
        let mut table = self.clone();
        table.groups.remove(position);
        let stays = self.holders.iter().filter(|h| **h as usize != position);
        table.holders = stays.map(|h| if *h as usize > position { h - 1 } else { *h }).collect();
        table.elect();
        table
    }

    /// The table with a group marked as being evacuated, or not.
    pub(crate) fn with_evacuating(&self, position: usize, evacuating: bool) -> Table {
        let mut table = self.clone();
        table.groups[position].evacuating = evacuating;
        table
    }

    /// Chooses missing holders, preferably groups that are not being evacuated.
    fn elect(&mut self) {
        while self.holders.len() < HOLDERS_MAX.min(self.groups.len()) {
            let candidates = (0..self.groups.len()).filter(|i| !self.is_holder(*i));
            let Some(next) = candidates.min_by_key(|i| (self.groups[*i].evacuating, *i)) else { return };
            self.holders.push(next as u32);
        }
    }

    /// Whether a decoded table is valid.
    pub(crate) fn is_sound(&self, page_bytes: u64) -> bool {
        let mut next = 0_u32;
        let in_order = self.groups.iter().all(|g| {
            let follows = g.first_page >= next;
            let end = g.first_page.checked_add(g.pages);
            next = end.unwrap_or(u32::MAX);
            let strides = (page_bytes..=STRIDE_MAX).contains(&g.stride)
                && g.stride.is_multiple_of(ALIGNMENT)
                && g.pages_at.is_multiple_of(ALIGNMENT);
            follows && end.is_some() && g.pages > 0 && strides && g.len_bytes() < 1 << 62
        });
        let distinct = (0..self.groups.len()).all(|i| self.position(self.groups[i].group_id) == Some(i));
        let holders = self.holders.iter().all(|h| (*h as usize) < self.groups.len());
        let differ = self.holders.first() != self.holders.get(1);
        let wanted = HOLDERS_MAX.min(self.groups.len());
        in_order
            && distinct
            && holders
            && differ
            && (1..=GROUPS_MAX).contains(&self.groups.len())
            && self.holders.len() == wanted
            && next <= self.next_page
            && self.next_page < u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { pages_at: 4096, stride: 65536, pages: 10 };

    fn id(i: u8) -> GroupId {
        GroupId([i; 16])
    }

    #[test]
    fn groups_come_and_go_and_numbers_of_pages_never_come_back() {
        let empty = Table::default();
        assert!(!empty.is_sound(65536));
        let one = empty.with(id(1), PLACE).expect("room");
        assert_eq!((one.holders.clone(), one.next_page), (vec![0], 10));
        let three = one.with(id(2), PLACE).and_then(|t| t.with(id(3), PLACE)).expect("room");
        assert_eq!((three.holders.clone(), three.pages()), (vec![0, 1], 30));
        let left = three.without(0);
        assert_eq!((left.holders.clone(), left.pages(), left.next_page), (vec![0, 1], 20, 30));
        let back = left.with(id(1), PLACE).expect("room");
        assert_eq!(back.groups[2].first_page, 30);
        assert_eq!(back.without(2).with(id(5), PLACE).expect("room").groups[2].first_page, 40);
        let leaving = back.with_evacuating(1, true).without(0);
        assert_eq!(leaving.holders, [0, 1], "both, though one is leaving: there are no others");
        let four = back.with(id(4), PLACE).expect("room").with_evacuating(2, true);
        assert_eq!(four.without(0).holders, [0, 2], "not the one that is leaving");
        for table in [one, three, left, back, leaving, four] {
            assert!(table.is_sound(65536), "{table:?}");
        }
    }

    #[test]
    fn a_table_ends_where_its_places_or_the_numbers_of_pages_end() {
        let mut table = Table::default();
        for i in 0..GROUPS_MAX {
            table = table.with(id(i as u8), PLACE).expect("room");
        }
        assert_eq!(table.with(id(99), PLACE), None);
        let vast = Place { pages: u64::from(u32::MAX) - 1, ..PLACE };
        assert!(Table::default().with(id(1), vast).is_some());
        assert_eq!(Table::default().with(id(1), Place { pages: vast.pages + 1, ..PLACE }), None);
    }
}
