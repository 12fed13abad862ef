//! The placement of units on drives: left-symmetric, as on most arrays.
//!
//! ```text
//!   RAID 5, width 4            RAID 6, width 5
//!   row 0:  D0 D1 D2 P         row 0:  Q  D0 D1 D2 P
//!   row 1:  D1 D2 P  D0        row 1:  D0 D1 D2 P  Q
//!   row 2:  D2 P  D0 D1        row 2:  D1 D2 P  Q  D0
//!   row 3:  P  D0 D1 D2        row 3:  D2 P  Q  D0 D1
//! ```
//!
//! Parity moves one drive back with every row and data follow it: `width` units of consecutive addresses are
//! on all drives (RAID 6: on all but one), so that a sequential reader uses them all.

/// Most drives of a group; drives are sets of bits in a `u32`.
pub const WIDTH_MAX: u32 = 32;

/// The data layout of a group with parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    unit_bytes: u32,
    width: u32,
    parities: u32,
}

/// The location of an address of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The row, from 0.
    pub row: u64,
    /// The data unit of the row, from 0.
    pub data: u32,
    /// The byte within the unit.
    pub within: u32,
}

/// What a drive has in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The data unit of this number.
    Data(u32),
    /// The exclusive-or of all data.
    P,
    /// The second parity of RAID 6.
    Q,
}

impl Geometry {
    /// A layout of `width` drives with `parities` (1 for RAID 5, 2 for RAID 6) parity units per row; `None`
    /// if there is no such layout: fewer than two data units, more than [`WIDTH_MAX`] drives, an empty unit.
    pub fn new(unit_bytes: u32, width: u32, parities: u32) -> Option<Geometry> {
        let fine =
            unit_bytes > 0 && (1..=2).contains(&parities) && (parities + 2..=WIDTH_MAX).contains(&width);
        fine.then_some(Geometry { unit_bytes, width, parities })
    }

    /// Bytes of a stripe unit.
    pub fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    /// Drives of the group.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Parity units of a row: 1 (RAID 5) or 2 (RAID 6).
    pub fn parities(&self) -> u32 {
        self.parities
    }

    /// Data units of a row.
    pub fn data_units(&self) -> u32 {
        self.width - self.parities
    }

