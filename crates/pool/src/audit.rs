//! What must always hold, checked from scratch: for tests, simulation, and whoever wants to know.

use std::collections::BTreeMap;

use crate::Pool;

impl Pool {
    /// Compares every reference count with the maps, and the counts of pages with each other. Only meaningful while no
    /// operation is in flight and no ROD is held. The findings, in words; none when all is well.
    pub fn audit(&self) -> Vec<String> {
        let inner = &self.0;
        let space = inner.space.borrow();
        let mut findings = Vec::new();
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        let mut entries = 0;
        for volume in inner.volumes.borrow().values() {
            let map = volume.map.borrow();
            entries += map.mapped();
            for (index, page) in map.iter() {
                *seen.entry(page).or_default() += 1;
                if u64::from(index) * inner.page_bytes >= volume.len_bytes.get() {
                    findings.push(format!("volume {}: index {index} is past its end", volume.name));
                }
            }
        }
        let pages = || space.areas().flat_map(|a| a.first..a.first + a.pages);
        for page in pages() {
            let (refs, mapped) = (space.refs(page), seen.get(&page).copied().unwrap_or(0));
            if refs != mapped {
                findings.push(format!("page {page}: {refs} references are counted, {mapped} are in maps"));
            }
            if refs > 0 && space.is_free(page) {
                findings.push(format!("page {page} is free and in use"));
            }
            if space.is_in_use(page) {
                findings.push(format!("page {page} has operations in flight"));
            }
        }
        let mut expect = |what: &str, counted: u64, found: u64| {
            if counted != found {
                findings.push(format!("{what}: {counted} counted, {found} found"));
            }
        };
        expect("map entries", inner.entries.get(), entries);
        expect("used pages", space.used().into(), seen.len() as u64);
        let free: u64 = space.areas().map(|a| u64::from(a.free)).sum();
        expect("free pages", free, pages().filter(|p| space.is_free(*p)).count() as u64);
        let accounted = u64::from(space.used()) + free + u64::from(space.waiting());
        expect("all pages", pages().count() as u64, accounted);
        expect("pages of the table", pages().count() as u64, inner.table().pages());
        findings
    }
}
