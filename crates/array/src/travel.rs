//! Pools that go to another array, and pools that come from one.

use std::rc::Rc;

use block::Device;
use pool::Pool;
use raid::{ArrayId, Found, Group, GroupSpec, identify};
use world::{Drive, DriveSpec};

use crate::config::{DriveConfig, FOREGROUND_SHARE_PERCENT_DEFAULT, GroupConfig, PoolConfig, VolumeConfig};
use crate::control::{ControlError, Imported};
use crate::controller::Controller;

/// Closes a pool and puts on its labels that no array owns the drives.
pub(crate) async fn export(
    controller: &Rc<Controller>,
    name: &str,
    group_names: &[String],
) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("pool {name:?}"));
    if controller.config().pool(name).is_some() {
        return Err(place()(&"it is declared"));
    }
    let pool = controller.state.borrow_mut().pools.remove(name);
    let pool = pool.ok_or_else(|| place()(&"there is no such pool here"))?;
    pool.close().await.map_err(|e| place()(&e))?;
    let mut groups = pool.groups();
    groups.retain(|g| group_names.iter().any(|n| n == g.name()));
    for group in groups {
        let held: Vec<String> = {
            let mut state = controller.state.borrow_mut();
            state.groups.remove(group.name());
            let media: Vec<String> = group.status().members.iter().filter_map(|m| m.drive.clone()).collect();
            let of = |d: &Drive| media.contains(&d.info().name);
            state.drives.iter().filter(|(_, d)| of(d)).map(|(n, _)| n.clone()).collect()
        };
        group.adopt(ArrayId::default(), None).await.map_err(|e| place()(&e))?;
        let mut state = controller.state.borrow_mut();
        held.iter().for_each(|d| {
            state.drives.remove(d);
        });
    }
    Ok(vec![format!("pool {name}: exported")])
}

/// Opens the pool on these drives and makes it this array's.
pub(crate) async fn import(
    controller: &Rc<Controller>,
    specs: &[DriveSpec],
    force: bool,
) -> Result<Imported, ControlError> {
    let place = || ControlError::at("import");
    let mut drives: Vec<Drive> = Vec::new();
    for spec in specs {
        drives.push(controller.world.open_drive(spec).map_err(|e| place()(&e))?);
    }
    let found = identify(&drives).await.map_err(|e| place()(&e))?;
    if found.is_empty() {
        return Err(place()(&"none of these drives carries a label"));
    }
    let own = controller.config().id;
    let mut groups = Vec::new();
    for f in &found {
        let owner = f.label.array_id;
        if owner != ArrayId::default() && owner != own && !force {
            let cause =
                format!("{} belongs to another array, which did not export it (force takes it)", f.label);
            return Err(place()(&cause));
        }
        if controller.state().groups.contains_key(&f.label.group_name) {
            return Err(place()(&format!("a group {:?} is open here already", f.label.group_name)));
        }
        groups.push(open_found(controller, f, &drives).await?);
    }
    let pool = Pool::open(controller.world.clone(), groups.clone()).await.map_err(|e| place()(&e))?;
    if controller.state().pools.contains_key(pool.name()) {
        return Err(place()(&format!("a pool {:?} is open here already", pool.name())));
    }
    let imported = describe(controller, &pool, &found, specs);
    // It is opened anew when it is declared.
    pool.close().await.map_err(|e| place()(&e))?;
    for group in &groups {
        group.adopt(own, None).await.map_err(|e| place()(&e))?;
    }
    Ok(imported)
}

async fn open_found(controller: &Controller, found: &Found, drives: &[Drive]) -> Result<Group, ControlError> {
    let label = &found.label;
    let spec = GroupSpec {
        name: label.group_name.clone(),
        level: label.level,
        stripe_unit_bytes: label.stripe_unit_bytes,
        array_id: label.array_id,
    };
    let own = found.drives.iter().map(|(i, _)| drives[*i].clone()).collect();
    let place = ControlError::at(format!("group {:?}", label.group_name));
    Group::open(controller.world.clone(), spec, own).await.map_err(|e| place(&e))
}

/// How what was opened is to be declared. Drives are named after their group and place.
fn describe(controller: &Controller, pool: &Pool, found: &[Found], specs: &[DriveSpec]) -> Imported {
    let name_of = |f: &Found, position: u32| format!("{}-{position}", f.label.group_name);
    let drives = found.iter().flat_map(|f| {
        f.drives
            .iter()
            .map(move |(i, label)| DriveConfig { name: name_of(f, label.position), spec: specs[*i].clone() })
    });
    let groups = found.iter().map(|f| {
        let mut positions: Vec<u32> = f.drives.iter().map(|(_, l)| l.position).collect();
        positions.sort_unstable();
        GroupConfig {
            name: f.label.group_name.clone(),
            level: f.label.level,
            drives: positions.into_iter().map(|p| name_of(f, p)).collect(),
            stripe_unit_bytes: f.label.stripe_unit_bytes,
            foreground_share_percent: FOREGROUND_SHARE_PERCENT_DEFAULT,
            start_degraded: false,
        }
    });
    let space = pool.space();
    let volumes = pool.volumes().into_iter().map(|v| VolumeConfig {
        name: v.name().to_owned(),
        pool: pool.name().to_owned(),
        len_bytes: v.geometry().len_bytes,
        provisioning: v.provisioning(),
        block_bytes: 512,
        physical_block_bytes: 4096,
        read_only: false,
    });
    Imported {
        drives: drives.collect(),
        groups: groups.collect(),
        pool: PoolConfig {
            name: pool.name().to_owned(),
            groups: pool.groups().iter().map(|g| g.name().to_owned()).collect(),
            page_bytes: space.page_bytes,
            leaving: Vec::new(),
            soft_threshold_percent: space.soft_threshold_percent.clamp(1, 100),
            critical_threshold_percent: space.critical_threshold_percent.clamp(1, 100),
            controller: controller.index,
        },
        volumes: volumes.collect(),
    }
}
