//! Geometry, plans and kernels together on rows in memory: random partial writes, drives that come and go,
//! and after every step all that is there must be what it should be, and all that is missing must be
//! recoverable.
//!
//! The I/O code does with drives what `write` does here with vectors.

use rusty_erasure::raid::pq_gen;

use crate::{Geometry, Plan, Role, Span, Unit, Way, mul_xor_into, pq, q_coefficient, recover, xor_into};

const UNIT: u32 = 96;
const ROWS: u64 = 7;
/// The content of a missing drive: reading it spoils everything.
const NOTHING: u8 = 0xdd;

/// Drives and what they should hold.
struct Rig {
    geometry: Geometry,
    drives: Vec<Vec<u8>>,
    missing: u32,
    /// The data by address of the group.
    shadow: Vec<u8>,
}

impl Rig {
    fn new(geometry: Geometry) -> Rig {
        let on_drive = geometry.row_on_drive(ROWS) as usize;
        Rig {
            geometry,
            drives: vec![vec![0; on_drive]; geometry.width() as usize],
            missing: 0,
            shadow: vec![0; (ROWS * geometry.row_bytes()) as usize],
        }
    }

    fn bytes(&self, row: u64, drive: u32, span: Span) -> &[u8] {
        assert_eq!(self.missing & 1 << drive, 0, "drive {drive} is missing");
        let at = self.geometry.row_on_drive(row) as usize;
        &self.drives[drive as usize][at + span.from as usize..at + span.to as usize]
    }

    fn bytes_mut(&mut self, row: u64, drive: u32, span: Span) -> &mut [u8] {
        let at = self.geometry.row_on_drive(row) as usize;
        &mut self.drives[drive as usize][at + span.from as usize..at + span.to as usize]
    }

    fn data_drives(&self, row: u64) -> Vec<u32> {
        (0..self.geometry.data_units()).map(|k| self.geometry.drive_of(row, k)).collect()
    }

    /// Writes `fresh[k]` at `written[k]` of each data unit k as it is planned, and returns how.
    fn write(&mut self, row: u64, written: &[Span], fresh: &[Vec<u8>]) -> Way {
        let plan = Plan::new(&self.geometry, row, written, self.missing).expect("not too many are missing");
        let read: Vec<Vec<u8>> = (0..self.geometry.width())
            .map(|d| match plan.read(d) {
                span if span.is_empty() => vec![],
                span => self.bytes(row, d, span).to_vec(),
            })
            .collect();
        let parities = self.new_parities(&plan, written, fresh, &read);
        for (drive, span) in plan.writes() {
            let content = match self.geometry.role_of(row, drive) {
                Role::Data(k) => &fresh[k as usize],
                Role::P => &parities.0,
                Role::Q => &parities.1,
            };
            self.bytes_mut(row, drive, span).copy_from_slice(content);
        }
        plan.way
    }

    fn new_parities(
        &self,
        plan: &Plan,
        written: &[Span],
        fresh: &[Vec<u8>],
        read: &[Vec<u8>],
    ) -> (Vec<u8>, Vec<u8>) {
        let (row, hull) = (plan.row, plan.hull);
        let of_parity = |drive: Option<u32>| drive.map_or(vec![], |d| read[d as usize].clone());
        let p_read = of_parity(Some(self.geometry.p_drive(row)));
        let q_read = of_parity(self.geometry.q_drive(row));
        match plan.way {
            Way::NoParity => (vec![], vec![]),
            Way::ReadModifyWrite => {
                let (mut p, mut q) = (p_read, q_read);
                for (k, drive) in self.data_drives(row).into_iter().enumerate() {
                    let mut delta = read[drive as usize].clone();
                    if delta.is_empty() {
                        continue;
                    }
                    xor_into(&mut delta, &fresh[k]);
                    let (from, to) =
                        ((written[k].from - hull.from) as usize, (written[k].to - hull.from) as usize);
                    // A parity that is missing was not read.
                    if !p.is_empty() {
                        xor_into(&mut p[from..to], &delta);
                    }
                    if !q.is_empty() {
                        mul_xor_into(&mut q[from..to], &delta, q_coefficient(k));
                    }
                }
                (p, q)
            }
            Way::FullRow | Way::Reconstruct | Way::Recover => {
                let mut old = self.old_data(plan, read);
                if plan.way == Way::Recover {
                    self.recover_old(plan, &mut old, &p_read, &q_read);
                }
                for (k, old) in old.iter_mut().enumerate() {
                    let (from, to) = (written[k].from as usize, written[k].to as usize);
                    if from < to {
                        let begin = from - hull.from as usize;
                        old[begin..begin + (to - from)].copy_from_slice(&fresh[k]);
                    }
                }
                let sources: Vec<&[u8]> = old.iter().map(Vec::as_slice).collect();
                let (mut p, mut q) = (vec![0; hull.len() as usize], vec![0; hull.len() as usize]);
                pq(&sources, &mut p, &mut q);
                (p, q)
            }
        }
    }

