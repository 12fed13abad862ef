//! Plans a write of parts of one row with the fewest drive operations.
//!
//! | way | reads | writes |
//! |---|---|---|
//! | full row | 0 | width |
//! | read-modify-write of *k* units | *k* + parities | *k* + parities |
//! | reconstruct-write of *k* of *n* units | *n* − *k* | *k* + parities |
//!
//! Units may be written partially. Then parity changes over the *hull*, the smallest range within the unit
//! that contains all of them; a unit that is written over less than the hull counts as one to be read by a
//! reconstruct-write. One range of one drive is one operation. Missing drives are not counted; see [`Way`].

use crate::geometry::{Geometry, Role, WIDTH_MAX};

const SLOTS: usize = WIDTH_MAX as usize;

/// A range of bytes within a unit; empty if `from == to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub from: u32,
    /// The byte after the last.
    pub to: u32,
}

impl Span {
    /// The empty range.
    pub const NONE: Span = Span { from: 0, to: 0 };

    /// Bytes `from..to`.
    pub fn new(from: u32, to: u32) -> Span {
        Span { from, to }
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.from >= self.to
    }

    /// Its length.
    pub fn len(self) -> u32 {
        self.to.saturating_sub(self.from)
    }

    /// Whether it contains `other`.
    pub fn covers(self, other: Span) -> bool {
        other.is_empty() || (self.from <= other.from && other.to <= self.to)
    }

    /// The smallest range that contains both.
    fn hull(self, other: Span) -> Span {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Span::new(self.from.min(other.from), self.to.max(other.to)),
        }
    }

    /// The part of `self` to read if `written` (within it) will be new: one range, because one longer
    /// operation is cheaper than two.
    fn without(self, written: Span) -> Span {
        match (written.is_empty(), written.from == self.from, written.to == self.to) {
            (false, true, true) => Span::NONE,
            (false, true, false) => Span::new(written.to, self.to),
            (false, false, true) => Span::new(self.from, written.from),
            _ => self,
        }
    }
}

/// How the parity of the row is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All data units are written completely: parity from the new data, without reads.
    FullRow,
    /// No drive with parity of this row is left: data are written without reads.
    NoParity,
    /// parity ^= coefficient · (old data ^ new data): reads the written ranges of the written units, and the
    /// parities over the hull.
    ReadModifyWrite,
    /// Parity from all data over the hull: reads what is not written.
    Reconstruct,
    /// Requires the old content of a missing unit: reads all data and as many parities as data units are
    /// missing, over the hull; the missing ones are reconstructed, then parity is computed from all data.
    Recover,
}

/// A write of parts of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Plan {
    pub row: u64,
    pub way: Way,
    /// The range within the unit over which parity changes.
    pub hull: Span,
    reads: [Span; SLOTS],
    writes: [Span; SLOTS],
}

/// The request, and what the drives have.
struct Ask<'a> {
    geometry: &'a Geometry,
    row: u64,
    written: &'a [Span],
    missing: u32,
    hull: Span,
}

impl Plan {
    /// Plans the write of `written[k]` of each data unit k of `row` ([`Span::NONE`]: not written) while the
    /// drives of the set `missing` (bit d: drive d) can be neither read nor written. `None` if more drives
    /// are missing than there are parities.
    ///
    /// Panics if `written` has not one range for each data unit, a range exceeds the unit, or nothing is
    /// written: a bug of the caller.
    pub fn new(geometry: &Geometry, row: u64, written: &[Span], missing: u32) -> Option<Plan> {
        let unit = geometry.unit_bytes();
        assert_eq!(written.len(), geometry.data_units() as usize, "a range for each data unit");
        assert!(
            written.iter().all(|w| w.from <= w.to && w.to <= unit),
            "a range passes its unit: {written:?}"
        );
        let hull = written.iter().fold(Span::NONE, |hull, w| hull.hull(*w));
        assert!(!hull.is_empty(), "a write of nothing");
        if missing.count_ones() > geometry.parities() {
            return None;
        }
        let ask = Ask { geometry, row, written, missing, hull };
        let way = ask.way();
        let mut plan = Plan { row, way, hull, reads: [Span::NONE; SLOTS], writes: [Span::NONE; SLOTS] };
        for drive in (0..geometry.width()).filter(|d| missing & 1 << d == 0) {
            let role = geometry.role_of(row, drive);
            plan.reads[drive as usize] = ask.read(way, role);
            plan.writes[drive as usize] = match role {
                Role::Data(k) => written[k as usize],
                Role::P | Role::Q => hull,
            };
        }
        Some(plan)
    }

