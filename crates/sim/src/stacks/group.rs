//! A RAID group, life after life.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockError, Device, Pieces};
use raid::{ArrayId, Group, GroupSpec, Level};
use world::{Rng, World};
use world_model::{Disk, Model};

use crate::actors::repairs;
use crate::actors::workload::{self, Shared, Snapshot};
use crate::faults::Fault;
use crate::faults::drives::GroupFaults;
use crate::lives::{Ended, How, Life, Lives, Living};
use crate::places::Places;
use crate::redundancy;
use crate::shadow::Shadow;
use crate::stamp::SECTOR_BYTES;

/// Room for labels, journal and two MiB of data.
const DISK_BYTES: u64 = 4 << 20;
/// Most sectors of the workload: more would reduce the events in each.
const SECTORS_MAX: usize = 2048;
/// The smallest default stripe unit: the most rows and the most full stripes.
const STRIPE_UNIT_BYTES: u32 = 8 << 10;
/// The group, and what the workload calls it.
const NAME: &str = "g";

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
    /// Opens the group with the remaining disks.
    async fn open(&self, world: &World) -> Result<Group, raid::GroupError> {
        redundancy::open(world, spec(self.shape.level), &self.places).await
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
        // A disk that died or hung in an earlier life is available again, with its content.
        let (disks, whole) = (self.places.borrow().disks(model), self.places.borrow().is_whole());
        self.shared.set_may_lose(!whole || disks.iter().any(|d| d.latent_errors() > 0));
        for disk in disks {
            disk.resume();
            // With a missing disk they would exceed the redundancy.
            if !whole {
                disk.clear_latent_errors();
            }
        }
        let group = self.open(&world).await.unwrap_or_else(|e| panic!("open: {e}"));
        if life.faults {
            let faults = GroupFaults {
                world: &world,
                group: &group,
                level: self.shape.level,
                disks: self.places.borrow().disks(model),
                disk_bytes: DISK_BYTES,
                places: &self.places,
                shared: &self.shared,
            };
            faults.begin(self.fault, &mut world.random("faults"));
        }
        workload::compare_all(&group, &self.shared, NAME).await;
        if life.thorough {
            redundancy::agrees(&world, &group, &self.places).await;
        }
        let repair = repairs::begin(life, model, &world, &group, &self.places).await;
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

    /// A group keeps no write in memory: everything acknowledged is on the disks.
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
