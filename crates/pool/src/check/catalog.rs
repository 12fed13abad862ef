//! Checks the state: volumes, maps, records.

use std::collections::BTreeMap;

use super::copies::Copy;
use super::report::Report;
use crate::catalog::{Cataloged, volume_prefix};
use crate::layout::BLOCK_BYTES;
use crate::layout::{RECORD_BYTES_MAX, RECORD_NAME_LEN_MAX, record_size};
use crate::record::VOLUME_NAME_LEN_MAX;
use crate::superblock::Superblock;

/// Checks the state of one copy.
pub(super) fn check(copy: &Copy, reference: &Superblock, report: &mut Report) {
    let catalog = &copy.catalog;
    let pool = format!("pool {} in the metadata of group {}", reference.name, copy.group);
    if let Some(fault) = catalog.thresholds.fault() {
        report.damage(&pool, fault);
    }
    let entries: u64 = catalog.volumes.values().map(|v| v.map.mapped()).sum();
    let mut limit = |what: &str, found: u64, max: u64| {
        if found > max {
            report.damage(&pool, format!("{found} {what}, but the maximum is {max}"));
        }
    };
    limit("map entries", entries, reference.layout.entries_max());
    limit("volumes", catalog.volumes.len() as u64, reference.layout.volumes_max() as u64);
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    let mut taken = Taken(vec![0; (reference.table.next_page as usize).div_ceil(64)]);
    for (id, volume) in &catalog.volumes {
        let place = format!("volume {} ({id}) of {pool}", volume.name);
        if *id == 0 || *id >= catalog.next_volume {
            report.damage(&place, format!("invalid number: the next number is {}", catalog.next_volume));
        }
        if let Some(other) = names.insert(&volume.name, *id) {
            report.damage(&place, format!("volume {other} has the same name"));
        }
        check_volume(volume, &place, reference, report);
        check_pages(volume, &place, reference, &mut taken, report);
    }
    check_records(copy, &pool, reference, report);
}

fn check_volume(volume: &Cataloged, place: &str, reference: &Superblock, report: &mut Report) {
    if volume.unfinished {
        report.harmless(place, "unfinished: creation was interrupted");
    }
    if volume.name.is_empty() || volume.name.len() > VOLUME_NAME_LEN_MAX {
        report.damage(place, format!("invalid name of {} bytes", volume.name.len()));
    }
    let (len, max) = (volume.len_bytes, u64::from(u32::MAX - 1) * reference.page_bytes);
    if len == 0 || len > max || !len.is_multiple_of(BLOCK_BYTES.into()) {
        report.damage(place, format!("invalid size of {len} bytes"));
    }
    let end = len.div_ceil(reference.page_bytes).min(u32::MAX.into()) as u32;
    if let Some(first) = volume.map.next_mapped(end, u32::MAX) {
        let past = volume.map.iter().filter(|(index, _)| *index >= end).count();
        report.harmless(
            place,
            format!(
                "{past} map entries are past the end of the volume, from index \
            {first} on"
            ),
        );
    }
    if volume.thick && !volume.unfinished {
        let mut index = 0;
        while index < end {
            let run = volume.map.run(index, end - index);
            if run.page.is_none() {
                let text = format!("thick volume with a hole of {} pages at index {index}", run.count);
                report.damage(place, text);
            }
            index += run.count;
        }
    }
}

/// Pages of thick volumes, one bit each.
struct Taken(Vec<u64>);

impl Taken {
    /// Returns whether the page was not taken before.
    fn take(&mut self, page: u32) -> bool {
        let (word, bit) = (&mut self.0[page as usize / 64], 1 << (page % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

/// Every entry must name a page of a group. Thin volumes share pages with anything, a thick one only with
/// thin ones.
fn check_pages(
    volume: &Cataloged,
    place: &str,
    reference: &Superblock,
    taken: &mut Taken,
    report: &mut Report,
) {
    let groups = &reference.table.groups;
    let mut at = 0;
    for (index, page) in volume.map.iter() {
        let fits = |i: usize| groups.get(i).is_some_and(|g| (g.first_page..g.end_page()).contains(&page));
        if !fits(at) {
            at = groups.partition_point(|g| g.end_page() <= page);
        }
        if !fits(at) {
            report.damage(place, format!("index {index} maps page {page}, which is on no group"));
        } else if volume.thick && !taken.take(page) {
            report.damage(
                place,
                format!(
                    "index {index} maps page {page}, which already belongs to a thick \
                volume"
                ),
            );
        }
    }
}

fn check_records(copy: &Copy, pool: &str, reference: &Superblock, report: &mut Report) {
    let catalog = &copy.catalog;
    let owned = |key: &str| {
        let prefix = key.split_inclusive('/').next().unwrap_or_default();
        prefix == "p/" || catalog.volumes.keys().any(|id| volume_prefix(*id) == prefix)
    };
    let mut total = 0;
    for (key, bytes) in &catalog.records {
        total += record_size(key, bytes);
        let place = format!("record {key} of {pool}");
        if !owned(key) {
            report.damage(&place, "belongs to no volume");
        }
        if bytes.is_empty() || bytes.len() > RECORD_BYTES_MAX || key.len() > RECORD_NAME_LEN_MAX {
            let text = format!("invalid length: {} bytes under a name of {}", bytes.len(), key.len());
            report.damage(&place, text);
        }
    }
    let max = reference.layout.records_max();
    if total > max {
        report.damage(pool, format!("records of {total} bytes, but the maximum is {max}"));
    }
}