    /// The range of `drive` to read, within its unit of the row.
    pub fn read(&self, drive: u32) -> Span {
        self.reads[drive as usize]
    }

    /// The range of `drive` to write, within its unit of the row.
    pub fn write(&self, drive: u32) -> Span {
        self.writes[drive as usize]
    }

    /// All reads, by drive.
    pub fn reads(&self) -> impl Iterator<Item = (u32, Span)> + '_ {
        operations(&self.reads)
    }

    /// All writes, by drive.
    pub fn writes(&self) -> impl Iterator<Item = (u32, Span)> + '_ {
        operations(&self.writes)
    }
}

fn operations(spans: &[Span; SLOTS]) -> impl Iterator<Item = (u32, Span)> + '_ {
    (0..WIDTH_MAX).zip(spans.iter().copied()).filter(|(_, span)| !span.is_empty())
}

impl Ask<'_> {
    fn way(&self) -> Way {
        let whole = Span::new(0, self.geometry.unit_bytes());
        if self.written.iter().all(|w| *w == whole) {
            return Way::FullRow;
        }
        let parities = self.parities_left();
        if parities == 0 {
            return Way::NoParity;
        }
        // Read-modify-write needs the old content of written ranges, reconstruct-write of the others.
        let mut modify = Some(parities);
        let mut reconstruct = Some(0);
        for (k, written) in self.written.iter().enumerate() {
            if !written.is_empty() {
                modify = self.counted(modify, k);
            }
            if *written != self.hull {
                reconstruct = self.counted(reconstruct, k);
            }
        }
        match (modify, reconstruct) {
            (Some(modify), Some(reconstruct)) if reconstruct < modify => Way::Reconstruct,
            (Some(_), _) => Way::ReadModifyWrite,
            (None, Some(_)) => Way::Reconstruct,
            (None, None) => Way::Recover,
        }
    }

    /// One more read, of data unit `k`; impossible for a missing unit.
    fn counted(&self, reads: Option<u32>, k: usize) -> Option<u32> {
        reads.filter(|_| self.has_data(k)).map(|r| r + 1)
    }

    fn read(&self, way: Way, role: Role) -> Span {
        match (way, role) {
            (Way::FullRow | Way::NoParity, _) => Span::NONE,
            (Way::ReadModifyWrite, Role::Data(k)) => self.written[k as usize],
            (Way::ReadModifyWrite, Role::P | Role::Q) => self.hull,
            (Way::Reconstruct, Role::Data(k)) => self.hull.without(self.written[k as usize]),
            (Way::Reconstruct, Role::P | Role::Q) => Span::NONE,
            (Way::Recover, Role::Data(_) | Role::P) => self.hull,
            (Way::Recover, Role::Q) if self.q_is_wanted() => self.hull,
            (Way::Recover, Role::Q) => Span::NONE,
        }
    }

    /// Whether P alone cannot reconstruct the missing data.
    fn q_is_wanted(&self) -> bool {
        let missing_data = self.missing.count_ones() - (self.geometry.parities() - self.parities_left());
        missing_data == 2 || !self.has(self.geometry.p_drive(self.row))
    }

    fn parities_left(&self) -> u32 {
        let q = self.geometry.q_drive(self.row);
        u32::from(self.has(self.geometry.p_drive(self.row))) + u32::from(q.is_some_and(|q| self.has(q)))
    }

    fn has_data(&self, k: usize) -> bool {
        self.has(self.geometry.drive_of(self.row, k as u32))
    }

    fn has(&self, drive: u32) -> bool {
        self.missing & 1 << drive == 0
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
