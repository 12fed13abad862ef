//! The array of a layout in the model world: drives, groups, pools, LUs, hosts.
//!
//! It is made once for each layout: all points begin with the same array, its LUs allocated as when it was
//! installed and its cache empty.

use anyhow::{Context, Result, ensure};
use array::Config;
use array::config::{
    ArrayId, CacheSettings, GroupConfig, HostConfig, Level, PoolConfig, Provisioning, VolumeConfig,
};
use world::World;
use world_model::drives::{DriveParameters, Prepared};
use world_model::{DiskSpec, Model};

use super::results::Layout;
use super::scenario::{SERVERS_MAX, Sanboot};
use lab_tools::drives;
use lab_tools::testbed::{Started, Testbed, modelled_drive};

pub(super) const TARGET: &str = "iqn.2026-11.model:array";

/// The groups of a layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) groups: u32,
    pub(super) drives_per_group: u32,
    level: Level,
}

impl Shape {
    /// `None`: no array.
    pub(super) fn of(layout: Layout) -> Option<Shape> {
        match layout {
            Layout::Raid5x4 => Some(Shape { groups: 4, drives_per_group: 3, level: Level::Raid5 }),
            Layout::Raid1x8 => Some(Shape { groups: 8, drives_per_group: 2, level: Level::Raid1 }),
            Layout::Internal | Layout::Given => None,
        }
    }

    /// The group that a LU is on.
    pub(super) fn group_of(&self, lu: u32) -> u32 {
        lu % self.groups
    }

    /// The LU of a server, with so many servers on each group; none said: the groups in turn.
    pub(super) fn lu_of(&self, server: u32, packed: &[u32]) -> u32 {
        let mut first = 0;
        for (group, servers) in (0..).zip(packed) {
            if server < first + servers {
                return group + self.groups * (server - first);
            }
            first += servers;
        }
        server
    }

    /// How few servers are put on groups to learn what as many on a group as there ever will be do there: as
    /// many on some groups and nobody on the others, and one less on the others.
    pub(super) fn packings(&self, servers_max: u32) -> Vec<Vec<u32>> {
        let mut all = Vec::new();
        for each in 2..=SERVERS_MAX / self.groups {
            for full in 1..=(servers_max / each).min(self.groups) {
                all.push(vec![each; full as usize]);
            }
            for full in 1..=2 {
                let Some(left) = servers_max.checked_sub(full * each) else { continue };
                let others = (left / (each - 1)).min(self.groups - full);
                let packing = [vec![each; full as usize], vec![each - 1; others as usize]].concat();
                let in_turn = each == 2 && full + others == self.groups;
                if others > 0 && !in_turn {
                    all.push(packing);
                }
            }
        }
        all
    }

    pub(super) fn drive(&self, group: u32, position: u32) -> String {
        format!("g{group}d{position}")
    }

    pub(super) fn drives(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.groups).flat_map(move |g| (0..self.drives_per_group).map(move |d| self.drive(g, d)))
    }

    /// The servers in the order in which their LUs are made: from the outermost cylinders of a group inwards;
    /// apart, the first two of a group are half a drive from each other, as when they alone shared it.
    fn order(&self, apart: bool) -> Vec<u32> {
        if !apart {
            return (0..SERVERS_MAX).collect();
        }
        let rows: Vec<u32> = (0..SERVERS_MAX / self.groups).collect();
        let (even, odd): (Vec<u32>, Vec<u32>) = rows.iter().partition(|row| **row % 2 == 0);
        even.into_iter()
            .chain(odd)
            .flat_map(|row| (0..self.groups).map(move |g| row * self.groups + g))
            .collect()
    }
}

/// What the points of a layout begin with.
#[derive(Clone)]
pub(super) struct Bed {
    pub(super) layout: Layout,
    place: Place,
}

#[derive(Clone)]
enum Place {
    Array(Box<Testbed>),
    /// A disk in each server, and no array.
    Disk(Box<DiskSpec>),
}

/// The disk of a server, if its file ends on it.
pub(super) fn internal(sanboot: &Sanboot) -> Result<DriveParameters> {
    let (name, from, file) = (&sanboot.internal.drive, sanboot.internal.from, sanboot.published.file);
    let drive = drives::load(name)?;
    let len_bytes = Prepared::new(&drive)?.len_bytes();
    ensure!(
        from.0 + file.0 <= len_bytes,
        "internal.drive: {name:?} has {} MiB, and no room for {file} (published.file) from {from} (internal.from) on: make one of \
         these less, or name a larger drive",
        len_bytes >> 20
    );
    Ok(drive)
}

impl Bed {
    pub(super) fn make(sanboot: &Sanboot, layout: Layout, seed: u64) -> Result<Bed> {
        let place = match Shape::of(layout) {
            Some(shape) => {
                let config = declaration(sanboot, &shape);
                let made = Testbed::alike(config, &sanboot.array.drive, seed, async |_| Ok(()));
                Place::Array(Box::new(
                    made.with_context(|| format!("the array of layout {}", layout.name()))?,
                ))
            }
            None => Place::Disk(Box::new(DiskSpec::drive(&internal(sanboot)?)?)),
        };
        Ok(Bed { layout, place })
    }

