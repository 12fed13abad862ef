//! The disks of one group, place by place: which are lost, which were replaced and are not filled yet.

use raid::Level;
use world::{Drive, DriveSpec, Rng, World};
use world_model::{Disk, Model};

use super::lives::disk_spec;

/// Opens a disk of the model.
pub(crate) fn open_drive(world: &World, name: &str) -> Drive {
    world.open_drive(&DriveSpec::Modelled { name: name.to_owned() }).expect("the disk is there")
}

/// One place of a group.
#[derive(Clone)]
struct Place {
    /// The disk in it; `None`: it was lost for good.
    disk: Option<String>,
    /// Whether the disk holds all its data.
    whole: bool,
}

/// The disks of one group.
#[derive(Clone)]
pub(crate) struct Places {
    level: Level,
    places: Vec<Place>,
    disk_bytes: u64,
    /// Whether mirrors are known to be equal. While they are not, losing one may show the other content of a sector.
    pub(crate) equal: bool,
    blanks: u32,
}

impl Places {
    /// The disks of these numbers.
    pub(crate) fn new(level: Level, disks: std::ops::Range<usize>, disk_bytes: u64) -> Places {
        let place = |i| Place { disk: Some(format!("d{i}")), whole: true };
        Places { level, places: disks.map(place).collect(), disk_bytes, equal: true, blanks: 0 }
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn open(&self, world: &World) -> Vec<Drive> {
        self.places.iter().filter_map(|p| p.disk.as_deref()).map(|name| open_drive(world, name)).collect()
    }

    /// The disks that are not lost.
    pub(crate) fn disks(&self, model: &Model) -> Vec<Disk> {
        self.places.iter().filter_map(|p| model.disks().get(p.disk.as_deref()?)).collect()
    }

    /// Whether a place has no disk.
    pub(crate) fn lacks_disks(&self) -> bool {
        self.places.iter().any(|p| p.disk.is_none())
    }

    /// Whether all disks are there and hold all their data.
    pub(crate) fn is_whole(&self) -> bool {
        self.places.iter().all(|p| p.whole && p.disk.is_some())
    }

    /// The places whose loss at one moment can be borne: a random choice of as many as possible.
    fn bearable(&self, rng: &mut Rng) -> Vec<usize> {
        let n = self.places.len();
        let sound = |i: &usize| self.places[*i].whole && self.places[*i].disk.is_some();
        let mut order: Vec<usize> = (0..n).collect();
        rng.shuffle(&mut order);
        let missing = n - (0..n).filter(sound).count();
        match self.level {
            Level::Raid0 => Vec::new(),
            Level::Raid1 if self.equal => order.into_iter().filter(sound).take(n - 1 - missing).collect(),
            Level::Raid1 => Vec::new(),
            Level::Raid5 => order.into_iter().filter(sound).take(1_usize.saturating_sub(missing)).collect(),
            Level::Raid6 => order.into_iter().filter(sound).take(2_usize.saturating_sub(missing)).collect(),
            Level::Raid10 if missing > 0 || !self.equal => Vec::new(),
            Level::Raid10 => order.into_iter().take(1).collect(),
        }
    }

    /// Loses disks: as many as can be borne, or, `beyond`, one more than that. Returns whether any was.
    pub(crate) fn lose(&mut self, rng: &mut Rng, beyond: bool) -> bool {
        let mut gone = self.bearable(rng);
        if beyond {
            let further: Vec<usize> = (0..self.places.len()).filter(|i| !gone.contains(i)).collect();
            gone.push(further[rng.usize(..further.len())]);
        }
        for i in &gone {
            self.places[*i] = Place { disk: None, whole: false };
        }
        !gone.is_empty()
    }

    /// Puts a blank disk into the first place that has none: its position and the drive.
    pub(crate) fn put_blank(&mut self, model: &Model, world: &World) -> Option<(u32, Drive)> {
        let position = self.places.iter().position(|p| p.disk.is_none())?;
        self.blanks += 1;
        let name = format!("{}.{position}.{}", self.level, self.blanks);
        // Names are of the whole model: groups of one level share them.
        let name = if model.disks().get(&name).is_some() {
            format!("{name}.{}", model.disks().persistence_points())
        } else {
            name
        };
        model.disk(&name, disk_spec(self.disk_bytes));
        self.places[position] = Place { disk: Some(name.clone()), whole: false };
        Some((position as u32, open_drive(world, &name)))
    }

    /// All disks that are there hold all data.
    pub(crate) fn filled(&mut self) {
        self.places.iter_mut().filter(|p| p.disk.is_some()).for_each(|p| p.whole = true);
    }
}
