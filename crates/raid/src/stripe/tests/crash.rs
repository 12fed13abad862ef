//! The power is cut after every persistence point of a workload, and with it drives are lost: as many as the
//! level tolerates. What was flushed reads back, what was not is old or new, and data and parity agree.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use block::{BlockError, Buf, Device, Pieces};
use world::{Drive, DriveSpec, Rng, World};
use world_model::{Disk, DiskSpec, Model, Outcome};

use crate::{ArrayId, Group, GroupError, GroupSpec, Level, Throttle};

const SECTOR: usize = 512;
const UNIT: u32 = 8192;
const OPERATIONS: usize = 24;

/// What a sector may hold: what was last flushed, and what was written since.
type Shadow = RefCell<BTreeMap<u64, Vec<u32>>>;

struct Case {
    level: Level,
    width: usize,
    /// Drives that are dead before the workload begins.
    dead: &'static [usize],
    /// Drives that are lost together with the power.
    lost: &'static [usize],
    work: Work,
}

/// What is written before the cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// From a few sectors to several rows, with a flush now and then.
    Mixed,
    /// Two units of a row, then two of the next one, seldom with a flush: the rings fill up.
    Units,
}

struct Rig {
    model: Model,
    disks: Vec<Disk>,
    shadow: Shadow,
    /// Rows of which all was being overwritten since the last flush: in a group that was whole.
    overwritten: RefCell<BTreeMap<u64, ()>>,
}

fn rig(width: usize, seed: u64) -> Rig {
    let model = Model::new(seed);
    let spec = DiskSpec::new(2 << 20).with_jitter(Duration::from_micros(120)).with_cache_bytes(64 << 10);
    let disks = (0..width).map(|i| model.disk(&format!("d{i}"), spec.clone())).collect();
    Rig { model, disks, shadow: Shadow::default(), overwritten: RefCell::default() }
}

fn drives(world: &World, which: impl Iterator<Item = usize>) -> Vec<Drive> {
    let open = |i| world.open_now(&DriveSpec::Modelled { name: format!("d{i}") }).expect("it is there");
    which.map(open).collect()
}

impl Case {
    fn spec(&self) -> GroupSpec {
        let spec = GroupSpec::new("g", self.level, ArrayId([7; 16]));
        GroupSpec { stripe_unit_bytes: UNIT, ..spec }
    }

    fn row_bytes(&self) -> u64 {
        u64::from(UNIT) * (self.width as u64 - u64::from(self.level.parities()))
    }

    fn check(&self, seed: u64, point: u64) -> bool {
        let rig = rig(self.width, seed);
        rig.model.run(async |world| {
            let all = drives(&world, 0..self.width);
            let group = Group::create(world, self.spec(), all).await.expect("create");
            for dead in self.dead {
                rig.disks[*dead].kill();
                group.fail_drive(*dead as u32).await.expect("fail");
            }
            group.flush().await.expect("flush");
        });
        let now = rig.model.disks().persistence_points();
        rig.model.disks().cut_power_after(now + point);
        let alive = || (0..self.width).filter(|i| !self.dead.contains(i));
        let outcome = rig.model.run_until_crash(async |world| {
            let group = Group::open(world.clone(), self.spec(), drives(&world, alive())).await.expect("open");
            self.work(&world, &group, &rig).await;
        });
        if outcome != Outcome::PowerCut {
            return false;
        }
        rig.model.reboot();
        // A second cut while it recovers, at some point.
        let now = rig.model.disks().persistence_points();
        rig.model.disks().cut_power_after(now + 1 + point % 17);
        let left = || alive().filter(|i| !self.lost.contains(i));
        let second = rig.model.run_until_crash(async |world| {
            Group::open_degraded(world.clone(), self.spec(), drives(&world, alive())).await.map(drop)
        });
        if second == Outcome::PowerCut {
            rig.model.reboot();
        }
        rig.model.disks().keep_power();
        rig.model.run(async |world| {
            let opened = Group::open_degraded(world.clone(), self.spec(), drives(&world, left())).await;
            let group = opened.unwrap_or_else(|e: GroupError| panic!("seed {seed}, point {point}: {e}"));
            self.compare(&group, &rig, (seed, point)).await;
            if self.dead.is_empty() && self.lost.is_empty() {
                let scrubbed = group.scrub(&Throttle::none(world)).await.expect("scrub");
                assert_eq!(scrubbed.mismatches, 0, "seed {seed}, point {point}: {scrubbed:?}");
            }
        });
        true
    }

    async fn work(&self, world: &World, group: &Group, rig: &Rig) {
        let mut rng = world.random("work");
        let len = group.geometry().len_bytes.min(12 * self.row_bytes());
        let (operations, flush_one_in) = match self.work {
            Work::Mixed => (OPERATIONS as u32, 5),
            Work::Units => (2 * OPERATIONS as u32, 64),
        };
        for operation in 1..=operations {
            if rng.u8(..flush_one_in) == 0 {
                group.flush().await.expect("flush");
                rig.shadow.borrow_mut().values_mut().for_each(|v| drop(v.drain(..v.len() - 1)));
                rig.overwritten.borrow_mut().clear();
                continue;
            }
            let (at, n) = match self.work {
                Work::Mixed => self.draw(&mut rng, len),
                Work::Units => {
                    let unit = u64::from(UNIT);
                    let in_row = rng.u64(..self.row_bytes() / unit);
                    (u64::from(operation / 2) * self.row_bytes() + in_row * unit, unit)
                }
            };
            let zeros = rng.u8(..6) == 0;
            let stamp = if zeros { 0 } else { operation };
            for sector in at / SECTOR as u64..(at + n) / SECTOR as u64 {
                rig.shadow.borrow_mut().entry(sector).or_insert_with(|| vec![0]).push(stamp);
            }
            if self.dead.is_empty() && !zeros {
                let row = self.row_bytes();
                let whole = at.div_ceil(row)..(at + n) / row;
                rig.overwritten.borrow_mut().extend(whole.map(|r| (r, ())));
            }
            let outcome = match zeros {
                true => group.zero(at, n).await,
                false => group.write(at, &stamped(at, n as usize, stamp)).await,
            };
            outcome.expect("write");
        }
        group.flush().await.expect("flush");
        rig.shadow.borrow_mut().values_mut().for_each(|v| drop(v.drain(..v.len() - 1)));
        rig.overwritten.borrow_mut().clear();
    }

