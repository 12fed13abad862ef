//! A RAID group, life after life.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockError, Device, Pieces};
use raid::{ArrayId, Group, GroupSpec, Level, MemberState, Throttle};
use world::{Rng, World};
use world_model::{Disk, Model};

use super::lives::{Ended, Life, Lives, Living};
use super::places::{Places, lose_a_write};
use super::redundancy;
use super::shadow::Shadow;
use super::stamp::SECTOR_BYTES;
use super::workload::{self, Shared, Snapshot};
use super::{Fault, How};

/// Room for labels, journal and two MiB of data.
const DISK_BYTES: u64 = 4 << 20;
/// The most sectors that the workload uses: more would thin out what happens in each.
const SECTORS_MAX: usize = 2048;
/// The smallest unit that raid takes by default: the most rows and the most full ones.
const STRIPE_UNIT_BYTES: u32 = 8 << 10;
/// The group, and what the workload calls it.
const NAME: &str = "g";
/// Disks are slow by this factor when they are slow.
const SLOW_FACTOR: u32 = 10;
/// One life in so many loses a disk for a while.
const DEATH_ONE_IN: u8 = 6;
/// What the fill of a drive that came back leaves to the workload.
const REBUILD_SHARE_PERCENT: u8 = 50;
/// The disk dies (or hangs) within this time: 20 ms, a hundred operations.
const DEATH_AFTER_NS_MAX: u64 = 20_000_000;

/// What kind of group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) level: Level,
    pub(crate) disks: usize,
}

/// A group on its disks, and its shadow.
pub(crate) struct GroupLives {
    shape: Shape,
    fault: Fault,
    shared: Shared,
    places: Rc<RefCell<Places>>,
}

/// A group has no offloads: the host zeroes and copies.
impl workload::Subject for Group {
    async fn unmap(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.zero(at, len).await
    }

    async fn copy_from(&self, source: &Self, from: u64, at: u64, len: u64) -> Result<(), BlockError> {
        let mut data = Pieces::new();
        source.read(from, len as usize, &mut data).await?;
        self.write(at, &data).await
    }

    async fn swap(&self, at: u64, _: &Pieces, new: &Pieces) -> Result<(), BlockError> {
        self.write(at, new).await
    }
}

fn spec(level: Level) -> GroupSpec {
    GroupSpec { stripe_unit_bytes: STRIPE_UNIT_BYTES, ..GroupSpec::new(NAME, level, ArrayId([7; 16])) }
}

impl GroupLives {
    /// Opens the group with what is left of it.
    async fn open(&self, world: &World) -> Result<Group, raid::GroupError> {
        redundancy::open(world, spec(self.shape.level), &self.places).await
    }

    /// What a group must bear: one slow disk; a disk that hangs for a while; with redundancy, latent errors on one of the disks,
    /// the death of one, or that one hangs until it is dropped, and comes back.
    ///
    /// No latent errors while the mirrors may differ after a power cut: a second fault there may show the other content of
    /// a sector. For the same reason it is the last disk that dies: reads are kept to the first one then.
    fn make_faults(&self, model: &Model, world: &World, group: &Group, rng: &mut Rng) {
        let disks: Vec<Disk> = self.places.borrow().disks(model);
        let which = rng.usize(..disks.len());
        for (i, disk) in disks.iter().enumerate() {
            disk.set_flush_lies(self.fault == Fault::FlushLies);
            disk.set_slow(if i == which && rng.bool() { SLOW_FACTOR } else { 1 });
            if self.fault == Fault::LostWrite {
                lose_a_write(world, disk, rng);
            }
        }
        self.shared.tell(|| format!("faults: disk {which} of {}", disks.len()));
        let (what, after) = (rng.u8(..DEATH_ONE_IN), rng.u64(..DEATH_AFTER_NS_MAX));
        if what == 1 {
            let (world, victim, shared) = (world.clone(), disks[which].clone(), self.shared.clone());
            world.clone().spawn(async move {
                world.sleep(Duration::from_nanos(after)).await;
                victim.hang();
                shared.tell(|| format!("{} hangs", victim.name()));
                world.sleep(Duration::from_nanos(after)).await;
                victim.resume();
            });
        }
        let status = group.status();
        let whole = self.places.borrow().is_whole()
            && status.members.iter().all(|m| m.state == MemberState::Active)
            && self.shape.level != Level::Raid0;
        if whole && !status.reads_pinned && disks.iter().all(|d| d.latent_errors() == 0) {
            let at = rng.u64(DISK_BYTES / 2..DISK_BYTES - (64 << 10));
            let end = at + rng.u64(1..65_536);
            self.shared.tell(|| format!("latent errors on {} at {at}..{end}", disks[which].name()));
            disks[which].add_latent_errors(at..end);
        }
        if what == 2 && whole && !status.reads_pinned {
            disks.iter().for_each(Disk::clear_latent_errors);
            let times = (Duration::from_nanos(after), Duration::from_millis(rng.u64(8_000..30_000)));
            world.spawn(self.hang_and_return(
                world.clone(),
                group.clone(),
                (which, disks[which].clone()),
                times,
            ));
        }
        if what == 0 && whole {
            let (world, victim) = (world.clone(), disks[disks.len() - 1].clone());
            let (places, shared) = (self.places.clone(), self.shared.clone());
            disks.iter().for_each(Disk::clear_latent_errors);
            world.clone().spawn(async move {
                world.sleep(Duration::from_nanos(after)).await;
                victim.kill();
                shared.tell(|| format!("{} dies", victim.name()));
                places.borrow_mut().falls_behind(victim.name());
            });
        }
    }
}

