//! A pool on RAID groups, life after life: volumes are created, grown, cloned and deleted between rounds of
//! the workload; groups are added and removed, and pages move between them, beside it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockError, Device, Pieces};
use pool::{Pool, PoolSpec, Volume};
use raid::{ArrayId, Group, GroupSpec, Level};
use world::{Rng, World};
use world_model::{Disk, Model};

use super::lu;
use super::volumes::{self, ROOM_BYTES, Volumes};
use crate::actors::beside::Beside;
use crate::actors::workload::{self, Shared, Snapshot};
use crate::actors::{repairs, reshape};
use crate::faults::drives::SLOW_FACTOR;
use crate::faults::{Fault, lies};
use crate::lives::{Ended, How, Life, Lives, Living};
use crate::places::Places;
use crate::redundancy;

/// Room for metadata and for more than the volumes hold at most.
const DISK_BYTES: u64 = 24 << 20;
/// As for a group alone.
const STRIPE_UNIT_BYTES: u32 = 8 << 10;
/// A round of the workload between two changes of the volumes has at most this many operations.
const ROUND_STEPS_MAX: u64 = 60;

/// A group that the pool may use: its name, level and number of disks.
type GroupShape = (&'static str, Level, usize);

/// What kind of pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolKind {
    pub(crate) through: Through,
    /// The first two are in the pool from the beginning; the others come and go.
    pub(crate) groups: &'static [GroupShape],
}

/// The path of the workload to the volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// Directly.
    Volumes,
    /// As logical units, with SCSI commands.
    Units,
}

pub(crate) struct PoolLives {
    kind: PoolKind,
    shared: Shared,
    fault: Fault,
    volumes: Volumes,
    places: Vec<Rc<RefCell<Places>>>,
}

/// The shadows of a pool.
#[derive(Clone, Default)]
pub(crate) struct PoolKnown {
    content: Snapshot,
    volumes: volumes::Known,
    places: Vec<Places>,
}

impl workload::Subject for Volume {
    async fn unmap(&self, at: u64, len: u64) -> Result<(), BlockError> {
        Volume::unmap(self, at, len).await.map(|_| ())
    }

    async fn copy_from(&self, source: &Self, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        self.share_or_copy(source, from, at, len).await.map(|_| ())
    }

    async fn swap(&self, at: u64, _: &Pieces, new: &Pieces) -> Result<(), BlockError> {
        self.write(at, new).await
    }
}

fn spec((name, level, _): GroupShape) -> GroupSpec {
    GroupSpec { stripe_unit_bytes: STRIPE_UNIT_BYTES, ..GroupSpec::new(name, level, ArrayId([7; 16])) }
}

impl Living for PoolLives {
    type Kind = PoolKind;
    type Known = PoolKnown;

    fn create(kind: PoolKind, seed: u64, how: How) -> (Lives, PoolLives) {
        let mut places = Vec::new();
        let mut first = 0;
        for &(_, level, disks) in kind.groups {
            places.push(Places::new(level, first..first + disks, DISK_BYTES));
            first += disks;
        }
        let lives = Lives::new(seed, first, DISK_BYTES);
        lives.model.run(async |world| {
            let mut groups = Vec::new();
            for (shape, places) in kind.groups.iter().zip(&places) {
                let group = Group::create(world.clone(), spec(*shape), places.open(&world)).await;
                groups.push(group.expect("create a group"));
            }
            let spec = PoolSpec { page_bytes: volumes::PAGE_BYTES, ..PoolSpec::new("p") };
            Pool::create(world, spec, groups[..2].to_vec()).await.expect("create the pool");
        });
        (lives, PoolLives::with(kind, how, PoolKnown { places, ..PoolKnown::default() }))
    }

    fn with(kind: PoolKind, how: How, known: PoolKnown) -> PoolLives {
        let shared = Shared::from(known.content);
        if how.verbose {
            shared.tell_all();
        }
        PoolLives {
            kind,
            volumes: Volumes::new(shared.clone(), known.volumes),
            shared,
            fault: how.fault,
            places: known.places.into_iter().map(|p| Rc::new(RefCell::new(p))).collect(),
        }
    }