    /// A model with this bed's drives, as they were when it was made.
    pub(super) fn model(&self, seed: u64) -> Model {
        match &self.place {
            Place::Array(made) => made.model(seed),
            Place::Disk(spec) => {
                let model = Model::new(seed);
                model.disk(INTERNAL, (**spec).clone());
                model
            }
        }
    }

    /// Starts the array with so much of a cache, if the layout has one.
    pub(super) async fn start(&self, world: &World, cache_bytes: u64) -> Result<Option<Started>> {
        match &self.place {
            Place::Array(made) => {
                let cache = Some(CacheSettings::new(cache_bytes));
                let config = Config { cache, ..made.config.clone() };
                Ok(Some(made.start_as(world, &config).await?))
            }
            Place::Disk(_) => Ok(None),
        }
    }
}

/// The disk in a server.
pub(super) const INTERNAL: &str = "internal";

pub(super) fn volume(server: u32) -> String {
    format!("s{server}")
}

pub(super) fn initiator(server: u32) -> String {
    format!("iqn.2026-11.model:server{server}")
}

pub(super) fn group(number: u32) -> String {
    format!("g{number}")
}

/// The controller that owns the system disks.
const OWNER: usize = 0;

pub(super) fn declaration(sanboot: &Sanboot, shape: &Shape) -> Config {
    let volumes = shape.order(sanboot.array.lus_apart).into_iter().map(|server| VolumeConfig {
        provisioning: Provisioning::Thick,
        ..VolumeConfig::new(volume(server), group(shape.group_of(server)), sanboot.array.lu.0)
    });
    let hosts = (0..SERVERS_MAX).map(|server| {
        HostConfig::new(format!("server{server}"), initiator(server), [(0, volume(server))].into())
    });
    Config { volumes: volumes.collect(), hosts: hosts.collect(), ..array_of(sanboot, shape) }
}

/// The array without volumes and hosts.
pub(super) fn array_of(sanboot: &Sanboot, shape: &Shape) -> Config {
    let groups = (0..shape.groups).map(|g| GroupConfig {
        stripe_unit_bytes: sanboot.array.stripe_unit.0 as u32,
        ..GroupConfig::new(
            group(g),
            shape.level,
            (0..shape.drives_per_group).map(|d| shape.drive(g, d)).collect(),
        )
    });
    let pools = (0..shape.groups).map(|g| PoolConfig {
        page_bytes: sanboot.array.page.0,
        soft_threshold_percent: 100,
        critical_threshold_percent: 100,
        controller: OWNER,
        placement: false,
        ..PoolConfig::new(group(g), vec![group(g)])
    });
    Config {
        id: ArrayId([7; 16]),
        controllers: sanboot.array.controllers,
        drives: shape.drives().map(modelled_drive).collect(),
        cache: Some(CacheSettings::new(sanboot.array.cache.0)),
        groups: groups.collect(),
        pools: pools.collect(),
        ..Config::empty(TARGET)
    }
}

#[cfg(test)]
mod tests {
    use lab_core::scenario::ScenarioFile;

    use super::*;

    #[test]
    fn the_first_two_servers_of_a_group_lie_half_a_drive_apart() {
        let shape = Shape::of(Layout::Raid5x4).expect("an array");
        let of_group_0: Vec<u32> =
            shape.order(true).into_iter().filter(|s| shape.group_of(*s) == 0).collect();
        assert_eq!(of_group_0, [0, 8, 4, 12]);
        // The same LUs, whether the groups are filled in turn or one after the other.
        let packed: Vec<u32> = (0..5).map(|server| shape.lu_of(server, &[3, 2])).collect();
        assert_eq!(packed, [0, 4, 8, 1, 5]);
        let mirrors = Shape::of(Layout::Raid1x8).expect("an array");
        assert_eq!(mirrors.order(true), (0..16).collect::<Vec<_>>());
    }

    /// The first I/O behind its end was a panic.
    #[test]
    fn a_file_that_does_not_end_on_the_internal_disk_is_refused_before_the_run() {
        let (built_in, _) = Sanboot::load(None).expect("built in");
        let refused = |change: fn(&mut Sanboot)| {
            let mut sanboot = built_in.clone();
            change(&mut sanboot);
            Bed::make(&sanboot, Layout::Internal, 1).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(refused(|_| {}), Ok(()));
        let beyond =
            refused(|sanboot| sanboot.internal.from.0 = 66 << 30).expect_err("70109 MiB, less 3 GiB");
        assert!(
            beyond.contains("\"savvio-10k1\" has 70109 MiB") && beyond.contains("internal.from"),
            "{beyond}"
        );
        let small = refused(|sanboot| {
            (sanboot.internal.drive, sanboot.published.file.0) = ("cheetah-9lp".into(), 12 << 30);
        });
        assert!(small.is_err(), "9.1 GB");
    }

    #[test]
    fn six_servers_are_packed_as_sixteen_share() {
        let packings = |layout| Shape::of(layout).expect("an array").packings(6);
        let mirrors: [&[u32]; 5] = [&[2], &[2, 2], &[2, 2, 2], &[2, 1, 1, 1, 1], &[2, 2, 1, 1]];
        assert_eq!(packings(Layout::Raid1x8), mirrors);
        let parity: [&[u32]; 7] = [&[2], &[2, 2], &[2, 2, 2], &[3], &[3, 3], &[3, 2], &[4]];
        assert_eq!(packings(Layout::Raid5x4), parity);
    }
}
