//! A pool on two groups, life after life: volumes come, grow, are cloned and go between rounds of the workload.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockError, Device};
use pool::{Pool, PoolSpec, Provisioning, Volume};
use raid::{ArrayId, Group, GroupSpec, Level};
use world::{Rng, World};
use world_model::Model;

use super::lives::{Ended, Life, Lives, open_drives};
use super::shadow::Shadow;
use super::stamp::SECTOR_BYTES;
use super::workload::{self, Shared};
use super::{Fault, How, Tally, lu};

/// Room for metadata and for three times what the volumes hold at most.
const DISK_BYTES: u64 = 24 << 20;
/// A mirror on the first two disks, a stripe on the others.
const DISKS: usize = 4;
/// The smallest page: the most work for the maps.
const PAGE_BYTES: u64 = 64 << 10;
/// Volumes begin with between one and this many pages.
const PAGES_MAX: u64 = 16;
/// No volume grows over this many pages.
const PAGES_GROWN_MAX: u64 = 32;
/// There are never more volumes.
const VOLUMES_MAX: usize = 8;
/// A round of the workload between two changes of the volumes has at most this many operations.
const ROUND_STEPS_MAX: u64 = 60;

/// What is known of a volume's being there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum There {
    Surely,
    /// Its creation or deletion is under way.
    Perhaps,
}

struct Known {
    there: There,
    /// Its size: that which was acknowledged last, and that which was asked for last.
    len_bytes: u64,
    len_asked_bytes: u64,
}

/// How the workload reaches the volumes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    /// As they are.
    Volumes,
    /// As logical units, with SCSI commands.
    Units,
}

struct PoolLives {
    through: Through,
    shared: Shared,
    fault: Fault,
    known: RefCell<BTreeMap<String, Known>>,
    names: Cell<u64>,
}

impl workload::Subject for Volume {
    async fn unmap(&self, at: u64, len: u64) -> Result<(), BlockError> {
        Volume::unmap(self, at, len).await.map(|_| ())
    }

    async fn copy_from(&self, source: &Self, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        self.share_or_copy(source, from, at, len).await.map(|_| ())
    }
}

fn specs() -> [(GroupSpec, std::ops::Range<usize>); 2] {
    let id = ArrayId([7; 16]);
    [
        (GroupSpec::new("mirror", Level::Raid1, id), 0..2),
        (GroupSpec::new("stripe", Level::Raid0, id), 2..DISKS),
    ]
}

async fn open_groups(world: &World) -> Vec<Group> {
    let drives = open_drives(world, DISKS);
    let mut groups = Vec::new();
    for (spec, which) in specs() {
        let group = Group::open(world.clone(), spec, drives[which].to_vec()).await;
        groups.push(group.unwrap_or_else(|e| panic!("open the group: {e}")));
    }
    groups
}

impl PoolLives {
    /// Makes groups and pool, in a life of their own.
    fn create(lives: &Lives, through: Through, fault: Fault) -> PoolLives {
        lives.model.run(async |world| {
            let drives = open_drives(&world, DISKS);
            let mut groups = Vec::new();
            for (spec, which) in specs() {
                let group = Group::create(world.clone(), spec, drives[which].to_vec()).await;
                groups.push(group.expect("create a group"));
            }
            let spec = PoolSpec { page_bytes: PAGE_BYTES, ..PoolSpec::new("p") };
            Pool::create(world, spec, groups).await.expect("create the pool");
        });
        PoolLives {
            through,
            shared: Shared::default(),
            fault,
            known: RefCell::default(),
            names: Cell::new(0),
        }
    }

    async fn life(&self, model: &Model, world: World, life: &Life) {
        let mut rng = world.random("volumes");
        self.make_faults(model, &mut rng);
        let groups = open_groups(&world).await;
        let pool =
            Pool::open(world.clone(), groups.clone()).await.unwrap_or_else(|e| panic!("open the pool: {e}"));
        self.shared.tell(|| "a life begins".to_owned());
        self.reconcile(&pool);
        for name in self.names() {
            workload::compare_all(&self.volume(&pool, &name), &self.shared, &name).await;
        }
        while life.steps.get() > 0 {
            self.change(&pool, &mut rng).await;
            let names = self.names();
            let volumes: BTreeMap<_, _> =
                names.into_iter().map(|n| (n.clone(), self.volume(&pool, &n))).collect();
            let round = Rc::new(Cell::new(life.steps.get().min(rng.u64(1..=ROUND_STEPS_MAX))));
            life.steps.set(life.steps.get() - round.get());
            match self.through {
                Through::Volumes => workload::run(&world, &volumes, &self.shared, &round).await,
                Through::Units => {
                    workload::run(&world, &lu::units_of(&world, &volumes), &self.shared, &round).await
                }
            }
            check_space(&pool);
        }
        if life.closes {
            pool.close().await.expect("close the pool");
            for group in groups {
                group.close().await.expect("close a group");
            }
        }
    }

