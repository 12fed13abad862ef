//! Drives and groups, as they are declared and as their labels say.
//!
//! The labels decide which drive has which place: a spare that took a place has it after a restart, too, and the drive whose
//! place it took is left aside.

use std::rc::Rc;

use pool::Pool;
use raid::{
    Group, GroupError, GroupId, GroupSpec, GroupState, Label, MemberState, OnDrive, Overwrite, erase_label,
    examine,
};
use world::Drive;

use crate::config::{Config, GroupConfig, Made};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::drives::{leave_to_others, members_of, open_drive, open_exchanged, position_of, probe};
use crate::event::Severity;
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

/// What a group is to be: with its identity, where that is known.
pub(crate) fn spec_of(config: &Config, made: &Made, group: &GroupConfig) -> GroupSpec {
    GroupSpec {
        name: group.name.clone(),
        level: group.level,
        stripe_unit_bytes: group.stripe_unit_bytes,
        array_id: config.id,
        id: made.groups.get(&group.name).and_then(|m| m.id),
    }
}

/// Opens a group that is declared. One that was never made is created, if its drives are blank.
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
    let made = controller.state().made.clone();
    let found = find_drives(controller, config, group).await?;
    let has_data = |f: &FoundDrive| matches!(&f.found, OnDrive::Label(label) if label.epoch > 0);
    let (opened, how) = if made.has_group(&group.name) || found.drives.iter().any(has_data) {
        (open_found(controller, config, group, found).await?, "opened")
    } else if found.complaints.is_empty() {
        (create(controller, config, group, found).await?, "created")
    } else {
        return Err(place()(&found.complaints.join("; ")));
    };
    let state = opened.status().state;
    done.push(format!("group {}: {how}, {state:?}", group.name));
    if state != GroupState::Optimal {
        let told = format!("group {}: it starts {}", group.name, format!("{state:?}").to_lowercase());
        if state == GroupState::Degraded { controller.warn(told) } else { controller.alarm(told) }
    }
    controller.state.borrow_mut().groups.insert(group.name.clone(), opened.clone());
    begin_upkeep(controller, &group.name, opened);
    Ok(())
}

/// Opens a group from those of its drives that are there. Where that is not possible, nothing is written to any of them.
async fn open_found(
    controller: &Rc<Controller>,
    config: &Config,
    group: &GroupConfig,
    found: FoundDrives,
) -> Result<Group, ControlError> {
    let place = ControlError::at(format!("group {:?}", group.name));
    let made = controller.state().made.clone();
    let mut spec = spec_of(config, &made, group);
    if !made.has_group(&group.name) {
        // What is found was made by an array without this history, or by a creation that was interrupted.
        spec.id = None;
    }
    let complaints = found.complaints.clone();
    complaints.iter().for_each(|c| controller.once(Severity::Warning, format!("group {}: {c}", group.name)));
    let drives = members(controller, config, group, found.drives);
    if drives.is_empty() {
        return Err(place(&unreadable(&complaints)));
    }
    let opened = match group.start_degraded {
        true => Group::open_degraded(controller.world.clone(), spec, drives).await,
        false => Group::open(controller.world.clone(), spec, drives).await,
    };
    opened.map_err(|e| match complaints.is_empty() {
        true => place(&explain(e)),
        false => place(&format!("{} ({})", explain(e), complaints.join("; "))),
    })
}

/// Why a group that was made has no drive at all, and what to do.
fn unreadable(complaints: &[String]) -> String {
    let causes = complaints.join("; ");
    format!(
        "none of its drives can be used: {causes}. Nothing was written to them: bring them back, and the array opens the group by itself"
    )
}

/// Creates a group that was never made. Drives are written only if all of them may be.
async fn create(
    controller: &Rc<Controller>,
    config: &Config,
    group: &GroupConfig,
    found: FoundDrives,
) -> Result<Group, ControlError> {
    let place = ControlError::at(format!("group {:?}", group.name));
    let made = controller.state().made.clone();
    let (named, others): (Vec<_>, Vec<_>) =
        found.drives.iter().partition(|f| made.overwrite.contains(&f.name));
    let overwrite = if named.is_empty() { Overwrite::Nothing } else { Overwrite::Foreign };
    // Only what is named may be overwritten; labels of this very creation may be on the others.
    let is_free = |f: &&FoundDrive| match &f.found {
        OnDrive::Blank => true,
        OnDrive::Label(l) => l.epoch == 0 && l.array_id == config.id && l.group_name == group.name,
        _ => false,
    };
    if let Some(used) = others.into_iter().find(|f| !named.is_empty() && !is_free(f)) {
        let what = carried(&used.found);
        return Err(place(&format!("drive {} {what}; it is not named to be overwritten", used.name)));
    }
    controller.state.borrow_mut().fresh.groups.push(group.name.clone());
    let drives = found.drives.into_iter().map(|f| f.drive).collect();
    let spec = spec_of(config, &made, group);
    let created = Group::create_over(controller.world.clone(), spec, drives, overwrite).await;
    created.map_err(|e| place(&explain(e)))
}