    /// Bytes of data of a row.
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.unit_bytes) * u64::from(self.data_units())
    }

    /// The location of byte `at` of the group.
    pub fn locate(&self, at: u64) -> Place {
        let unit = u64::from(self.unit_bytes);
        let in_row = at % self.row_bytes();
        // Both fit: a unit's number is below the width, a byte within below the unit.
        Place { row: at / self.row_bytes(), data: (in_row / unit) as u32, within: (in_row % unit) as u32 }
    }

    /// The address of a location: the inverse of [`Geometry::locate`].
    pub fn address(&self, place: Place) -> u64 {
        debug_assert!(place.data < self.data_units() && place.within < self.unit_bytes);
        place.row * self.row_bytes()
            + u64::from(place.data) * u64::from(self.unit_bytes)
            + u64::from(place.within)
    }

    /// The offset of row `row` on each drive, from the beginning of its data.
    pub fn row_on_drive(&self, row: u64) -> u64 {
        row * u64::from(self.unit_bytes)
    }

    /// The drive with P in `row`.
    pub fn p_drive(&self, row: u64) -> u32 {
        // Below the width.
        self.width - 1 - (row % u64::from(self.width)) as u32
    }

    /// The drive with Q in `row`; `None` in RAID 5.
    pub fn q_drive(&self, row: u64) -> Option<u32> {
        (self.parities == 2).then(|| self.after_p(row, 1))
    }

    /// The drive with data unit `data` of `row`.
    pub fn drive_of(&self, row: u64, data: u32) -> u32 {
        debug_assert!(data < self.data_units());
        self.after_p(row, self.parities + data)
    }

    /// What `drive` has in `row`: the inverse of the three above.
    pub fn role_of(&self, row: u64, drive: u32) -> Role {
        debug_assert!(drive < self.width);
        match (drive + self.width - self.p_drive(row)) % self.width {
            0 => Role::P,
            1 if self.parities == 2 => Role::Q,
            steps => Role::Data(steps - self.parities),
        }
    }

    fn after_p(&self, row: u64, steps: u32) -> u32 {
        (self.p_drive(row) + steps) % self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> impl Iterator<Item = Geometry> {
        (1..=2).flat_map(|parities| {
            (parities + 2..=WIDTH_MAX).map(move |width| Geometry::new(3, width, parities).expect("valid"))
        })
    }

    #[test]
    fn rows_are_those_of_the_picture() {
        let picture = |width, parities| {
            let geometry = Geometry::new(1, width, parities).expect("valid");
            let cell = |role| match role {
                Role::Data(k) => format!("D{k}"),
                Role::P => "P".to_owned(),
                Role::Q => "Q".to_owned(),
            };
            (0..u64::from(width))
                .map(|row| {
                    let cells: Vec<_> = (0..width).map(|drive| cell(geometry.role_of(row, drive))).collect();
                    cells.join(" ")
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(picture(4, 1), ["D0 D1 D2 P", "D1 D2 P D0", "D2 P D0 D1", "P D0 D1 D2"]);
        let raid_6 = ["Q D0 D1 D2 P", "D0 D1 D2 P Q", "D1 D2 P Q D0", "D2 P Q D0 D1", "P Q D0 D1 D2"];
        assert_eq!(picture(5, 2), raid_6);
    }

    #[test]
    fn every_byte_of_every_drive_is_one_address_or_parity() {
        for geometry in every() {
            let rows = u64::from(geometry.width() * 2 + 1);
            let unit = geometry.unit_bytes();
            let mut taken = vec![false; (rows * u64::from(geometry.width() * unit)) as usize];
            let mut take = |row: u64, drive: u32, within: u32| {
                let at = (geometry.row_on_drive(row) + u64::from(within)) * u64::from(geometry.width());
                let slot = &mut taken[(at + u64::from(drive)) as usize];
                assert!(!*slot, "{geometry:?}: drive {drive} row {row} twice");
                *slot = true;
            };
            for at in 0..rows * geometry.row_bytes() {
                let place = geometry.locate(at);
                assert_eq!(geometry.address(place), at);
                let drive = geometry.drive_of(place.row, place.data);
                assert_eq!(geometry.role_of(place.row, drive), Role::Data(place.data));
                take(place.row, drive, place.within);
            }
            for row in 0..rows {
                assert_eq!(geometry.role_of(row, geometry.p_drive(row)), Role::P);
                assert_eq!(geometry.q_drive(row).is_some(), geometry.parities() == 2);
                for within in 0..unit {
                    take(row, geometry.p_drive(row), within);
                    if let Some(q) = geometry.q_drive(row) {
                        assert_eq!(geometry.role_of(row, q), Role::Q);
                        take(row, q, within);
                    }
                }
            }
            assert!(taken.iter().all(|t| *t), "{geometry:?}: a place is nobody's");
        }
    }

    #[test]
    fn any_width_units_in_a_row_are_on_different_drives() {
        for geometry in every() {
            let n = u64::from(geometry.data_units());
            for first in 0..u64::from(geometry.width()) * n {
                let set = (first..first + u64::from(geometry.width()))
                    .fold(0u64, |set, unit| set | 1 << geometry.drive_of(unit / n, (unit % n) as u32));
                // With one parity all drives are used; with two, Q shifts the next row by one drive.
                let least = geometry.width() - (geometry.parities() - 1);
                assert!(set.count_ones() >= least, "{geometry:?} from unit {first}");
            }
        }
    }

    #[test]
    fn layouts_that_do_not_exist_are_refused() {
        for (unit, width, parities) in
            [(4096, 2, 1), (4096, 3, 2), (4096, 33, 1), (0, 4, 1), (4096, 4, 0), (4096, 6, 3)]
        {
            assert_eq!(Geometry::new(unit, width, parities), None);
        }
    }
}