    /// A pool keeps changes of its maps in memory until a flush: a process that dies may lose what was not flushed.
    fn ended(&self, how: Ended) {
        self.shared.tell(|| format!("the life has ended: {how:?}"));
        self.shared.ended(|shadow| match how {
            Ended::PowerCut => shadow.crash(),
            Ended::Died => shadow.memory_lost(),
            Ended::Closed => shadow.process_ended(),
        });
    }

    fn make_faults(&self, model: &Model, rng: &mut Rng) {
        let slow = rng.usize(..2 * DISKS);
        for (i, disk) in (0..DISKS).filter_map(|i| model.disks().get(&format!("d{i}"))).enumerate() {
            disk.set_flush_lies(self.fault == Fault::FlushLies);
            disk.set_slow(if i == slow { 10 } else { 1 });
            if self.fault == Fault::LostWrite {
                disk.lose_writes(1);
            }
        }
    }

    fn names(&self) -> Vec<String> {
        self.known.borrow().keys().cloned().collect()
    }

    fn volume(&self, pool: &Pool, name: &str) -> Volume {
        pool.volume(name).unwrap_or_else(|| panic!("volume {name} is gone"))
    }

    /// Holds the pool's list of volumes against what is known; what was open is decided by it.
    fn reconcile(&self, pool: &Pool) {
        let known = &mut *self.known.borrow_mut();
        let found: BTreeMap<String, Volume> =
            pool.volumes().into_iter().map(|v| (v.name().to_string(), v)).collect();
        for name in found.keys() {
            assert!(known.contains_key(name), "volume {name} is there, and was deleted or never made");
        }
        known.retain(|name, known| match found.get(name) {
            None => {
                assert!(known.there == There::Perhaps, "volume {name} is lost");
                self.shared.shadows.borrow_mut().remove(name);
                false
            }
            Some(volume) => {
                let len = volume.geometry().len_bytes;
                let (acknowledged, asked) = (known.len_bytes, known.len_asked_bytes);
                assert!(
                    len == acknowledged || len == asked,
                    "volume {name} has {len} bytes, not {acknowledged} or {asked}"
                );
                *known = Known { there: There::Surely, len_bytes: len, len_asked_bytes: len };
                if let Some(shadow) = self.shared.shadows.borrow_mut().get_mut(name) {
                    shadow.grow(len as usize / SECTOR_BYTES);
                }
                true
            }
        });
    }

    /// One change to the volumes, while nothing else is in flight.
    async fn change(&self, pool: &Pool, rng: &mut Rng) {
        let names = self.names();
        if names.is_empty() {
            return self.create_volume(pool, rng).await;
        }
        let name = &names[rng.usize(..names.len())];
        match rng.u8(..8) {
            0..2 if names.len() < VOLUMES_MAX => self.create_volume(pool, rng).await,
            2..4 if names.len() < VOLUMES_MAX => self.clone_volume(pool, name).await,
            4..6 if names.len() > VOLUMES_MAX / 2 => self.delete_volume(pool, name).await,
            6 => self.grow_volume(pool, name, rng).await,
            _ => {}
        }
    }

    fn new_name(&self) -> String {
        self.names.set(self.names.get() + 1);
        format!("v{}", self.names.get())
    }

    fn expect(&self, name: &str, shadow: Shadow) {
        let len_bytes = (shadow.sectors() * SECTOR_BYTES) as u64;
        let known = Known { there: There::Perhaps, len_bytes, len_asked_bytes: len_bytes };
        self.known.borrow_mut().insert(name.to_owned(), known);
        self.shared.shadows.borrow_mut().insert(name.to_owned(), shadow);
    }

    fn set_there(&self, name: &str, there: There) {
        self.known.borrow_mut().get_mut(name).expect("a known volume").there = there;
    }

