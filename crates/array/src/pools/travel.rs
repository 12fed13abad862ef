//! Export and import of pools.

use std::rc::Rc;

use block::Device;
use pool::Pool;
use raid::{ArrayId, Found, Group, GroupSpec, Label, identify};
use world::{Drive, DriveSpec};

use super::open::drop_pool;
use super::volumes::load_shape;
use super::work::stop_jobs;
use crate::cached::journal_of;
use crate::config::{Config, DriveConfig, GroupConfig, PoolConfig, VolumeConfig};
use crate::control::{ControlError, Imported};
use crate::controller::Controller;
use crate::groups::{close_drives, end_upkeep, existing, forget, refuse_busy};
use crate::terms;

/// Closes a pool and labels its drives as owned by no array.
pub(crate) async fn export(controller: &Rc<Controller>, name: &str) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("pool {name:?}"));
    if controller.config().pool(name).is_some() {
        return Err(place()(&"still declared"));
    }
    let pool = controller.state().pools.get(name).cloned();
    let pool = pool.ok_or_else(|| place()(&"not open"))?;
    let groups = pool.groups();
    groups.iter().try_for_each(refuse_busy)?;
    if !stop_jobs(controller, &pool).await {
        return Err(place()(&"a job of the pool does not end"));
    }
    end_upkeep(controller, &groups).await?;
    drop_pool(controller, name).await;
    forget(controller, &groups);
    pool.close().await.map_err(|e| place()(&e))?;
    for group in groups {
        group.adopt(ArrayId::default(), None).await.map_err(|e| place()(&e))?;
    }
    Ok(vec![format!("pool {name}: exported")])
}

/// Completes an export during which the process ended: labels that name no array show that the pool was
/// closed. Groups of its that still name this array are released like them.
pub(crate) async fn finish_export(
    controller: &Rc<Controller>,
    name: &str,
    declared: &[DriveConfig],
) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("pool {name:?}"));
    let mut drives: Vec<Drive> = Vec::new();
    for drive in declared {
        let known = controller.state().drives.get(&drive.name).cloned();
        let opened = match known {
            Some(known) => Ok(known),
            None => controller.world.open_drive(&existing(&drive.spec)).await,
        };
        drives.push(opened.map_err(|e| place()(&e))?);
    }
    let found = identify(&drives).await.map_err(|e| place()(&e))?;
    let is_released = |f: &Found| f.drives.iter().any(|(_, label)| label.array_id == ArrayId::default());
    if !found.iter().any(is_released) {
        return Err(place()(&"not open, and none of its drives was released yet"));
    }
    let own = terms::array_id(&controller.config());
    // What is in another array by now is left alone.
    let is_own = |f: &&Found| {
        let mut owners = f.drives.iter().map(|(_, label)| label.array_id);
        owners.all(|owner| [own, ArrayId::default()].contains(&owner))
    };
    for f in found.iter().filter(is_own) {
        let open = controller.state().groups.get(&f.label.group_name).cloned();
        let group = match open.filter(|open| open.id() == f.label.group_id) {
            Some(group) => {
                refuse_busy(&group)?;
                end_upkeep(controller, std::slice::from_ref(&group)).await?;
                forget(controller, std::slice::from_ref(&group));
                group
            }
            None => {
                refuse_partial(f).map_err(|cause| place()(&cause))?;
                open_found(controller, f, &drives).await?
            }
        };
        group.adopt(ArrayId::default(), None).await.map_err(|e| place()(&e))?;
    }
    controller.state.borrow_mut().drives.retain(|name, _| declared.iter().all(|d| d.name != *name));
    Ok(vec![format!("pool {name}: exported")])
}

impl Imported {
    /// The declaration with the imported objects.
    pub(crate) fn joined_to(&self, config: &Config) -> Config {
        let mut config = config.clone();
        config.drives.extend_from_slice(&self.drives);
        config.groups.extend_from_slice(&self.groups);
        config.pools.push(self.pool.clone());
        config.volumes.extend_from_slice(&self.volumes);
        config
    }
}

