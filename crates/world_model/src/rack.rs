//! All disks of a model, and the power that they share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use world::Rng;

use crate::core::stream;
use crate::disk::{Disk, DiskSpec, Health, Shared};
use crate::store::Store;

/// The power of all disks, and the points at which it may be cut.
pub(crate) struct Power {
    on: Cell<bool>,
    torn: Cell<bool>,
    points: Cell<u64>,
    cut_after: Cell<Option<u64>>,
}

impl Default for Power {
    fn default() -> Power {
        Power {
            on: Cell::new(true),
            torn: Cell::default(),
            points: Cell::default(),
            cut_after: Cell::default(),
        }
    }
}

impl Power {
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Something persisted. Returns whether the power is still on.
    pub(crate) fn pass_point(&self) -> bool {
        let points = self.points.get() + 1;
        self.points.set(points);
        if self.cut_after.get() == Some(points) {
            self.on.set(false);
        }
        self.on.get()
    }
}

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
        assert!(self.get(name).is_none(), "there is a disk {name} already");
        let mut list = self.0.list.borrow_mut();
        let disk = Disk(Rc::new(Shared::new(name, list.len() as u64, spec, self.0.power.clone())));
        list.push(disk.clone());
        disk
    }

    /// The disk of this name.
    pub fn get(&self, name: &str) -> Option<Disk> {
        self.0.list.borrow().iter().find(|d| d.name() == name).cloned()
    }

    /// How many writes, zeros and flushes have completed in all disks since the model began.
    pub fn persistence_points(&self) -> u64 {
        self.0.power.points.get()
    }

    /// Cuts the power right after the persistence point of this number ([`Disks::persistence_points`] counts from 1).
    pub fn cut_power_after(&self, point: u64) {
        self.0.power.cut_after.set(Some(point));
    }

    /// No cut is to come any more.
    pub fn keep_power(&self) {
        self.0.power.cut_after.set(None);
    }

    /// Cuts the power now: of the code under test, nothing runs after the present step.
    pub fn cut_power(&self) {
        self.0.power.on.set(false);
        self.tear();
    }

    /// Whether the disks have power.
    pub fn is_powered(&self) -> bool {
        self.0.power.is_on()
    }

    /// Lets all content go.
    pub(crate) fn clear(&self) {
        for disk in self.0.list.take() {
            *disk.0.store.borrow_mut() = Store::new(0);
        }
    }

    pub(crate) fn power_on(&self) {
        self.0.power.on.set(true);
        self.0.power.torn.set(false);
        self.0.power.cut_after.set(None);
    }

    /// Once for each power cut, decides what survives.
    pub(crate) fn tear(&self) {
        if self.0.power.torn.replace(true) {
            return;
        }
        let mut rng = self.0.rng.borrow_mut();
        for disk in self.0.list.borrow().iter() {
            let mut in_flight = disk.0.ops.borrow_mut().abandon();
            if disk.0.faults.borrow().health == Health::Dead {
                in_flight.clear();
            }
            disk.0.store.borrow_mut().cut(in_flight, &mut rng);
        }
    }

    /// The process is gone and the power is on: what was submitted is carried out.
    pub(crate) fn process_ended(&self) {
        for disk in self.0.list.borrow().iter() {
            let in_flight = disk.0.ops.borrow_mut().abandon();
            if disk.0.faults.borrow().health == Health::Well {
                let mut store = disk.0.store.borrow_mut();
                in_flight.into_iter().for_each(|write| store.put(write.at, write.content));
            }
        }
    }
}