    /// The hull of each data unit, with what was read of it in its place.
    fn old_data(&self, plan: &Plan, read: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let place = |drive: u32| {
            let mut unit = vec![NOTHING; plan.hull.len() as usize];
            let (span, bytes) = (plan.read(drive), &read[drive as usize]);
            if !span.is_empty() {
                let begin = (span.from - plan.hull.from) as usize;
                unit[begin..begin + bytes.len()].copy_from_slice(bytes);
            }
            unit
        };
        self.data_drives(plan.row).into_iter().map(place).collect()
    }

    fn recover_old(&self, plan: &Plan, old: &mut [Vec<u8>], p_read: &[u8], q_read: &[u8]) {
        let drives = self.data_drives(plan.row);
        let mut units: Vec<_> = old
            .iter_mut()
            .zip(drives)
            .map(|(old, drive)| match plan.read(drive).is_empty() {
                true => Unit::Wanted(old),
                false => Unit::Known(old),
            })
            .collect();
        let known = |read| if <[u8]>::is_empty(read) { Unit::Unknown } else { Unit::Known(read) };
        recover(&mut units, &mut known(p_read), &mut known(q_read)).expect("the plan reads enough");
    }

    /// What all drives should hold in `row`, by another implementation.
    fn expected(&self, row: u64) -> Vec<Vec<u8>> {
        let begin = (row * self.geometry.row_bytes()) as usize;
        let data: Vec<&[u8]> =
            self.shadow[begin..begin + self.geometry.row_bytes() as usize].chunks(UNIT as usize).collect();
        let (mut p, mut q) = (vec![0; UNIT as usize], vec![0; UNIT as usize]);
        pq_gen(&data, &mut p, &mut q).expect("at least two units");
        (0..self.geometry.width())
            .map(|drive| match self.geometry.role_of(row, drive) {
                Role::Data(k) => data[k as usize].to_vec(),
                Role::P => p.clone(),
                Role::Q => q.clone(),
            })
            .collect()
    }

