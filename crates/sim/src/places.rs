//! The disks of one group by position: which are lost, which are replaced and not rebuilt yet.

use raid::Level;
use world::{Drive, DriveSpec, Rng, World};
use world_model::{Disk, Model};

use crate::lives::disk_spec;

/// Opens a disk of the model.
pub(crate) fn open_drive(world: &World, name: &str) -> Drive {
    world.open_now(&DriveSpec::Modelled { name: name.to_owned() }).expect("the disk is there")
}

/// A position of a group.
#[derive(Clone)]
struct Place {
    /// Its disk; `None`: lost for good.
    disk: Option<String>,
    /// Whether the disk is in sync.
    whole: bool,
}

/// The disks of one group.
#[derive(Clone)]
pub(crate) struct Places {
    level: Level,
    places: Vec<Place>,
    disk_bytes: u64,
    /// Whether the mirrors are known to be equal. If not, losing one may reveal the other content of a
    /// sector.
    pub(crate) equal: bool,
    blanks: u32,
}

impl Places {
    /// The disks of these numbers.
    pub(crate) fn new(level: Level, disks: std::ops::Range<usize>, disk_bytes: u64) -> Places {
        let place = |i| Place { disk: Some(format!("d{i}")), whole: true };
        Places { level, places: disks.map(place).collect(), disk_bytes, equal: true, blanks: 0 }
    }

    pub(crate) fn open(&self, world: &World) -> Vec<Drive> {
        self.places.iter().filter_map(|p| p.disk.as_deref()).map(|name| open_drive(world, name)).collect()
    }

    /// Whether an available disk misses writes.
    pub(crate) fn some_are_behind(&self) -> bool {
        self.places.iter().any(|p| p.disk.is_some() && !p.whole)
    }

    /// The disks that are not lost.
    pub(crate) fn disks(&self, model: &Model) -> Vec<Disk> {
        self.places.iter().filter_map(|p| model.disks().get(p.disk.as_deref()?)).collect()
    }

    /// Whether all disks are available and in sync.
    pub(crate) fn is_whole(&self) -> bool {
        self.places.iter().all(|p| p.whole && p.disk.is_some())
    }

    /// How many more disks may be lost at once, after these.
    fn survives(&self, gone: &[usize]) -> bool {
        let sound = |i: usize| self.places[i].whole && self.places[i].disk.is_some() && !gone.contains(&i);
        let n = self.places.len();
        let left = (0..n).filter(|i| sound(*i)).count();
        match self.level {
            Level::Raid0 => left == n,
            Level::Raid1 => left > 0,
            // Pairs of mirrors follow each other.
            Level::Raid10 => (0..n).step_by(2).all(|i| sound(i) || sound(i + 1)),
            Level::Raid5 => left + 1 >= n,
            Level::Raid6 => left + 2 >= n,
        }
    }

    /// A random choice of positions that may be lost at once: as many as possible.
    fn bearable(&self, rng: &mut Rng) -> Vec<usize> {
        let mut gone = Vec::new();
        if !self.equal && matches!(self.level, Level::Raid1 | Level::Raid10) {
            return gone;
        }
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        rng.shuffle(&mut order);
        for i in order {
            gone.push(i);
            if self.places[i].disk.is_none() || !self.survives(&gone) {
                gone.pop();
            }
        }
        gone
    }

    /// Loses disks: as many as redundancy allows, or, `beyond`, one more. Returns whether any was lost.
    pub(crate) fn lose(&mut self, rng: &mut Rng, beyond: bool) -> bool {
        let mut gone = self.bearable(rng);
        if beyond {
            let further: Vec<usize> = (0..self.places.len()).filter(|i| !gone.contains(i)).collect();
            gone.extend(further.get(rng.usize(..further.len().max(1))));
        }
        for i in &gone {
            self.places[*i] = Place { disk: None, whole: false };
        }
        !gone.is_empty()
    }

    /// Assigns a blank disk to an empty position.
    pub(crate) fn put_blank(&mut self, position: u32, model: &Model, world: &World) -> Drive {
        self.blanks += 1;
        let name = format!("{}.{position}.{}", self.level, self.blanks);
        // Names are of the whole model: groups of one level share them.
        let name = if model.disks().get(&name).is_some() {
            format!("{name}.{}", model.disks().persistence_points())
        } else {
            name
        };
        model.disk(&name, disk_spec(self.disk_bytes));
        self.places[position as usize] = Place { disk: Some(name.clone()), whole: false };
        open_drive(world, &name)
    }

    /// Blank disks without a label after a power failure have no position.
    pub(crate) fn take_out(&mut self, disk: &str) {
        for place in self.places.iter_mut().filter(|p| p.disk.as_deref() == Some(disk)) {
            place.disk = None;
        }
    }

    /// A disk misses what is written from now on.
    pub(crate) fn falls_behind(&mut self, disk: &str) {
        for place in self.places.iter_mut().filter(|p| p.disk.as_deref() == Some(disk)) {
            place.whole = false;
        }
    }

    /// The disk in a place.
    pub(crate) fn drive_at(&self, position: u32, world: &World) -> Option<Drive> {
        Some(open_drive(world, self.places[position as usize].disk.as_deref()?))
    }

    /// All available disks are in sync.
    pub(crate) fn filled(&mut self) {
        self.places.iter_mut().filter(|p| p.disk.is_some()).for_each(|p| p.whole = true);
    }
}
