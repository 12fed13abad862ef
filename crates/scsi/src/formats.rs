//! In which format the logical units of other controllers send sense data, as far as this nexus has heard.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::request::Lun;
use crate::sense::Format;

/// By LUN: the logical unit there ([`crate::Identity::key`]), and its format.
#[derive(Default)]
pub(crate) struct Formats(RefCell<BTreeMap<Lun, (u64, Format)>>);

impl Formats {
    /// The logical unit at this LUN has used this format.
    pub(crate) fn hear(&self, lun: Lun, key: u64, format: Format) {
        let mut all = self.0.borrow_mut();
        match (all.get(&lun), format) {
            (Some(known), _) if *known == (key, format) => {}
            // That is what is taken of those that nothing is heard of.
            (None, Format::Fixed) => {}
            _ => _ = all.insert(lun, (key, format)),
        }
    }

    /// That of the logical unit at this LUN.
    pub(crate) fn of(&self, lun: Lun, key: u64) -> Format {
        let all = self.0.borrow();
        all.get(&lun).filter(|(of, _)| *of == key).map_or(Format::Fixed, |(_, format)| *format)
    }
}
