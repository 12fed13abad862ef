//! Groups, opened over the overlays: what cannot be opened, what serves without a drive, what does not agree.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use raid::{Group, GroupError, GroupSpec, GroupState, MemberState};
use world::World;

use super::drives::Opened;
use super::examination::{Examination, Progress, Tell};
use super::labels::Members;
use crate::config::GroupConfig;

/// How often somebody is told how far a scrub is.
const TELL_INTERVAL: Duration = Duration::from_millis(250);
/// The labels lie before the journal and the data (docs/on_disk_format.md); what changes there is no data.
const LABEL_REGION_LEN: u64 = 1 << 20;

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
            MemberState::Rebuilding => "not filled yet: its rebuild goes on when the array starts",
        };
        examination.damage(place, format!("drive {drive} is {state}"));
    }
    if status.lost_ranges > 0 {
        let text = format!(
            "{} ranges are lost: reading them is an error until they are written again",
            status.lost_ranges
        );
        examination.damage(place, text);
    }
}

/// Reads everything on a group and compares it; what the scrub writes into the overlays is what did not agree.
pub(super) async fn scrub(
    world: &World,
    group: &Group,
    drives: &[Opened],
    tell: Tell<'_>,
    examination: &mut Examination,
) {
    let place = format!("group {}", group.name());
    let own: Vec<&Opened> = {
        let names: Vec<String> = group.drives().iter().map(|d| d.info().name.clone()).collect();
        drives.iter().filter(|d| names.contains(&d.drive().info().name)).collect()
    };
    // What opening the group wrote is its recovery.
    for opened in &own {
        opened.overlay.take_written();
    }
    let lost_before = group.status().lost_ranges;
    let throttle = raid::Throttle::none(world.clone());
    let mut scrub = pin!(group.scrub(&throttle));
    let scrubbed = loop {
        match select(scrub, pin!(world.sleep(TELL_INTERVAL))).await {
            Either::Left((scrubbed, _)) => break scrubbed,
            Either::Right(((), going_on)) => scrub = going_on,
        }
        if let Some(progress) = group.status().scrub {
            let what = format!("{place}: reading everything");
            tell(&Progress { what, done_bytes: progress.done_bytes, total_bytes: progress.total_bytes });
        }
    };
    match scrubbed {
        Ok(scrubbed) => {
            examination.compared_bytes += scrubbed.compared_bytes;
            let mut places = 0;
            for opened in &own {
                let written = opened.overlay.take_written();
                for (at, len) in written.into_iter().filter(|(at, _)| *at >= LABEL_REGION_LEN) {
                    places += 1;
                    let text = format!(
                        "{len} bytes at byte {at} do not agree with the rest of {place}, or cannot be read"
                    );
                    examination.damage(format!("drive {}", opened.name), text);
                }
            }
            for at in scrubbed.first_differing() {
                let text = format!(
                    "the block at byte {at} differs between its drives, and no redundancy tells which is right"
                );
                examination.damage(&place, text);
            }
            if scrubbed.mismatches > 0 && places == 0 {
                examination.damage(&place, format!("{} blocks do not agree", scrubbed.mismatches));
            }
            if scrubbed.unrepaired > 0 {
                let text =
                    format!("{} blocks cannot be read, and no redundancy tells them", scrubbed.unrepaired);
                examination.damage(&place, text);
            }
        }
        Err(error) => examination.damage(&place, format!("it cannot be read to its end: {error}")),
    }
    let lost = group.status().lost_ranges.saturating_sub(lost_before);
    if lost > 0 {
        examination.damage(&place, format!("{lost} more ranges turn out to be lost"));
    }
}