    /// Small, whole rows, several rows and a bit.
    fn draw(&self, rng: &mut Rng, len: u64) -> (u64, u64) {
        let (row, sector) = (self.row_bytes(), SECTOR as u64);
        let n = match rng.u8(..4) {
            0 => rng.u64(1..=8) * sector,
            1 => row,
            2 => rng.u64(1..=4) * row,
            _ => rng.u64(1..=2 * row / sector) * sector,
        };
        let n = n.min(len);
        let at = rng.u64(0..=(len - n) / sector) * sector;
        match rng.bool() {
            true => (at / row * row, n),
            false => (at, n),
        }
    }

    async fn compare(&self, group: &Group, rig: &Rig, (seed, point): (u64, u64)) {
        let shadow = rig.shadow.borrow().clone();
        for (sector, allowed) in &shadow {
            let at = sector * SECTOR as u64;
            let mut out = Pieces::new();
            match group.read(at, SECTOR, &mut out).await {
                Ok(()) => {
                    let found = out.joined();
                    let fits = |stamp: &u32| stamped(at, SECTOR, *stamp).joined()[..] == found[..];
                    assert!(
                        allowed.iter().any(fits),
                        "{} of {}, dead {:?}, lost {:?}, seed {seed}, point {point}: sector {sector} holds {:?}.., allowed are {allowed:?}",
                        self.level,
                        self.width,
                        self.dead,
                        self.lost,
                        &found[..8]
                    );
                }
                Err(BlockError::Unreadable { .. }) => assert!(
                    !self.lost.is_empty() && rig.overwritten.borrow().contains_key(&(at / self.row_bytes())),
                    "{} of {}, dead {:?}, lost {:?}, seed {seed}, point {point}: sector {sector} is lost",
                    self.level,
                    self.width,
                    self.dead,
                    self.lost
                ),
                Err(error) => panic!("seed {seed}, point {point}: {error}"),
            }
        }
    }

    fn every_point(&self, seed: u64) {
        let mut point = 1;
        while self.check(seed, point) {
            point += 1;
        }
        assert!(point > 40, "only {point} points");
    }
}

fn stamped(at: u64, len: usize, stamp: u32) -> Pieces {
    let mut buf = Buf::zeroed(len);
    if stamp != 0 {
        for (i, sector) in buf.chunks_mut(SECTOR).enumerate() {
            let lba = at / SECTOR as u64 + i as u64;
            sector.fill(stamp as u8 ^ lba as u8);
            sector[..4].copy_from_slice(&stamp.to_le_bytes());
            sector[4..12].copy_from_slice(&lba.to_le_bytes());
        }
    }
    buf.freeze().into()
}

#[test]
fn raid_5_survives_a_cut_at_every_point() {
    Case { level: Level::Raid5, width: 4, dead: &[], lost: &[], work: Work::Mixed }.every_point(1);
}

#[test]
fn raid_5_survives_a_cut_at_every_point_together_with_a_drive() {
    Case { level: Level::Raid5, width: 4, dead: &[], lost: &[1], work: Work::Mixed }.every_point(2);
    Case { level: Level::Raid5, width: 3, dead: &[], lost: &[2], work: Work::Mixed }.every_point(3);
}

#[test]
fn degraded_raid_5_survives_a_cut_at_every_point() {
    Case { level: Level::Raid5, width: 4, dead: &[2], lost: &[], work: Work::Mixed }.every_point(4);
}

#[test]
fn raid_6_survives_a_cut_at_every_point_together_with_two_drives() {
    Case { level: Level::Raid6, width: 5, dead: &[], lost: &[], work: Work::Mixed }.every_point(5);
    Case { level: Level::Raid6, width: 5, dead: &[], lost: &[0, 3], work: Work::Mixed }.every_point(6);
}

#[test]
fn degraded_raid_6_survives_a_cut_at_every_point_together_with_a_drive() {
    Case { level: Level::Raid6, width: 5, dead: &[1], lost: &[4], work: Work::Mixed }.every_point(7);
}

/// A batch whose frame had been written over was skipped, and an older one of its row was replayed.
fn full_rings(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        Case { level: Level::Raid5, width: 4, dead: &[], lost: &[], work: Work::Units }.every_point(seed);
    }
}

#[test]
fn full_rings_survive_a_cut_at_every_point() {
    full_rings(8..10);
}

#[test]
#[ignore = "long: make soak"]
fn full_rings_of_many_seeds_survive_a_cut_at_every_point() {
    full_rings(10..24);
}