    fn known(&self) -> PoolKnown {
        PoolKnown {
            content: self.shared.known(),
            volumes: self.volumes.known(),
            places: self.places.iter().map(|p| p.borrow().clone()).collect(),
        }
    }

    async fn life(&self, model: &Model, world: World, life: &Life) {
        let mut rng = world.random("volumes");
        self.make_faults(model, &world, life, &mut rng);
        self.shared.set_may_lose(!self.places.iter().all(|p| p.borrow().is_whole()));
        let groups = self.open_groups(&world).await.unwrap_or_else(|e| panic!("open a group: {e}"));
        let pool =
            Pool::open(world.clone(), groups.clone()).await.unwrap_or_else(|e| panic!("open the pool: {e}"));
        self.shared.tell(|| "a life begins".to_owned());
        self.volumes.reconcile(&pool);
        self.compare(&pool).await;
        if life.thorough {
            self.audit(&world, &pool, &groups).await;
        }
        let repairs = self.begin_repairs(life, model, &world, &groups).await;
        while life.steps.get() > 0 {
            self.round(&world, &pool, &groups, life, &mut rng).await;
        }
        for repair in repairs.iter().flatten() {
            repair.ended().await;
        }
        if life.thorough {
            self.compare(&pool).await;
            self.audit(&world, &pool, &groups).await;
        }
        if life.closes {
            pool.close().await.expect("close the pool");
            for group in groups {
                group.close().await.expect("close a group");
            }
        }
    }

    /// A pool keeps map changes in memory until a flush: the death of the process may lose what was not
    /// flushed.
    fn ended(&self, how: Ended) {
        self.shared.tell(|| format!("the life has ended: {how:?}"));
        self.places.iter().for_each(|p| p.borrow_mut().equal &= how == Ended::Closed);
        self.shared.ended(|shadow| match how {
            Ended::PowerCut => shadow.crash(),
            Ended::Died => shadow.memory_lost(),
            Ended::Closed => shadow.process_ended(),
        });
    }

    fn lose_disks(&self, rng: &mut Rng, beyond: bool) -> bool {
        let which = rng.usize(..self.places.len());
        let lost =
            self.places.iter().enumerate().map(|(i, p)| p.borrow_mut().lose(rng, beyond && i == which));
        lost.fold(false, |any, lost| any | lost)
    }

    async fn life_beyond(&self, _: &Model, world: World) {
        let mut groups = Vec::new();
        for (shape, places) in self.kind.groups.iter().zip(&self.places) {
            let Ok(group) = redundancy::open_beyond(&world, spec(*shape), places).await else { return };
            groups.push(group);
        }
        let Ok(pool) = Pool::open(world, groups).await else { return };
        self.volumes.reconcile(&pool);
        for name in self.volumes.names() {
            workload::compare_what_can_be_read(&volumes::of(&pool, &name), &self.shared, &name).await;
        }
    }
}

impl PoolLives {
    async fn open_groups(&self, world: &World) -> Result<Vec<Group>, raid::GroupError> {
        let mut groups = Vec::new();
        for (shape, places) in self.kind.groups.iter().zip(&self.places) {
            groups.push(redundancy::open(world, spec(*shape), places).await?);
        }
        Ok(groups)
    }

    async fn compare(&self, pool: &Pool) {
        for name in self.volumes.names() {
            workload::compare_all(&volumes::of(pool, &name), &self.shared, &name).await;
        }
    }

    /// Checks that no page is mapped twice, all counts agree, and below it copies and parities match.
    async fn audit(&self, world: &World, pool: &Pool, groups: &[Group]) {
        pool.flush().await.unwrap_or_else(|e| panic!("flush of the pool: {e}"));
        let findings = pool.audit();
        assert!(findings.is_empty(), "{findings:#?}");
        check_space(pool);
        for (group, places) in groups.iter().zip(&self.places) {
            redundancy::agrees(world, group, places).await;
        }
    }