    async fn create_volume(&self, pool: &Pool, rng: &mut Rng) {
        let name = self.new_name();
        let len_bytes = rng.u64(1..=PAGES_MAX) * PAGE_BYTES;
        let provisioning = if rng.u8(..4) == 0 { Provisioning::Thick } else { Provisioning::Thin };
        self.shared.tell(|| format!("create {name} with {len_bytes} bytes, {provisioning:?}"));
        self.expect(&name, Shadow::new(len_bytes as usize / SECTOR_BYTES));
        let made = pool.create_volume(&name, len_bytes, provisioning).await;
        made.unwrap_or_else(|e| panic!("create {name}: {e}"));
        self.set_there(&name, There::Surely);
    }

    async fn clone_volume(&self, pool: &Pool, from: &str) {
        let name = self.new_name();
        self.shared.tell(|| format!("clone {from} as {name}"));
        let shadow = self.shared.shadows.borrow()[from].clone();
        self.expect(&name, shadow);
        pool.clone_volume(from, &name).await.unwrap_or_else(|e| panic!("clone {from} as {name}: {e}"));
        self.set_there(&name, There::Surely);
    }

    async fn delete_volume(&self, pool: &Pool, name: &str) {
        self.shared.tell(|| format!("delete {name}"));
        self.set_there(name, There::Perhaps);
        pool.delete_volume(name).await.unwrap_or_else(|e| panic!("delete {name}: {e}"));
        self.known.borrow_mut().remove(name);
        self.shared.shadows.borrow_mut().remove(name);
    }

    async fn grow_volume(&self, pool: &Pool, name: &str, rng: &mut Rng) {
        let len_bytes = self.known.borrow()[name].len_bytes + rng.u64(1..=4) * PAGE_BYTES;
        if len_bytes > PAGES_GROWN_MAX * PAGE_BYTES {
            return;
        }
        let note =
            |set: fn(&mut Known, u64)| set(self.known.borrow_mut().get_mut(name).expect("known"), len_bytes);
        self.shared.tell(|| format!("grow {name} to {len_bytes} bytes"));
        note(|known, len| known.len_asked_bytes = len);
        pool.grow_volume(name, len_bytes).await.unwrap_or_else(|e| panic!("grow {name}: {e}"));
        note(|known, len| known.len_bytes = len);
        let sectors = len_bytes as usize / SECTOR_BYTES;
        self.shared.shadows.borrow_mut().get_mut(name).expect("known").grow(sectors);
    }
}

/// Free and used pages are all pages.
fn check_space(pool: &Pool) {
    let space = pool.space();
    assert_eq!(space.used_bytes + space.free_bytes, space.total_bytes, "{space:?}");
}

pub(super) fn simulate(through: Through, seed: u64, steps: u64, how: How) -> Tally {
    let lives = Lives::new(seed, DISKS, DISK_BYTES);
    let pool = PoolLives::create(&lives, through, how.fault);
    if how.verbose {
        pool.shared.tell_all();
    }
    lives.live(steps, async |model, world, life| pool.life(model, world, life).await, |how| pool.ended(how))
}

/// One short workload, with the power cut after each of its persistence points in turn.
pub(super) fn every_point(through: Through, seed: u64, steps: u64) -> u64 {
    for point in 1.. {
        let mut lives = Lives::new(seed, DISKS, DISK_BYTES);
        let pool = PoolLives::create(&lives, through, Fault::None);
        let life = async |model: &Model, world, life: &Life| pool.life(model, world, life).await;
        if !lives.crash_at(point, steps, life, |how| pool.ended(how)) {
            return point - 1;
        }
    }
    unreachable!("a workload of {steps} steps has an end")
}

#[cfg(test)]
mod tests {
    use block::Pieces;
    use world_model::Outcome;

    use super::*;

    /// Found by the simulation of the array with seed 209: a process died with a write in the drives' caches; the next one
    /// took its pool for clean, skipped the first flush, acknowledged it, and the power was cut.
    #[test]
    fn the_first_flush_after_a_process_died_covers_what_it_left_in_the_drives() {
        let page = Pieces::copy_of(&[7; PAGE_BYTES as usize]);
        for seed in 0..10 {
            let lives = Lives::new(seed, DISKS, DISK_BYTES);
            PoolLives::create(&lives, Through::Volumes, Fault::None);
            let open = async |world: World| {
                Pool::open(world.clone(), open_groups(&world).await).await.expect("open")
            };
            lives.model.run(async |world| {
                let pool = open(world).await;
                let volume =
                    pool.create_volume("v", 8 * PAGE_BYTES, Provisioning::Thick).await.expect("create");
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