impl GroupLives {
    /// After a while a disk hangs for a while; if it was dropped, it comes back and is filled with what changed.
    fn hang_and_return(
        &self,
        world: World,
        group: Group,
        (position, victim): (usize, Disk),
        (after, hangs): (Duration, Duration),
    ) -> impl Future<Output = ()> + 'static {
        let (places, shared) = (self.places.clone(), self.shared.clone());
        async move {
            world.sleep(after).await;
            victim.hang();
            places.borrow_mut().falls_behind(victim.name());
            shared.tell(|| format!("{} hangs", victim.name()));
            let end = world.now() + hangs;
            let dropped = || group.status().members[position].dropped_silent;
            // A life goes on for some milliseconds of work: it comes back while there is some left.
            while world.now() < end && !dropped() {
                world.sleep(Duration::from_millis(1)).await;
            }
            world.sleep(after / 16).await;
            victim.resume();
            // What was given up ends now.
            world.sleep(Duration::from_micros(1)).await;
            if dropped() {
                let missed = group.take_back(position as u32).await;
                let missed = missed.unwrap_or_else(|e| panic!("take back {position}: {e}"));
                shared.tell(|| format!("{} is filled with {missed:?} bytes", victim.name()));
                let rebuilt = group.rebuild(&Throttle::new(world.clone(), REBUILD_SHARE_PERCENT)).await;
                rebuilt.unwrap_or_else(|e| panic!("rebuild after the return: {e}"));
            }
            if group.status().members.iter().all(|m| m.state == MemberState::Active) {
                places.borrow_mut().filled();
            }
        }
    }
}

impl Living for GroupLives {
    type Kind = Shape;
    type Known = (Snapshot, Places);

    fn create(shape: Shape, seed: u64, how: How) -> (Lives, GroupLives) {
        let lives = Lives::new(seed, shape.disks, DISK_BYTES);
        let places = Places::new(shape.level, 0..shape.disks, DISK_BYTES);
        let len_bytes = lives.model.run(async |world| {
            let drives = places.open(&world);
            let group = Group::create(world, spec(shape.level), drives).await.expect("create");
            group.geometry().len_bytes
        });
        let sectors = (len_bytes as usize / SECTOR_BYTES).min(SECTORS_MAX);
        let living = GroupLives::with(shape, how, (Snapshot::default(), places));
        living.shared.shadows.borrow_mut().insert(NAME.to_owned(), Shadow::new(sectors));
        (lives, living)
    }

    fn with(shape: Shape, how: How, (known, places): (Snapshot, Places)) -> GroupLives {
        let shared = Shared::from(known);
        if how.verbose {
            shared.tell_all();
        }
        GroupLives { shape, fault: how.fault, shared, places: Rc::new(RefCell::new(places)) }
    }

    fn known(&self) -> (Snapshot, Places) {
        (self.shared.known(), self.places.borrow().clone())
    }

    async fn life(&self, model: &Model, world: World, life: &Life) {
        // A disk that died or hung in an earlier life is there again, with what it had.
        let (disks, whole) = (self.places.borrow().disks(model), self.places.borrow().is_whole());
        self.shared.set_may_lose(!whole || disks.iter().any(|d| d.latent_errors() > 0));
        for disk in disks {
            disk.resume();
            // With a disk missing they would be more than can be borne.
            if !whole {
                disk.clear_latent_errors();
            }
        }
        let group = self.open(&world).await.unwrap_or_else(|e| panic!("open: {e}"));
        if life.faults {
            self.make_faults(model, &world, &group, &mut world.random("faults"));
        }
        workload::compare_all(&group, &self.shared, NAME).await;
        if life.thorough {
            redundancy::agrees(&world, &group, &self.places).await;
        }
        let repair = redundancy::begin_repairs(life, model, &world, &group, &self.places).await;
        let volumes = BTreeMap::from([(NAME.to_owned(), group.clone())]);
        workload::run(&world, &volumes, &self.shared, &life.steps).await;
        if let Some(repair) = repair {
            repair.ended().await;
        }
        if life.thorough {
            workload::compare_all(&group, &self.shared, NAME).await;
            redundancy::agrees(&world, &group, &self.places).await;
        }
        if life.closes {
            group.close().await.expect("close");
        }
    }

    /// A group keeps nothing in memory that a write needs: what was acknowledged is in the disks.
    fn ended(&self, how: Ended) {
        self.places.borrow_mut().equal &= how == Ended::Closed;
        self.shared.ended(|shadow| match how {
            Ended::PowerCut => shadow.crash(),
            Ended::Died | Ended::Closed => shadow.process_ended(),
        });
    }

    fn lose_disks(&self, rng: &mut Rng, beyond: bool) -> bool {
        self.places.borrow_mut().lose(rng, beyond)
    }

    async fn life_beyond(&self, model: &Model, world: World) {
        self.places.borrow().disks(model).iter().for_each(Disk::resume);
        let opened = redundancy::open_beyond(&world, spec(self.shape.level), &self.places).await;
        if let Ok(group) = opened {
            workload::compare_what_can_be_read(&group, &self.shared, NAME).await;
        }
    }
}