    async fn begin_repairs(
        &self,
        life: &Life,
        model: &Model,
        world: &World,
        groups: &[Group],
    ) -> Vec<Option<Beside>> {
        let mut repairs = Vec::new();
        for (group, places) in groups.iter().zip(&self.places) {
            repairs.push(repairs::begin(life, model, world, group, places).await);
        }
        repairs
    }

    /// One change of the volumes, then operations on them, sometimes beside a change of the groups.
    async fn round(&self, world: &World, pool: &Pool, groups: &[Group], life: &Life, rng: &mut Rng) {
        self.volumes.change(pool, rng).await;
        let names = self.volumes.names();
        let volumes: BTreeMap<_, _> = names.into_iter().map(|n| (n.clone(), volumes::of(pool, &n))).collect();
        let steps = Rc::new(Cell::new(life.steps.get().min(rng.u64(1..=ROUND_STEPS_MAX))));
        life.steps.set(life.steps.get() - steps.get());
        let deed = reshape::begin(world, pool, (groups, ROOM_BYTES), &self.shared, rng);
        match self.kind.through {
            Through::Volumes => workload::run(world, &volumes, &self.shared, &steps).await,
            Through::Units => {
                workload::run(world, &lu::units_of(world, &volumes), &self.shared, &steps).await
            }
        }
        if let Some(deed) = deed {
            deed.ended().await;
        }
        check_space(pool);
    }

    fn make_faults(&self, model: &Model, world: &World, life: &Life, rng: &mut Rng) {
        let disks: Vec<Disk> = self.places.iter().flat_map(|p| p.borrow().disks(model)).collect();
        let slow = rng.usize(..2 * disks.len());
        for (i, disk) in disks.iter().enumerate() {
            disk.set_slow(if i == slow && life.faults { SLOW_FACTOR } else { 1 });
            lies::begin_later(self.fault, world, disk, rng);
        }
    }
}

/// Free and used pages are all pages.
fn check_space(pool: &Pool) {
    let space = pool.space();
    assert_eq!(space.used_bytes + space.free_bytes, space.total_bytes, "{space:?}");
}

#[cfg(test)]
mod tests {
    use ::pool::Provisioning;
    use block::Pieces;
    use world_model::Outcome;

    use super::*;

    const KIND: PoolKind = PoolKind {
        through: Through::Volumes,
        groups: &[("mirror", Level::Raid1, 2), ("stripe", Level::Raid0, 2)],
    };

    /// Found by the simulation of the array with seed 209: a process died with a write in the drives' caches;
    /// the next one took its pool for clean, skipped the first flush, acknowledged it, and the power was cut.
    #[test]
    fn the_first_flush_after_a_process_died_covers_what_it_left_in_the_drives() {
        let page = Pieces::copy_of(&[7; volumes::PAGE_BYTES as usize]);
        for seed in 0..10 {
            let (lives, living) = PoolLives::create(KIND, seed, How::default());
            let open = async |world: World| {
                let groups = living.open_groups(&world).await.expect("open the groups");
                Pool::open(world, groups).await.expect("open")
            };
            lives.model.run(async |world| {
                let pool = open(world).await;
                let volume = pool
                    .create_volume("v", 8 * volumes::PAGE_BYTES, Provisioning::Thick)
                    .await
                    .expect("create");
                volume.write(0, &page).await.expect("write");
                volume.flush().await.expect("flush");
                pool.close().await.expect("close");
            });
            let written = Pieces::copy_of(&[9; 4096]);
            lives.model.run(async |world| {
                let volume = open(world).await.volume("v").expect("it is there");
                volume.write(0, &written).await.expect("write in place");
            });
            let outcome = lives.model.run_until_crash(async |world| {
                let volume = open(world).await.volume("v").expect("it is there");
                volume.flush().await.expect("flush");
                lives.model.disks().cut_power();
            });
            assert_eq!(outcome, Outcome::PowerCut);
            lives.model.reboot();
            lives.model.run(async |world| {
                let mut back = Pieces::new();
                open(world)
                    .await
                    .volume("v")
                    .expect("it is there")
                    .read(0, 4096, &mut back)
                    .await
                    .expect("read");
                assert_eq!(written.first_difference(&back), None, "seed {seed}");
            });
        }
    }
}
