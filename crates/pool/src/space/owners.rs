//! Ownership of pages: the exclusive space of each volume, known at any time without reading its map.
//!
//! Every page has the exclusive or of the numbers of the volumes whose entries refer to it. A volume changes
//! it by its own number when it adds or drops a reference; when one reference is left, the remainder is the
//! number of its owner. RODs, and pages that are about to be mapped, have no owner: 0, which is no volume's
//! number.

use std::collections::BTreeMap;

use super::Space;

/// Pages per volume; volumes without pages are not in it.
#[derive(Default)]
pub(super) struct Exclusive(BTreeMap<u32, u32>);

impl Exclusive {
    pub(super) fn add(&mut self, volume: u32, pages: u32) {
        if volume != 0 && pages > 0 {
            *self.0.entry(volume).or_default() += pages;
        }
    }

    pub(super) fn remove(&mut self, volume: u32, pages: u32) {
        if volume == 0 || pages == 0 {
            return;
        }
        let count = self.0.get_mut(&volume).expect("the volume has pages for itself");
        *count -= pages;
        if *count == 0 {
            self.0.remove(&volume);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Space {
    /// A reference without an owner becomes an entry of this volume's map.
    pub(crate) fn own(&mut self, page: u32, volume: u32) {
        let refs = self.area_mut(page).refs_mut(page);
        refs.owners ^= volume;
        if refs.count == 1 {
            self.exclusive.add(volume, 1);
        }
    }

    /// An entry of this volume's map is dropped; its reference has no owner.
    pub(crate) fn disown(&mut self, page: u32, volume: u32) {
        let refs = self.area_mut(page).refs_mut(page);
        refs.owners ^= volume;
        if refs.count == 1 {
            self.exclusive.remove(volume, 1);
        }
    }

    /// Exclusive pages of a volume.
    pub(crate) fn exclusive(&self, volume: u32) -> u32 {
        self.exclusive.0.get(&volume).copied().unwrap_or(0)
    }

    /// Pages with more than one reference.
    pub(crate) fn shared(&self) -> u32 {
        self.shared_count
    }

    /// The exclusive or of the owners of a page.
    pub(crate) fn owners(&self, page: u32) -> u32 {
        self.area(page).refs(page).owners
    }
}
