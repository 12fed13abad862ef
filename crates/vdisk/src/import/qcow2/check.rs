//! The examination of a QCOW2 image: every entry of its tables, and what two of them claim. Linear in the
//! entries; of the file it remembers which clusters are used, a bit each. Compressed clusters are
//! decompressed: their bytes are what a reader has to understand, unlike those of plain ones.

use std::collections::BTreeMap;

use world::Drive;

use super::{COMPRESSED, Cluster, OFFSET_MASK, Qcow2, words};
use crate::VdiskError;
use crate::import::{Budget, is_enough, is_there, read_bytes};

/// An L1 entry has its location and the mark of a single reference; so has an L2 entry, and the zero bit.
const L1_RESERVED: u64 = !(OFFSET_MASK | SINGLE);
const L2_RESERVED: u64 = L1_RESERVED & !COMPRESSED;
/// The only reference to a cluster. A compressed one never has it.
const SINGLE: u64 = 1 << 63;
/// A larger table of reference counts is refused, as QEMU does.
const COUNTS_BYTES_MAX: u64 = 8 << 20;
/// Reference counts have 1 to 64 bits.
const COUNTS_ORDER_MAX: u32 = 6;
const COUNTS_TABLE: &str = "the reference count table of the QCOW2 image";

/// What is known of the clusters of the file.
struct Used {
    /// Header and tables.
    tables: Bits,
    /// Clusters of the disk.
    plain: Bits,
    /// Clusters with compressed data, of which one may have that of several clusters of the disk.
    packed: Bits,
    budget: Budget,
}

impl Used {
    fn none_of(drive: &Drive) -> Used {
        let bits = Bits::default;
        Used { tables: bits(), plain: bits(), packed: bits(), budget: Budget::of(drive) }
    }
}

/// A set of numbers, small where they are few or close to each other.
#[derive(Default)]
struct Bits(BTreeMap<u64, u64>);

impl Bits {
    fn has(&self, number: u64) -> bool {
        self.0.get(&(number / 64)).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Whether it was not there.
    fn insert(&mut self, number: u64) -> bool {
        let is_new = !self.has(number);
        *self.0.entry(number / 64).or_default() |= 1 << (number % 64);
        is_new
    }
}

/// Finding after finding, up to a limit.
#[derive(Default)]
struct Report(Vec<String>);

impl Report {
    fn tell(&mut self, fault: String) {
        if !self.is_full() {
            self.0.push(fault);
        }
    }

