//! Drives and groups, as they are declared and as their labels say.
//!
//! The labels decide which drive has which place: a spare that took a place has it after a restart, too, and the drive whose
//! place it took is left aside.

use std::rc::Rc;

use pool::Pool;
use raid::{Group, GroupError, GroupSpec, GroupState, Label, MemberState, inspect};
use world::Drive;

use crate::config::{Config, GroupConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::drives::{leave_to_others, members_of, open_drive, position_of, probe};
use crate::upkeep::begin_upkeep;

/// The controller of the pool that a group is in or leaves; controller 0 keeps those that are in none.
pub(crate) fn owner_of_group(config: &Config, group: &str) -> usize {
    let of = |p: &&crate::config::PoolConfig| {
        p.groups.iter().chain(&p.leaving).chain(&p.journal).any(|g| g == group)
    };
    config.pools.iter().find(of).map_or(0, |p| p.controller)
}

/// A group that is in no pool here may now belong to another controller: it is closed here first.
pub(crate) async fn release(
    controller: &Rc<Controller>,
    config: &Config,
) -> Result<Vec<String>, ControlError> {
    let gone: Vec<Group> = {
        let state = controller.state();
        let in_pools: Vec<_> = state.pools.values().flat_map(Pool::group_spaces).map(|g| g.id).collect();
        let declared = |name: &str| config.groups.iter().any(|g| g.name == name);
        let elsewhere = |name: &str| declared(name) && owner_of_group(config, name) != controller.index;
        let moves = |(name, group): &(&String, &Group)| elsewhere(name) && !in_pools.contains(&group.id());
        state.groups.iter().filter(moves).map(|(_, group)| group.clone()).collect()
    };
    gone.iter().try_for_each(refuse_busy)?;
    end_upkeep(controller, &gone).await?;
    forget(controller, &gone);
    for group in gone {
        group.close().await.map_err(|e| ControlError::at(format!("group {:?}", group.name()))(&e))?;
    }
    Ok(vec![])
}

/// Work on a group that cannot be stopped half way, but by the end of the process.
pub(crate) fn refuse_busy(group: &Group) -> Result<(), ControlError> {
    let status = group.status();
    let what = match (status.rebuild, status.scrub) {
        (Some(_), _) => "rebuilt",
        (None, Some(_)) => "scrubbed",
        (None, None) if status.reads_pinned => "compared after an unclean stop",
        (None, None) => return Ok(()),
    };
    Err(ControlError::at(format!("group {:?}", group.name()))(&format!("is being {what}: wait for its end")))
}

/// Nobody looks after these groups any more; or everybody as before, when one of them cannot be let go.
pub(crate) async fn end_upkeep(controller: &Rc<Controller>, groups: &[Group]) -> Result<(), ControlError> {
    for (i, group) in groups.iter().enumerate() {
        let watch = controller.state.borrow_mut().group_watches.remove(group.name());
        if let Some(watch) = watch
            && !watch.let_go(&controller.world).await
        {
            groups[..=i].iter().for_each(|g| begin_upkeep(controller, g.name(), g.clone()));
            let place = ControlError::at(format!("group {:?}", group.name()));
            return Err(place(&"one of its drives does not answer"));
        }
    }
    Ok(())
}

/// The controller has these groups no more: their drives are held by nothing but the groups.
pub(crate) fn forget(controller: &Controller, groups: &[Group]) {
    let mut state = controller.state.borrow_mut();
    for group in groups {
        state.groups.remove(group.name());
        let media: Vec<String> = group.status().members.into_iter().filter_map(|m| m.drive).collect();
        state.drives.retain(|_, drive| !media.contains(&drive.info().name));
    }
}

pub(crate) fn spec_of(config: &Config, group: &GroupConfig) -> GroupSpec {
    GroupSpec {
        name: group.name.clone(),
        level: group.level,
        stripe_unit_bytes: group.stripe_unit_bytes,
        array_id: config.id,
        id: None,
    }
}

pub(crate) async fn open_group(
    controller: &Rc<Controller>,
    config: &Config,
    group: &GroupConfig,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    if controller.state().groups.contains_key(&group.name) {
        return Ok(());
    }
    let place = || ControlError::at(format!("group {:?}", group.name));
    let (world, spec) = (controller.world.clone(), spec_of(config, group));
    let found = find_drives(controller, config, group).await?;
    let labelled = |f: &&FoundDrive| f.label.as_ref().is_some_and(|l| l.epoch > 0);
    let (opened, how) = match found.drives.iter().any(|f| labelled(&f)) {
        // Creation refuses drives with a label, unless it is that of a creation which a power cut interrupted.
        false if found.complaints.is_empty() => {
            let drives = found.drives.into_iter().map(|f| f.drive).collect();
            (Group::create(world, spec, drives).await, "created")
        }
        false => return Err(place()(&found.complaints.join("; "))),
        true => {
            found.complaints.iter().for_each(|c| controller.note(format!("group {}: {c}", group.name)));
            let drives = members(controller, config, group, found.drives);
            let opened = match group.start_degraded {
                true => Group::open_degraded(world, spec, drives).await,
                false => Group::open(world, spec, drives).await,
            };
            (opened, "opened")
        }
    };
    let opened = opened.map_err(|e| place()(&explain(e)))?;
    let state = opened.status().state;
    done.push(format!("group {}: {how}, {state:?}", group.name));
    if state != GroupState::Optimal {
        let state = format!("{state:?}").to_lowercase();
        controller.note(format!("group {}: it starts {state}", group.name));
    }
    controller.state.borrow_mut().groups.insert(group.name.clone(), opened.clone());
    begin_upkeep(controller, &group.name, opened);
    Ok(())
}

fn explain(error: GroupError) -> String {
    match &error {
        GroupError::Missing { cause, .. } if cause.contains("start degraded") => {
            format!("{error} (start_degraded = true in its declaration)")
        }
        _ => error.to_string(),
    }
}

struct FoundDrive {
    name: String,
    drive: Drive,
    label: Option<Label>,
}

struct FoundDrives {
    drives: Vec<FoundDrive>,
    /// Declared drives that cannot be opened or read.
    complaints: Vec<String>,
}

/// The declared drives of a group that can be opened, and the spares that carry its label.
async fn find_drives(
    controller: &Controller,
    config: &Config,
    group: &GroupConfig,
) -> Result<FoundDrives, ControlError> {
    let mut found = FoundDrives { drives: Vec::new(), complaints: Vec::new() };
    for name in group.drives.iter().chain(&config.spares) {
        let is_spare = !group.drives.contains(name);
        let label = match open_drive(controller, config, name).await {
            Ok(drive) => inspect(&drive).await.map(|label| (drive, label)).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match label {
            Ok((_, None)) if is_spare => leave_to_others(controller, name),
            Ok((_, Some(label))) if is_spare && !is_of(&label, config, group) => {
                leave_to_others(controller, name);
            }
            Ok((drive, label)) => found.drives.push(FoundDrive { name: name.clone(), drive, label }),
            Err(_) if is_spare => {}
            Err(cause) => found.complaints.push(format!("drive {name}: {cause}")),
        }
    }
    Ok(found)
}

fn is_of(label: &Label, config: &Config, group: &GroupConfig) -> bool {
    label.array_id == config.id && label.group_name == group.name && label.epoch > 0
}

/// The drives with which a group that exists is opened: of two for one place the one with the newer label, none without a
/// label.
fn members(
    controller: &Controller,
    config: &Config,
    group: &GroupConfig,
    found: Vec<FoundDrive>,
) -> Vec<Drive> {
    let note = |text: String| controller.note(format!("group {}: {text}", group.name));
    let mut taken: Vec<FoundDrive> = Vec::new();
    for new in found {
        let Some(label) = &new.label else {
            note(format!("drive {} carries no label: it is left out until it replaces a drive", new.name));
            continue;
        };
        let same = |f: &&mut FoundDrive| {
            let other = f.label.as_ref();
            is_of(label, config, group)
                && other.is_some_and(|o| o.group_id == label.group_id && o.position == label.position)
        };
        let age = |l: &Label| (l.epoch, l.version);
        match taken.iter_mut().find(same) {
            Some(old) if old.label.as_ref().map(age) < Some(age(label)) => {
                note(format!("drive {} has the place of drive {}", new.name, old.name));
                *old = new;
            }
            Some(old) => note(format!("drive {} has the place of drive {}", old.name, new.name)),
            None => taken.push(new),
        }
    }
    taken.into_iter().map(|f| f.drive).collect()
}

/// Gives the place of the drive `old` in a group to the drive `new`, which may be the same name with another medium behind it.
/// The old one leaves only when the new one can take its place.
pub(crate) async fn replace_drive(
    controller: &Rc<Controller>,
    config: &Config,
    (group_name, old, new): (&str, &str, &str),
) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("group {group_name:?}"));
    let group = controller.state().groups.get(group_name).cloned();
    let group = group.ok_or_else(|| place()(&"there is no such group here"))?;
    let declared = config.groups.iter().find(|g| g.name == group_name);
    let index = declared.and_then(|g| g.drives.iter().position(|d| d == old));
    let position = position_of(controller, &group, old).or(index.map(|i| i as u32));
    let position = position.ok_or_else(|| place()(&format!("drive {old:?} has no place in it")))?;
    let serves = group.status().members[position as usize].state == MemberState::Active;
    if serves && group.status().tolerates == 0 {
        return Err(place()(&format!("no drive of it can be spared now: {old:?} stays")));
    }
    let drive = match old == new {
        true => exchanged(controller, config, old, serves).await?,
        false => open_drive(controller, config, new).await?,
    };
    check_fits(&group, position, &drive).await.map_err(|cause| place()(&cause))?;
    controller.state.borrow_mut().replacing.insert(group_name.to_owned());
    let replaced = match group.fail(position, "replaced by hand").await {
        Ok(()) => group.replace(position, drive).await.map_err(|e| place()(&e)),
        Err(error) => Err(place()(&error)),
    };
    controller.state.borrow_mut().replacing.remove(group_name);
    replaced?;
    let mut state = controller.state.borrow_mut();
    state.spares.retain(|s| s != new);
    if old != new {
        state.drives.remove(old);
    }
    Ok(vec![format!("group {group_name}: drive {new} takes the place of {old}, its rebuild begins")])
}

