//! Power cuts at seeded points: of host and array together, of the host, of the array.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;
use world::World;
use world_model::{DisksImage, Loss, Model};

use super::application::{self, Told};
use super::bed::Bed;
use super::file_system::Barriers;
use super::losses::{Losses, compare};
use crate::host::lu_drive::{AfterReset, Reached};
use crate::host::machine::Machine;

/// Whose power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cut {
    /// Host and array, at the same moment.
    Both,
    /// The array goes on: what it has in memory stays.
    Host,
    /// The host goes on, and finds the array again after a while.
    Array,
    /// The same, with a host that does not heed the reset.
    ArrayUnheeded,
}

impl Cut {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cut::Both => "host and array",
            Cut::Host => "host",
            Cut::Array => "array",
            Cut::ArrayUnheeded => "array, not heeded by the host",
        }
    }
}

/// Before the first cut of a run, so that something is acknowledged.
const BEFORE: Duration = Duration::from_millis(300);
/// A cut comes within this time, drawn.
const WITHIN_MS: u64 = 900;
/// One in so many persistence points is one with a cut.
const ONE_IN: u32 = 48;
/// As long as the array is away: it starts again within the time that hosts wait.
const ARRAY_AWAY: Duration = Duration::from_secs(5);
/// Afterwards the host finds it and goes on, but not for so long that it has written everything anew.
const ARRAY_BACK: Duration = Duration::from_millis(150);
/// A run that has not passed enough points by then has failed.
const RUN_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// So many cuts of one kind.
pub(super) fn run(bed: &Bed, cut: Cut, barriers: Barriers, (count, seed): (u64, u64)) -> Result<Losses> {
    if cut == Cut::Both {
        return both(bed, barriers, count, seed);
    }
    let mut losses = Losses::default();
    for number in 0..count {
        losses.add(apart(bed, cut, barriers, seed + number)?);
    }
    Ok(losses)
}

/// A host that runs, with what its application was told.
struct Life {
    machine: Machine,
    told: Rc<RefCell<Told>>,
}

async fn begin(bed: &Bed, world: &World, reached: &Rc<Reached>, how: (Barriers, AfterReset)) -> Result<Life> {
    let machine = Machine::on(world);
    let system = Rc::new(bed.start_host(&machine, reached, how).await?);
    let told = Rc::new(RefCell::new(Told::new()));
    application::start(machine.world(), &system, &told, bed.configuration);
    Ok(Life { machine, told })
}

/// Turns a host on and compares.
async fn look(bed: &Bed, world: &World, reached: &Rc<Reached>, told: &mut Told) -> Result<Losses> {
    let machine = Machine::on(world);
    let system = bed.start_host(&machine, reached, (Barriers::On, AfterReset::Fails)).await?;
    compare(&system, told).await
}

/// One run, which ends in a cut of the host, or of the array under a host that goes on.
fn apart(bed: &Bed, cut: Cut, barriers: Barriers, seed: u64) -> Result<Losses> {
    let after_reset = if cut == Cut::ArrayUnheeded { AfterReset::GoesOn } else { AfterReset::Fails };
    bed.model(seed).run(async |world| {
        let reached = Rc::<Reached>::default();
        let mut array = bed.start_array(&world, &reached).await?;
        let life = begin(bed, &world, &reached, (barriers, after_reset)).await?;
        let within = world.random("cut").u64(..WITHIN_MS * 1000);
        world.sleep(BEFORE + Duration::from_micros(within)).await;
        if cut != Cut::Host {
            reached.set(None);
            array.cut_power();
            world.sleep(ARRAY_AWAY).await;
            array = bed.start_array(&world, &reached).await?;
            world.sleep(ARRAY_BACK).await;
        }
        life.machine.cut_power();
        let mut told = life.told.borrow().clone();
        let losses = look(bed, &world, &reached, &mut told).await;
        drop(array);
        losses
    })
}

/// What there was at a point of a run.
struct Taken {
    point: u64,
    disks: DisksImage,
    told: Told,
}

/// One run; at points of it everything loses its power, and what the drives have is looked at.
fn both(bed: &Bed, barriers: Barriers, count: u64, seed: u64) -> Result<Losses> {
    let model = bed.model(seed);
    let taken = Rc::new(RefCell::new(Vec::new()));
    model.run(async |world| watched(bed, (&model, &world), barriers, (count, &taken)).await)?;
    let mut losses = Losses::default();
    for Taken { point, disks, mut told } in taken.take() {
        let crashed = Model::from_image(seed ^ point, disks, Loss::Power);
        losses.add(crashed.run(async |world| {
            let reached = Rc::<Reached>::default();
            let _array = bed.start_array(&world, &reached).await?;
            look(bed, &world, &reached, &mut told).await
        })?);
    }
    Ok(losses)
}

/// Runs until so many points are taken.
async fn watched(
    bed: &Bed,
    (model, world): (&Model, &World),
    barriers: Barriers,
    (count, taken): (u64, &Rc<RefCell<Vec<Taken>>>),
) -> Result<()> {
    let reached = Rc::<Reached>::default();
    let _array = bed.start_array(world, &reached).await?;
    let life = begin(bed, world, &reached, (barriers, AfterReset::Fails)).await?;
    world.sleep(BEFORE).await;
    let (disks, told, list) = (model.disks().clone(), life.told.clone(), taken.clone());
    let rng = RefCell::new(world.random("cut"));
    model.disks().watch_points(move |point| {
        let mut list = list.borrow_mut();
        if (list.len() as u64) < count && rng.borrow_mut().u32(..ONE_IN) == 0 {
            list.push(Taken { point, disks: disks.image(), told: told.borrow().clone() });
        }
    });
    let began = world.now();
    while (taken.borrow().len() as u64) < count {
        world.sleep(LOOK_EVERY).await;
        ensure!(world.now().since(began) < RUN_MAX, "too few persistence points in {RUN_MAX:?}");
    }
    model.disks().unwatch();
    Ok(())
}

/// Without a cut: what is acknowledged per second, as MB and as writes that are durable.
pub(super) fn speed(bed: &Bed, seed: u64, seconds: u64) -> Result<(f64, f64)> {
    bed.model(seed).run(async |world| {
        let reached = Rc::<Reached>::default();
        let _array = bed.start_array(&world, &reached).await?;
        let life = begin(bed, &world, &reached, (Barriers::On, AfterReset::Fails)).await?;
        world.sleep(BEFORE).await;
        let now = || {
            let told = life.told.borrow();
            (told.bytes, told.durable_writes)
        };
        let from = now();
        world.sleep(Duration::from_secs(seconds)).await;
        let to = now();
        let each = seconds as f64;
        Ok(((to.0 - from.0) as f64 / 1e6 / each, (to.1 - from.1) as f64 / each))
    })
}
