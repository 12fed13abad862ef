//! Pages that RODs hold: those that no volume refers to any more are space that only tokens take.

use super::Space;

impl Space {
    /// Adds the reference of a ROD.
    pub(crate) fn hold(&mut self, page: u32) {
        self.refer(page);
        self.set_held(page, |held| held + 1);
        self.held_count += 1;
    }

    /// The reference of a ROD is one like others from now on, to be dropped.
    pub(crate) fn let_go(&mut self, page: u32) {
        self.set_held(page, |held| held - 1);
        self.held_count -= 1;
    }

    fn set_held(&mut self, page: u32, next: impl Fn(u32) -> u32) {
        let before = self.area(page).is_only_held(page);
        let area = self.area_mut(page);
        let held = &mut area.held[(page - area.first) as usize];
        *held = next(*held);
        let after = area.is_only_held(page);
        self.only_held_count = self.only_held_count + u32::from(after) - u32::from(before);
    }

    /// Whether only RODs refer to a page; at no cost while there are none.
    pub(super) fn is_only_held(&self, page: u32) -> bool {
        self.held_count > 0 && self.area(page).is_only_held(page)
    }

    /// Pages that only RODs refer to.
    pub(crate) fn only_held(&self) -> u32 {
        self.only_held_count
    }
}

impl super::Area {
    pub(super) fn is_only_held(&self, page: u32) -> bool {
        let held = self.held[(page - self.first) as usize];
        held > 0 && held == self.refs(page).count
    }
}