    fn is_full(&mut self) -> bool {
        is_enough(&mut self.0)
    }
}

impl Qcow2 {
    /// The faults of the tables: entries with reserved bits, tables and clusters outside the file, what lies
    /// where something else is, and compressed clusters that cannot be decompressed. Reference counts count
    /// only where two entries name one cluster.
    pub(in crate::import) async fn faults(&self) -> Result<Vec<String>, VdiskError> {
        let (mut report, mut used) = (Report::default(), Used::none_of(&self.drive));
        let counts = self.own_tables(&mut used, &mut report).await?;
        let tables = self.second_tables(&mut used, &mut report);
        for (index, at) in tables {
            if report.is_full() {
                break;
            }
            match self.second_table(at).await {
                Ok(table) => self.entries((index, table), (&mut used, &counts), &mut report).await?,
                Err(VdiskError::Damaged { place, cause }) => {
                    report.tell(format!("{place}, number {index}: {cause}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(report.0)
    }

    fn clusters(&self, at: u64, len: u64) -> std::ops::RangeInclusive<u64> {
        at >> self.cluster_bits..=at.saturating_add(len.max(1) - 1) >> self.cluster_bits
    }

    /// Header, L1 table and reference counts. Returns the table of those, or nothing if it is damaged.
    async fn own_tables(&self, used: &mut Used, report: &mut Report) -> Result<Vec<u64>, VdiskError> {
        let places = &self.places;
        used.tables.insert(0);
        let mut claim = |report: &mut Report, what: &str, at: u64, len: u64| {
            // No table is longer than is checked before.
            let twice =
                self.clusters(at, len).fold(false, |twice, cluster| !used.tables.insert(cluster) | twice);
            if twice {
                report.tell(format!("{what} at byte {at} is where the header or another table is"));
            }
        };
        if places.l1_entries > 0 {
            claim(report, "the L1 table", places.l1_at, places.l1_entries * 8);
        }
        let len = places.counts_clusters << self.cluster_bits;
        let is_sound = len <= COUNTS_BYTES_MAX
            && places.counts_order <= COUNTS_ORDER_MAX
            && places.counts_at.is_multiple_of(self.cluster_bytes())
            && is_there(&self.drive, places.counts_at, len);
        if !is_sound {
            report
                .tell(format!("{COUNTS_TABLE}: invalid location at byte {}, {len} bytes", places.counts_at));
            return Ok(Vec::new());
        }
        if len == 0 {
            return Ok(Vec::new());
        }
        claim(report, COUNTS_TABLE, places.counts_at, len);
        let counts = words(&read_bytes(&self.drive, places.counts_at, len, COUNTS_TABLE).await?);
        for (number, entry) in counts.iter().enumerate().filter(|(_, entry)| **entry != 0) {
            if !entry.is_multiple_of(self.cluster_bytes()) {
                report.tell(format!("{COUNTS_TABLE}, number {number}: invalid entry {entry:#x}"));
                continue;
            }
            claim(report, "a block of reference counts", *entry, 1);
        }
        Ok(counts)
    }

    /// The L2 tables that can be read, by the number of their L1 entry.
    fn second_tables(&self, used: &mut Used, report: &mut Report) -> Vec<(usize, u64)> {
        let mut tables = Vec::new();
        for (index, entry) in self.l1.iter().enumerate() {
            let at = entry & OFFSET_MASK;
            if entry & L1_RESERVED != 0 {
                report.tell(format!("L1 entry {index}: reserved bits are set: {entry:#x}"));
            }
            if at == 0 {
                continue;
            }
            // One at an invalid location is found when it is read.
            if at.is_multiple_of(self.cluster_bytes()) && !used.tables.insert(at >> self.cluster_bits) {
                report.tell(format!(
                    "L1 entry {index}: its L2 table at byte {at} is where the header or another table is"
                ));
                continue;
            }
            tables.push((index, at));
        }
        tables
    }

    async fn entries(
        &self,
        (index, table): (usize, Vec<u64>),
        (used, counts): (&mut Used, &[u64]),
        report: &mut Report,
    ) -> Result<(), VdiskError> {
        let entries = self.cluster_bytes() / 8;
        for (number, entry) in (index as u64 * entries..).zip(table) {
            let disk_here = self.len_bytes.saturating_sub(number << self.cluster_bits);
            if disk_here == 0 || report.is_full() {
                break;
            }
            let here = disk_here.min(self.cluster_bytes());
            if let Some(cause) = self.entry(entry, here, (&mut *used, counts)).await? {
                report.tell(format!("cluster {number}: {cause}"));
            }
        }
        Ok(())
    }

    /// What is wrong with an entry of an L2 table, which has so many bytes of the disk.
    async fn entry(
        &self,
        entry: u64,
        here: u64,
        (used, counts): (&mut Used, &[u64]),
    ) -> Result<Option<String>, VdiskError> {
        let reserved = match (entry & COMPRESSED != 0, self.version) {
            (true, _) => SINGLE,
            (false, 3..) => L2_RESERVED & !super::ZERO,
            (false, _) => L2_RESERVED,
        };
        if entry & reserved != 0 {
            return Ok(Some(format!("reserved bits are set in its entry {entry:#x}")));
        }
        let at = match self.resolve(entry) {
            Ok(Cluster::Plain(at)) if !is_there(&self.drive, at, here) => {
                return Ok(Some(format!("its bytes at {at} are outside the file")));
            }
            Ok(Cluster::Compressed { at, .. }) if !is_there(&self.drive, at, 1) => {
                return Ok(Some(format!("its compressed bytes at {at} are outside the file")));
            }
            Ok(Cluster::Compressed { at, len }) => {
                if let Some(cause) = self.packed(at, len, used) {
                    return Ok(Some(cause));
                }
                return used.budget.fault(self.cluster_bytes(), self.unpacked(at, len)).await;
            }
            Ok(Cluster::Plain(at)) => at,
            // A cluster of zeros may have its place already.
            Ok(Cluster::Zeros) if entry & OFFSET_MASK == 0 => return Ok(None),
            Ok(Cluster::Zeros) => entry & OFFSET_MASK,
            Err(cause) => return Ok(Some(cause)),
        };
        let cluster = at >> self.cluster_bits;
        if used.tables.has(cluster) {
            return Ok(Some(format!("its bytes at {at} are the header or a table of the image")));
        }
        let is_new = used.plain.insert(cluster) && !used.packed.has(cluster);
        if is_new || self.references(cluster, counts).await? > 1 {
            return Ok(None);
        }
        Ok(Some(format!("another cluster has its bytes at {at}, too, and they are counted once")))
    }

    fn packed(&self, at: u64, len: u64, used: &mut Used) -> Option<String> {
        for cluster in self.clusters(at, len) {
            if used.tables.has(cluster) {
                return Some(format!("its compressed bytes at {at} are the header or a table of the image"));
            }
            if used.plain.has(cluster) {
                return Some(format!("another cluster has the place of its compressed bytes at {at}"));
            }
            used.packed.insert(cluster);
        }
        None
    }

    /// How often a cluster of the file is used, as the image counts it.
    async fn references(&self, cluster: u64, counts: &[u64]) -> Result<u64, VdiskError> {
        let order = self.places.counts_order;
        let in_block = (self.cluster_bytes() * 8) >> order;
        let block_at = counts.get((cluster / in_block) as usize).copied().unwrap_or(0);
        let bit = (cluster % in_block) << order;
        // Whole bytes, or the one that has the bits.
        let (at, len) = (block_at.saturating_add(bit / 8), (1_u64 << order).div_ceil(8));
        if block_at == 0 || !is_there(&self.drive, at, len) {
            return Ok(0);
        }
        let bytes = read_bytes(&self.drive, at, len, "a reference count of the QCOW2 image").await?;
        let count = bytes.iter().fold(0_u64, |count, byte| count << 8 | u64::from(*byte));
        Ok(match order {
            0..=2 => count >> (bit % 8) & ((1 << (1 << order)) - 1),
            _ => count,
        })
    }
}
