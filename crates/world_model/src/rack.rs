//! All disks of a model.

use std::cell::RefCell;
use std::rc::Rc;

use world::Rng;

use crate::disk::{Disk, Shared};
use crate::disk_spec::DiskSpec;
use crate::fork::{DiskImage, DisksImage, Loss};
use crate::power::Power;
use crate::store::Store;
use crate::timeline::stream;

/// All disks of a model.
#[derive(Clone)]
pub struct Disks(Rc<Rack>);

struct Rack {
    list: RefCell<Vec<Disk>>,
    power: Rc<Power>,
    rng: RefCell<Rng>,
}

impl Disks {
    pub(crate) fn new(seed: u64) -> Disks {
        let rng = RefCell::new(stream(seed, "power"));
        Disks(Rc::new(Rack { list: RefCell::default(), power: Rc::default(), rng }))
    }

    pub(crate) fn add(&self, name: &str, spec: DiskSpec) -> Disk {
        assert!(self.get(name).is_none(), "disk {name} already exists");
        let mut list = self.0.list.borrow_mut();
        let disk = Disk(Rc::new(Shared::new(name, list.len() as u64, spec, self.0.power.clone())));
        list.push(disk.clone());
        disk
    }

    /// The disk of this name.
    pub fn get(&self, name: &str) -> Option<Disk> {
        self.0.list.borrow().iter().find(|d| d.name() == name).cloned()
    }

    /// The number of writes, zeros and flushes completed on all disks since the model began.
    pub fn persistence_points(&self) -> u64 {
        self.0.power.points.get()
    }

    /// Cuts the power right after the persistence point with this number ([`Disks::persistence_points`]
    /// counts from 1).
    pub fn cut_power_after(&self, point: u64) {
        self.0.power.cut_after.set(Some(point));
    }

    /// Cancels a planned power failure.
    pub fn keep_power(&self) {
        self.0.power.cut_after.set(None);
    }

    /// Cuts the power now: no code under test runs after the current step.
    pub fn cut_power(&self) {
        self.0.power.on.set(false);
        self.tear();
    }

    /// Calls `watch` with the number of every persistence point, until [`Disks::unwatch`]: the operation has
    /// completed on its disk, and its host has not learned it. [`Disks::image`] returns what the disks hold
    /// then.
    pub fn watch_points(&self, watch: impl Fn(u64) + 'static) {
        *self.0.power.watcher.borrow_mut() = Some(Rc::new(watch));
    }

    /// Ends the watch.
    pub fn unwatch(&self) {
        *self.0.power.watcher.borrow_mut() = None;
    }

    /// The state of all disks at this moment of a run: content, caches, writes in flight, faults.
    pub fn image(&self) -> DisksImage {
        let disks = self.0.list.borrow().iter().map(|disk| DiskImage::of(&disk.0)).collect();
        DisksImage { disks, points: self.persistence_points() }
    }

    /// Disks as in the image, after this loss.
    pub(crate) fn from_image(seed: u64, image: DisksImage, loss: Loss) -> Disks {
        let disks = Disks::new(seed);
        disks.0.power.points.set(image.points);
        for disk in image.disks {
            let new = disks.add(&disk.name, disk.spec);
            *new.0.store.borrow_mut() = disk.store;
            *new.0.faults.borrow_mut() = disk.faults;
            match loss {
                Loss::Power => new.0.lose_power(disk.in_flight, &mut disks.0.rng.borrow_mut()),
                Loss::Process => new.0.lose_process(disk.in_flight),
            }
        }
        disks
    }

    /// Whether the disks have power.
    pub fn is_powered(&self) -> bool {
        self.0.power.is_on()
    }

    /// Drops all content.
    pub(crate) fn clear(&self) {
        self.unwatch();
        for disk in self.0.list.take() {
            *disk.0.store.borrow_mut() = Store::new(0, true);
        }
    }

    pub(crate) fn power_on(&self) {
        self.0.power.on.set(true);
        self.0.power.torn.set(false);
        self.0.power.cut_after.set(None);
    }

    /// Decides what survives a power failure; once for each.
    pub(crate) fn tear(&self) {
        if self.0.power.torn.replace(true) {
            return;
        }
        let mut rng = self.0.rng.borrow_mut();
        for disk in self.0.list.borrow().iter() {
            let in_flight = disk.0.ops.borrow_mut().abandon();
            disk.0.lose_power(in_flight, &mut rng);
        }
    }

    /// The process has ended and the power is on: submitted operations are carried out.
    pub(crate) fn process_ended(&self) {
        for disk in self.0.list.borrow().iter() {
            let in_flight = disk.0.ops.borrow_mut().abandon();
            disk.0.lose_process(in_flight);
        }
    }
}