/// The drive behind a name, opened anew when the one that was open is gone.
async fn exchanged(
    controller: &Controller,
    config: &Config,
    name: &str,
    serves: bool,
) -> Result<Drive, ControlError> {
    let known = controller.state().drives.get(name).cloned();
    if let Some(known) = known
        && probe(&controller.world, &known).await.is_ok()
    {
        if serves {
            return Err(ControlError::at(format!("drive {name:?}"))(&"it serves and was not exchanged"));
        }
        return Ok(known);
    }
    controller.state.borrow_mut().drives.remove(name);
    open_drive(controller, config, name).await
}

/// Whether a drive can take a place: asked before the drive that has it leaves.
async fn check_fits(group: &Group, position: u32, drive: &Drive) -> Result<(), String> {
    let name = &drive.info().name;
    if let Some(found) = inspect(drive).await.map_err(|e| e.to_string())? {
        let own = found.group_id == group.id() && found.position == position;
        if !own && found.epoch > 0 {
            return Err(format!("drive {name} is in use: {found}"));
        }
    }
    let serving = group.drives().into_iter().next().ok_or("no drive of it serves")?;
    let Some(label) = inspect(&serving).await.map_err(|e| e.to_string())? else {
        return Err(format!("drive {} has lost its label", serving.info().name));
    };
    let (len, needed) = (drive.info().len_bytes, label.data_offset + label.data_len);
    if len < needed {
        return Err(format!("drive {name} has {len} bytes, {needed} are needed"));
    }
    let (block, blocks) = (drive.info().block_bytes, label.block_bytes);
    if block > blocks {
        return Err(format!("drive {name} has blocks of {block} bytes, the group has blocks of {blocks}"));
    }
    Ok(())
}

/// Refuses a declaration that lacks a drive of a group that it has: a spare, perhaps, that took a place.
pub(crate) fn check_members(controller: &Controller, config: &Config) -> Result<(), ControlError> {
    let state = controller.state();
    let kept = state.groups.iter().filter(|(name, _)| config.groups.iter().any(|g| g.name == **name));
    for (group, name) in
        kept.flat_map(|(g, group)| members_of(&state, group).into_iter().map(move |n| (g, n)))
    {
        if !config.drives.iter().any(|d| d.name == name) {
            let place = ControlError::at(format!("drive {name:?}"));
            return Err(place(&format!("it has a place in group {group:?}: replace it first")));
        }
    }
    Ok(())
}
