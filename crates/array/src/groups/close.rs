//! Groups that leave a controller: released to another controller or array, or closed because their
//! declaration was refused.

use std::rc::Rc;

use pool::Pool;
use raid::{Group, GroupId, OnDrive, erase_label, examine};
use world::Drive;

use super::drives::members_of;
use super::upkeep::begin_upkeep;
use crate::config::Config;
use crate::control::ControlError;
use crate::controller::Controller;
use crate::journal_groups::check_journals;
use crate::terms;

/// Refuses a declaration that lacks a member of one of its groups, for example a spare that replaced a drive,
/// or says that a member is something else than what is open.
pub(crate) fn check_members(controller: &Controller, config: &Config) -> Result<(), ControlError> {
    let state = controller.state();
    for declared in &config.groups {
        let Some(group) = state.groups.get(&declared.name) else { continue };
        for name in members_of(&state, group) {
            let place = || ControlError::at(format!("drive {name:?}"));
            let has_place = declared.drives.contains(&name) || config.spares.contains(&name);
            let spec_in = |config: &Config| Some(config.drives.iter().find(|d| d.name == name)?.spec.name());
            let Some(path) = spec_in(config).filter(|_| has_place) else {
                let cause = format!(
                    "still a member of group {:?}; replace it first (masu group replace)",
                    declared.name
                );
                return Err(place()(&cause));
            };
            if let Some(open) = spec_in(&state.config).filter(|open| *open != path) {
                let cause = format!(
                    "is open as {open}, and a member of group {:?}; to use {path}, stop the array and move the file, \
                     or replace the drive (masu group replace)",
                    declared.name
                );
                return Err(place()(&cause));
            }
        }
    }
    Ok(())
}

/// Releases groups that now belong to another controller.
pub(crate) async fn release(
    controller: &Rc<Controller>,
    config: &Config,
) -> Result<Vec<String>, ControlError> {
    check_journals(controller, config)?;
    let gone: Vec<Group> = {
        let state = controller.state();
        let in_pools: Vec<_> = state.pools.values().flat_map(Pool::group_spaces).map(|g| g.id).collect();
        let declared = |name: &str| config.groups.iter().any(|g| g.name == name);
        let elsewhere = |name: &str| declared(name) && config.owner_of_group(name) != controller.index;
        let moves = |(name, group): &(&String, &Group)| elsewhere(name) && !in_pools.contains(&group.id());
        state.groups.iter().filter(moves).map(|(_, group)| group.clone()).collect()
    };
    // Whose resync has not begun keeps its mark on the labels: it begins where the group goes.
    let waits = |group: &&Group| controller.state().resync_waits.contains_key(group.name());
    gone.iter().filter(|group| !waits(group)).try_for_each(refuse_busy)?;
    end_upkeep(controller, &gone).await?;
    forget(controller, &gone);
    for group in gone {
        group.close().await.map_err(|e| ControlError::at(format!("group {:?}", group.name()))(&e))?;
    }
    Ok(vec![])
}

/// Refuses while work on the group runs that only the end of the process can interrupt.
pub(crate) fn refuse_busy(group: &Group) -> Result<(), ControlError> {
    let status = group.status();
    let what = match (status.rebuild, status.scrub) {
        (Some(_), _) => "rebuilt",
        (None, Some(_)) => "scrubbed",
        (None, None) if status.reads_pinned => "resynced",
        (None, None) => return Ok(()),
    };
    Err(ControlError::at(format!("group {:?}", group.name()))(&format!("being {what}; wait until this ends")))
}

/// Ends the monitoring of these groups. If one of them cannot be released, monitoring resumes for all.
pub(crate) async fn end_upkeep(controller: &Rc<Controller>, groups: &[Group]) -> Result<(), ControlError> {
    for (i, group) in groups.iter().enumerate() {
        let watch = controller.state.borrow_mut().group_watches.remove(group.name());
        if let Some(watch) = watch
            && !watch.let_go(&controller.world).await
        {
            groups[..=i].iter().for_each(|g| begin_upkeep(controller, g.name(), g.clone()));
            let place = ControlError::at(format!("group {:?}", group.name()));
            return Err(place(&"a drive of the group does not answer"));
        }
    }
    Ok(())
}

/// Removes the groups from the controller. Only the groups hold their drives then.
pub(crate) fn forget(controller: &Controller, groups: &[Group]) {
    let mut state = controller.state.borrow_mut();
    for group in groups {
        state.groups.remove(group.name());
        let media: Vec<String> = group.status().members.into_iter().filter_map(|m| m.drive).collect();
        state.drives.retain(|_, drive| !media.contains(&drive.info().name));
    }
}

/// Closes the groups that were opened or created for a refused declaration. The created ones, `fresh`, lose
/// their labels, unless a pool that stays has them.
pub(crate) async fn take_back(
    controller: &Rc<Controller>,
    config: &Config,
    fresh: &[String],
) -> Result<(), ControlError> {
    let groups: Vec<Group> = {
        let state = controller.state();
        let undeclared = |name: &str| config.groups.iter().all(|g| g.name != name);
        let in_pools: Vec<_> = state.pools.values().flat_map(Pool::group_spaces).map(|g| g.id).collect();
        let ends = |(name, group): &(&String, &Group)| {
            (fresh.contains(name) || undeclared(name)) && !in_pools.contains(&group.id())
        };
        state.groups.iter().filter(ends).map(|(_, group)| group.clone()).collect()
    };
    end_upkeep(controller, &groups).await?;
    let drives: Vec<Drive> = controller.state().drives.values().cloned().collect();
    forget(controller, &groups);
    let made = controller.state().made.clone();
    let open = groups.iter().filter(|g| fresh.iter().any(|name| name == g.name())).map(Group::id);
    let begun = fresh.iter().filter_map(|name| made.groups.get(name)?.id.map(terms::group_id));
    let ids: Vec<GroupId> = open.chain(begun).collect();
    for group in groups.into_iter().filter(|g| !ids.contains(&g.id())) {
        group.close().await.map_err(|e| ControlError::at(format!("group {:?}", group.name()))(&e))?;
    }
    for drive in drives {
        // This includes labels of a creation that failed half way.
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
