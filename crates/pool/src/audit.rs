//! The invariants of a pool, checked from scratch: for tests, simulation and `masu check`.

use std::collections::BTreeMap;

use crate::Pool;
use crate::totals::Totals;

impl Pool {
    /// Compares every reference count with the maps, and the page counts with each other. Only valid while no
    /// operation is in flight and no ROD is held. Returns the findings.
    pub fn audit(&self) -> Vec<String> {
        let inner = &self.0;
        let space = inner.space.borrow();
        let mut findings = Vec::new();
        // References and owners of each page.
        let mut seen: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let mut entries = 0;
        for (id, volume) in inner.volumes.borrow().iter() {
            let map = volume.map.borrow();
            entries += map.mapped();
            for (index, page) in map.iter() {
                let page = seen.entry(page).or_default();
                *page = (page.0 + 1, page.1 ^ id);
                if u64::from(index) * inner.page_bytes >= volume.len_bytes.get() {
                    findings
                        .push(format!("volume {}: index {index} is past the end of the volume", volume.name));
                }
            }
        }
        let pages = || space.areas().flat_map(|a| a.first..a.first + a.pages);
        for page in pages() {
            let (counted, mapped) =
                ((space.refs(page), space.owners(page)), seen.get(&page).copied().unwrap_or_default());
            let refs = counted.0;
            if counted != mapped {
                findings.push(format!(
                    "page {page}: references and owners counted as {counted:?}, but the maps have {mapped:?}"
                ));
            }
            if refs > 0 && space.is_free(page) {
                findings.push(format!("page {page} is both free and in use"));
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
        for id in inner.volumes.borrow().keys() {
            let found = seen.values().filter(|(refs, owner)| *refs == 1 && owner == id).count() as u64;
            expect(&format!("exclusive pages of volume {id}"), space.exclusive(*id).into(), found);
        }
        expect("shared pages", space.shared().into(), seen.values().filter(|s| s.0 > 1).count() as u64);
        expect("map entries", inner.entries.get(), entries);
        expect("used pages", space.used().into(), seen.len() as u64);
        let free: u64 = space.areas().map(|a| u64::from(a.free)).sum();
        expect("free pages", free, pages().filter(|p| space.is_free(*p)).count() as u64);
        let accounted = u64::from(space.used()) + free + u64::from(space.waiting());
        expect("all pages", pages().count() as u64, accounted);
        expect("pages of the table", pages().count() as u64, inner.table().pages());
        let totals = Totals::of(inner.page_bytes, &inner.volumes.borrow(), &inner.records.borrow());
        if inner.totals != totals {
            findings.push(format!("totals: {:?} counted, {totals:?} found", inner.totals));
        }
        findings
    }
}