    /// The units of `row` by drive, the missing ones recovered.
    fn recovered(&self, row: u64) -> Vec<Vec<u8>> {
        let whole = Span::new(0, UNIT);
        let mut missing: Vec<Vec<u8>> = vec![vec![0; UNIT as usize]; self.drives.len()];
        let mut units: Vec<(Role, Unit<'_>)> = missing
            .iter_mut()
            .zip(0..)
            .map(|(to, drive)| {
                let there = self.missing & 1 << drive == 0;
                let unit = if there { Unit::Known(self.bytes(row, drive, whole)) } else { Unit::Wanted(to) };
                (self.geometry.role_of(row, drive), unit)
            })
            .collect();
        units.sort_by_key(|(role, _)| *role);
        let mut units: Vec<_> = units.into_iter().map(|(_, unit)| unit).collect();
        let mut q = if self.geometry.parities() == 2 { units.pop().expect("Q") } else { Unit::Unknown };
        let mut p = units.pop().expect("P");
        recover(&mut units, &mut p, &mut q).expect("not too many are missing");
        let there = |drive: u32| self.missing & 1 << drive == 0;
        (0..)
            .zip(missing)
            .map(|(d, unit)| if there(d) { self.bytes(row, d, whole).to_vec() } else { unit })
            .collect()
    }

    /// A drive goes, or comes back empty and is rebuilt.
    fn change_drives(&mut self, rng: &mut fastrand::Rng) {
        let drive = rng.u32(..self.geometry.width());
        if self.missing & 1 << drive != 0 {
            for row in 0..ROWS {
                let unit = self.recovered(row).swap_remove(drive as usize);
                self.bytes_mut(row, drive, Span::new(0, UNIT)).copy_from_slice(&unit);
            }
            self.missing &= !(1 << drive);
        } else if self.missing.count_ones() < self.geometry.parities() {
            self.missing |= 1 << drive;
            self.drives[drive as usize].fill(NOTHING);
        }
    }

    /// A random write of a range of addresses within a row, or of any ranges of its units.
    fn write_something(&mut self, rng: &mut fastrand::Rng) -> Way {
        let row = rng.u64(..ROWS);
        let n = self.geometry.data_units();
        let mut written = vec![Span::NONE; n as usize];
        let (begin, end) = (rng.u32(..UNIT * n), rng.u32(..UNIT * n));
        let (begin, end) = match rng.u8(..4) {
            0 => (begin / UNIT * UNIT, UNIT * n),
            1 => (begin / UNIT * UNIT, begin / UNIT * UNIT + UNIT),
            2 => (begin, begin + 1),
            _ => (begin.min(end), begin.max(end) + 1),
        };
        for (k, span) in (0..).zip(&mut written) {
            let (from, to) = (begin.clamp(k * UNIT, (k + 1) * UNIT), end.clamp(k * UNIT, (k + 1) * UNIT));
            if from < to && (rng.u8(..8) > 0 || begin / UNIT == k) {
                *span = Span::new(from - k * UNIT, to - k * UNIT);
            }
        }
        let noise = |span: &Span| std::iter::repeat_with(|| rng.u8(..)).take(span.len() as usize).collect();
        let fresh: Vec<Vec<u8>> = written.iter().map(noise).collect();
        for ((k, span), fresh) in (0..).zip(&written).zip(&fresh) {
            let at = self.geometry.address(crate::Place { row, data: k, within: 0 }) as usize;
            self.shadow[at + span.from as usize..at + span.to as usize].copy_from_slice(fresh);
        }
        self.write(row, &written, &fresh)
    }

    fn check(&self, story: &str) {
        for row in 0..ROWS {
            assert_eq!(self.recovered(row), self.expected(row), "{story}: row {row} of {:?}", self.geometry);
        }
    }
}

#[test]
fn parity_stays_right_under_partial_writes_with_drives_missing() {
    let mut ways = [[0u32; 5]; 3];
    for seed in 0..120 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let parities = rng.u32(1..=2);
        let width = if rng.bool() { rng.u32(parities + 2..=8) } else { rng.u32(parities + 2..=32) };
        let mut rig = Rig::new(Geometry::new(UNIT, width, parities).expect("valid"));
        for step in 0..60 {
            if rng.u8(..6) == 0 {
                rig.change_drives(&mut rng);
            }
            let way = rig.write_something(&mut rng);
            ways[rig.missing.count_ones() as usize][way as usize] += 1;
            rig.check(&format!("seed {seed} step {step} missing {:b} {way:?}", rig.missing));
        }
    }
    // Every way is gone with none, one and two missing, as far as there is one: without a missing drive
    // neither the parity nor old content is missing.
    for (missing, counts) in ways.iter().enumerate() {
        let reached = counts.iter().filter(|count| **count > 10).count();
        assert_eq!(reached, if missing == 0 { 3 } else { 5 }, "{missing} missing: {counts:?}");
    }
}
