//! Groups, opened over the overlays: what cannot be opened, what serves without a drive, what does not agree.

use raid::{Group, GroupError, GroupSpec, GroupState, MemberState};
use world::World;

use super::Examination;
use super::labels::Members;
use crate::config::GroupConfig;

/// Opens a group on its overlays, degraded where it must be.
pub(super) async fn open(
    world: &World,
    declared: &GroupConfig,
    members: &[Members],
    examination: &mut Examination,
) -> Option<Group> {
    let members = members.iter().find(|m| m.group == declared.name)?;
    let place = format!("group {}", declared.name);
    let newest = &members.newest;
    let spec = GroupSpec {
        stripe_unit_bytes: newest.stripe_unit_bytes,
        ..GroupSpec::new(&newest.group_name, newest.level, newest.array_id)
    };
    if newest.mirrors_may_differ {
        examination.harmless(&place, "it was not stopped in order");
    }
    let drives = || members.drives.iter().map(|d| d.drive.clone()).collect();
    let opened = match Group::open(world.clone(), spec.clone(), drives()).await {
        Err(GroupError::Missing { position, width, cause, .. }) => {
            let text = format!(
                "it does not start by itself: the drive at position {position} of {width} is missing: {cause}"
            );
            examination.damage(&place, text);
            Group::open_degraded(world.clone(), spec, drives()).await
        }
        other => other,
    };
    match opened {
        Ok(group) => {
            describe(&place, &group, examination);
            Some(group)
        }
        Err(error) => {
            examination.damage(&place, format!("it cannot be opened: {error}"));
            None
        }
    }
}

/// What the opened group is not, and should be.
fn describe(place: &str, group: &Group, examination: &mut Examination) {
    let status = group.status();
    match status.state {
        GroupState::Optimal => {}
        GroupState::Degraded => examination.damage(place, "it is degraded: redundancy is not full"),
        GroupState::Failed => examination.damage(place, "it has failed: too few drives are left"),
    }
    for member in &status.members {
        let drive = member.drive.as_deref().unwrap_or("none");
        let place = format!("{place}: position {}", member.position);
        let state = match member.state {
            MemberState::Active | MemberState::Missing => continue,
            MemberState::Stale => "stale: it missed changes and is to be rebuilt",
            MemberState::Failed => "failed",
            MemberState::Rebuilding => "being rebuilt: not all of its data is there",
        };
        examination.damage(place, format!("drive {drive} is {state}"));
    }
}