/// Opens the pool on these drives and makes this array the owner.
pub(crate) async fn import(
    controller: &Rc<Controller>,
    specs: &[DriveSpec],
    force: bool,
) -> Result<Imported, ControlError> {
    let place = || ControlError::at("import");
    let mut drives: Vec<Drive> = Vec::new();
    for spec in specs {
        drives.push(controller.world.open_drive(spec).await.map_err(|e| place()(&e))?);
    }
    let found = identify(&drives).await.map_err(|e| place()(&e))?;
    if found.is_empty() {
        return Err(place()(&"none of these drives carries a label"));
    }
    let own = terms::array_id(&controller.config());
    let mut groups = Vec::new();
    for f in &found {
        let is_foreign = |label: &&Label| ![own, ArrayId::default()].contains(&label.array_id);
        let mut labels = std::iter::once(&f.label).chain(f.drives.iter().map(|(_, label)| label));
        if let Some(label) = labels.find(is_foreign).filter(|_| !force) {
            let cause =
                format!("{label} belongs to another array that did not export it; use force to take it over");
            return Err(place()(&cause));
        }
        if controller.state().groups.contains_key(&f.label.group_name) {
            return Err(place()(&format!("a group {:?} is already open on this array", f.label.group_name)));
        }
        if !force {
            refuse_partial(f).map_err(|cause| place()(&cause))?;
        }
    }
    let config = controller.config();
    let (named, parts) = describe_groups(&config, &found, specs);
    // Check this before anything is opened: without a drive, opening drops that drive.
    let mut with_groups = Config::clone(&config);
    with_groups.drives.extend_from_slice(&named);
    with_groups.groups.extend_from_slice(&parts);
    with_groups.check()?;
    for f in &found {
        groups.push(open_found(controller, f, &drives).await?);
    }
    let pool = Pool::open(controller.world.clone(), groups.clone()).await.map_err(|e| place()(&e))?;
    if controller.state().pools.contains_key(pool.name()) {
        return Err(place()(&format!("a pool {:?} is already open on this array", pool.name())));
    }
    if pool.volumes().iter().any(|volume| journal_of(volume).is_some()) {
        return Err(place()(&format!(
            "pool {:?} was not closed, and its acknowledged writes are in a journal: start its array once more, \
             and export the pool there",
            pool.name()
        )));
    }
    let owners = found.iter().map(|f| (f.label.group_name.clone(), f.label.array_id)).collect();
    let imported = describe(controller.index, &pool, (named, parts), owners);
    // Check this before anything changes.
    imported.joined_to(&controller.config()).check()?;
    // The declaration opens it again.
    pool.close().await.map_err(|e| place()(&e))?;
    for group in &groups {
        group.adopt(own, None).await.map_err(|e| place()(&e))?;
    }
    keep(controller, &imported, specs.iter().zip(&drives));
    Ok(imported)
}

/// Keeps drives open until they are declared: another process that looks at them meanwhile would take one,
/// and the group be degraded.
fn keep<'a>(
    controller: &Controller,
    imported: &Imported,
    drives: impl Iterator<Item = (&'a DriveSpec, &'a Drive)> + Clone,
) {
    let mut state = controller.state.borrow_mut();
    for declared in &imported.drives {
        let own = drives.clone().find(|(spec, _)| **spec == declared.spec);
        state.drives.extend(own.map(|(_, drive)| (declared.name.clone(), drive.clone())));
    }
}

/// Gives back what was imported and cannot be declared: the labels name the arrays as before.
pub(crate) async fn give_back(
    controller: &Rc<Controller>,
    (specs, owners): (&[DriveSpec], &[(String, ArrayId)]),
) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at("import");
    let mut drives: Vec<Drive> = Vec::new();
    for spec in specs {
        let kept = controller.state().drives.values().find(|drive| drive.info().name == spec.name()).cloned();
        drives.push(match kept {
            Some(drive) => drive,
            None => controller.world.open_drive(spec).await.map_err(|e| place()(&e))?,
        });
    }
    // Whatever becomes of them, they are nobody's here.
    close_drives(controller, &controller.config());
    for found in identify(&drives).await.map_err(|e| place()(&e))? {
        let owner = owners.iter().find(|(group, _)| *group == found.label.group_name);
        if let Some((_, owner)) = owner {
            let group = open_found(controller, &found, &drives).await?;
            group.adopt(*owner, None).await.map_err(|e| place()(&e))?;
        }
    }
    Ok(vec![])
}