/// Takes back groups that were opened or created for a declaration which is not to be in force. Those that were created, `fresh`,
/// lose their labels: nothing was ever written to them.
pub(crate) async fn take_back(
    controller: &Rc<Controller>,
    config: &Config,
    fresh: &[String],
) -> Result<(), ControlError> {
    let groups: Vec<Group> = {
        let state = controller.state();
        let undeclared = |name: &str| config.groups.iter().all(|g| g.name != name);
        let ends = |(name, _): &(&String, &Group)| fresh.contains(name) || undeclared(name);
        state.groups.iter().filter(ends).map(|(_, group)| group.clone()).collect()
    };
    end_upkeep(controller, &groups).await?;
    let drives: Vec<Drive> = controller.state().drives.values().cloned().collect();
    forget(controller, &groups);
    let made = controller.state().made.clone();
    let open = groups.iter().filter(|g| fresh.iter().any(|name| name == g.name())).map(Group::id);
    let begun = fresh.iter().filter_map(|name| made.groups.get(name)?.id);
    let ids: Vec<GroupId> = open.chain(begun).collect();
    for group in groups.into_iter().filter(|g| !ids.contains(&g.id())) {
        group.close().await.map_err(|e| ControlError::at(format!("group {:?}", group.name()))(&e))?;
    }
    for drive in drives {
        // Also what a creation that failed half way has written.
        if let Ok(OnDrive::Label(label)) = examine(&drive).await
            && ids.contains(&label.group_id)
        {
            let name = drive.info().name.clone();
            let erased = erase_label(&drive).await;
            erased.map_err(|e| ControlError::at(format!("drive {name:?}"))(&e))?;
        }
    }
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
    found: OnDrive,
}

impl FoundDrive {
    fn label(&self) -> Option<&Label> {
        match &self.found {
            OnDrive::Label(label) => Some(label),
            _ => None,
        }
    }
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
        let on_drive = match open_drive(controller, config, name).await {
            Ok(drive) => examine(&drive).await.map(|on| (drive, on)).map_err(|e| e.to_string()),
            Err(error) => Err(cause_of(error)),
        };
        match on_drive {
            Ok((_, OnDrive::Label(label))) if is_spare && !is_of(&label, config, group) => {
                leave_to_others(controller, name);
            }
            Ok((drive, OnDrive::Label(label))) => {
                found.drives.push(FoundDrive { name: name.clone(), drive, found: OnDrive::Label(label) });
            }
            Ok(_) if is_spare => leave_to_others(controller, name),
            Ok((drive, on)) => found.drives.push(FoundDrive { name: name.clone(), drive, found: on }),
            Err(_) if is_spare => {}
            Err(cause) => found.complaints.push(format!("drive {name:?}: {cause}")),
        }
    }
    Ok(found)
}

fn cause_of(error: ControlError) -> String {
    match error {
        ControlError::Failed { cause, .. } => cause,
        other => other.to_string(),
    }
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
    let note = |text: String| controller.warn(format!("group {}: {text}", group.name));
    let mut taken: Vec<FoundDrive> = Vec::new();
    for new in found {
        let Some(label) = new.label() else {
            let what = carried(&new.found);
            note(format!("drive {} {what}: it is left out until it replaces a drive", new.name));
            continue;
        };
        let same = |f: &&mut FoundDrive| {
            let other = f.label();
            is_of(label, config, group)
                && other.is_some_and(|o| o.group_id == label.group_id && o.position == label.position)
        };
        let age = |l: &Label| (l.epoch, l.version);
        match taken.iter_mut().find(same) {
            Some(old) if old.label().map(age) < Some(age(label)) => {
                note(format!("drive {} has the place of drive {}", new.name, old.name));
                *old = new;
            }
            Some(old) => note(format!("drive {} has the place of drive {}", old.name, new.name)),
            None => taken.push(new),
        }
    }
    taken.into_iter().map(|f| f.drive).collect()
}

/// What a drive carries, in words.
fn carried(found: &OnDrive) -> String {
    match found {
        OnDrive::NewerFormat { format } => {
            format!("carries a label of format {format}, written by a newer masu")
        }
        OnDrive::DamagedLabel => "carries a label that is damaged".to_owned(),
        OnDrive::NotBlank { at } => format!("carries no label, but data at byte {at}"),
        OnDrive::Label(label) => format!("belongs to {label}"),
        OnDrive::Blank => "carries no label".to_owned(),
    }
}

/// Gives the place of the drive `old` in a group to the drive `new`, which may be the same name with another medium behind it.
/// The old one leaves only when the new one can take its place.
pub(crate) async fn replace_drive(
    controller: &Rc<Controller>,
    config: &Config,
    (group_name, old, new): (&str, &str, &str),
    overwrite: Overwrite,
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
    if let Err(error) = group.check_replacement(position, &drive, overwrite).await {
        // Nothing of an attempt that was refused stays open.
        if old != new {
            controller.state.borrow_mut().drives.remove(new);
        }
        return Err(place()(&error));
    }
    controller.state.borrow_mut().replacing.insert(group_name.to_owned());
    let replaced = match group.fail(position, "replaced by hand").await {
        Ok(()) => group.replace_over(position, drive, overwrite).await.map_err(|e| place()(&e)),
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
    open_exchanged(controller, config, name).await
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
