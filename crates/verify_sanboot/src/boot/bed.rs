//! The array of a boot storm: the drives, groups and pools of a layout, with a system disk for each of many
//! servers, either copies of their own or clones of a golden image.

use anyhow::{Context, Result};
use array::Config;
use array::config::{HostConfig, Provisioning, VolumeConfig};

use crate::bed::{Shape, array_of, group, initiator, volume};
use crate::results::{Form, Layout};
use crate::scenario::Sanboot;
use lab_tools::testbed::Testbed;

/// What every server of a pool boots, before it is cloned.
fn golden(number: u32) -> String {
    format!("golden{number}")
}

/// The array with system disks for so many servers, which go to the groups in turn: its cache is empty.
///
/// # Errors
///
/// The layout is none of an array, or the drives have no room for the disks.
pub(super) fn make(
    sanboot: &Sanboot,
    (layout, form): (Layout, Form),
    servers: u32,
    seed: u64,
) -> Result<Testbed> {
    let shape = Shape::of(layout).context("a disk in each server boots alone")?;
    let thick = |name: String, number: u32| VolumeConfig {
        provisioning: Provisioning::Thick,
        ..VolumeConfig::new(name, group(number), sanboot.boot.lu.0)
    };
    let in_use = servers.min(shape.groups);
    let volumes = match form {
        Form::Copies => (0..servers).map(|n| thick(volume(n), shape.group_of(n))).collect(),
        Form::Clones | Form::LargePageClones => (0..in_use).map(|g| thick(golden(g), g)).collect(),
    };
    let mut config = Config { volumes, ..array_of(sanboot, &shape) };
    if form != Form::LargePageClones {
        config.pools.iter_mut().for_each(|pool| pool.page_bytes = sanboot.boot.page.0);
    }
    let hosts: Vec<HostConfig> = (0..servers)
        .map(|n| HostConfig::new(format!("server{n}"), initiator(n), [(0, volume(n))].into()))
        .collect();
    let made = Testbed::alike(config, &sanboot.array.drive, seed, async |started| {
        if form != Form::Copies {
            for n in 0..servers {
                started.array.clone_volume(&golden(shape.group_of(n)), &volume(n)).await?;
            }
        }
        let config = Config { hosts, ..started.array.config().clone() };
        started.array.apply(config).await?;
        Ok(())
    });
    made.with_context(|| format!("{} of system disks on layout {}", form.words(), layout.name()))
}