async fn open_found(controller: &Controller, found: &Found, drives: &[Drive]) -> Result<Group, ControlError> {
    let label = &found.label;
    let spec = GroupSpec {
        name: label.group_name.clone(),
        level: label.level,
        stripe_unit_bytes: label.stripe_unit_bytes,
        array_id: label.array_id,
        id: Some(label.group_id),
        ownership: None,
    };
    let own = found.drives.iter().map(|(i, _)| drives[*i].clone()).collect();
    let place = ControlError::at(format!("group {:?}", label.group_name));
    // Who may take them was decided before: an export or an import may have ended between two labels.
    let owners: Vec<ArrayId> = found.drives.iter().map(|(_, label)| label.array_id).collect();
    let opened = Group::open_between_owners(controller.world.clone(), spec, own, &owners).await;
    opened.map_err(|e| place(&e))
}

/// Refuses a group of which a drive is not named that its labels count as in sync.
fn refuse_partial(found: &Found) -> Result<(), String> {
    let label = &found.label;
    let is_named = |position: &u32| found.drives.iter().any(|(_, own)| own.position == *position);
    let missing = (0..label.width).find(|position| label.is_in_sync(*position) && !is_named(position));
    let Some(missing) = missing else { return Ok(()) };
    Err(format!(
        "group {:?}: {} of its {} drives are named, and that of position {missing} is not among them; name all of them, or use \
         force if it is lost: the group is then degraded",
        label.group_name,
        found.drives.len(),
        label.width
    ))
}

/// The declarations of the drives and groups of an imported pool. Drives are named after their group and
/// position.
fn describe_groups(
    config: &Config,
    found: &[Found],
    specs: &[DriveSpec],
) -> (Vec<DriveConfig>, Vec<GroupConfig>) {
    let name_of = |f: &Found, position: u32| {
        let name = format!("{}-{position}", f.label.group_name);
        let taken = |name: &String| config.drives.iter().any(|d| d.name == *name);
        let others = (2..).map(|n| format!("{name}-{n}"));
        std::iter::once(name.clone()).chain(others).find(|n| !taken(n)).expect("names do not end")
    };
    let drives = found.iter().flat_map(|f| {
        f.drives
            .iter()
            .map(move |(i, label)| DriveConfig { name: name_of(f, label.position), spec: specs[*i].clone() })
    });
    let groups = found.iter().map(|f| {
        let mut positions: Vec<u32> = f.drives.iter().map(|(_, l)| l.position).collect();
        positions.sort_unstable();
        GroupConfig {
            stripe_unit_bytes: f.label.stripe_unit_bytes,
            ..GroupConfig::new(
                f.label.group_name.clone(),
                terms::declared_level(f.label.level),
                positions.into_iter().map(|p| name_of(f, p)).collect(),
            )
        }
    });
    (drives.collect(), groups.collect())
}

/// The declaration of the imported pool.
fn describe(
    controller: usize,
    pool: &Pool,
    (drives, groups): (Vec<DriveConfig>, Vec<GroupConfig>),
    owners: Vec<(String, ArrayId)>,
) -> Imported {
    let space = pool.space();
    let volumes = pool.volumes().into_iter().map(|v| {
        let shape = load_shape(&v);
        VolumeConfig {
            provisioning: terms::declared_provisioning(v.provisioning()),
            block_bytes: shape.block_bytes,
            physical_block_bytes: shape.physical_block_bytes,
            read_only: shape.read_only,
            ..VolumeConfig::new(v.name().to_owned(), pool.name().to_owned(), v.geometry().len_bytes)
        }
    });
    Imported {
        owners,
        drives,
        groups,
        pool: PoolConfig {
            page_bytes: space.page_bytes,
            soft_threshold_percent: space.soft_threshold_percent.clamp(1, 100),
            critical_threshold_percent: space.critical_threshold_percent.clamp(1, 100),
            controller,
            ..PoolConfig::new(
                pool.name().to_owned(),
                pool.groups().iter().map(|g| g.name().to_owned()).collect(),
            )
        },
        volumes: volumes.collect(),
    }
}
