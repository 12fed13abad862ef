//! Groups, opened on the overlays: groups that cannot be opened, groups that are degraded, redundancy that
//! does not match.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use raid::{Group, GroupError, GroupSpec, GroupState, MemberState};
use world::World;

use super::drives::Opened;
use super::examination::{Examination, Progress, Tell};
use super::labels::Members;
use crate::config::GroupConfig;

/// Interval of progress reports during a scrub.
const TELL_INTERVAL: Duration = Duration::from_millis(250);
/// The labels lie before the journal and the data (docs/on_disk_format.md); a change there is not a change of
/// data.
const LABEL_REGION_LEN: u64 = 1 << 20;

/// Opens a group on its overlays, degraded if necessary.
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
    if newest.mirrors_may_differ.is_some() {
        examination.harmless(&place, "not shut down cleanly");
    }
    let drives = || members.drives.iter().map(|d| d.drive.clone()).collect();
    let opened = match Group::open(world.clone(), spec.clone(), drives()).await {
        Err(GroupError::Missing { position, width, cause, .. }) => {
            let text = format!(
                "does not start without an operator: the drive at position {position} of {width} is missing: \
                 {cause}"
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
            examination.damage(&place, format!("cannot be opened: {error}"));
            None
        }
    }
}

/// Reports how the opened group deviates from an optimal one.
fn describe(place: &str, group: &Group, examination: &mut Examination) {
    let status = group.status();
    match status.state {
        GroupState::Optimal => {}
        GroupState::Degraded => examination.damage(place, "degraded: redundancy is reduced"),
        GroupState::Failed => examination.damage(place, "failed: too few drives are left"),
    }
    for member in &status.members {
        let drive = member.drive.as_deref().unwrap_or("none");
        let place = format!("{place}: position {}", member.position);
        let state = match member.state {
            MemberState::Active | MemberState::Missing => continue,
            MemberState::Stale => "stale: it missed writes and must be rebuilt",
            MemberState::Failed => "failed",
            MemberState::Rebuilding => "not in sync: its rebuild resumes when the array starts",
        };
        examination.damage(place, format!("drive {drive} is {state}"));
    }
    if status.lost_ranges > 0 {
        let text = format!(
            "{} lost ranges: reads return an error until the ranges are written again",
            status.lost_ranges
        );
        examination.damage(place, text);
    }
}

/// Scrubs a group. What the scrub repairs on the overlays did not match.
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
    // Writes during the open are the group's recovery, not a finding.
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
            let what = format!("{place}: scrubbing");
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
                        "{len} bytes at byte {at} do not match the redundancy of {place}, or cannot be read"
                    );
                    examination.damage(format!("drive {}", opened.name), text);
                }
            }
            for at in scrubbed.first_differing() {
                let text = format!(
                    "the block at byte {at} differs between its drives; redundancy cannot decide which copy \
                     is correct"
                );
                examination.damage(&place, text);
            }
            if scrubbed.mismatches > 0 && places == 0 {
                examination
                    .damage(&place, format!("{} blocks do not match their redundancy", scrubbed.mismatches));
            }
            if scrubbed.unrepaired > 0 {
                let text = format!("{} blocks cannot be read or reconstructed", scrubbed.unrepaired);
                examination.damage(&place, text);
            }
        }
        Err(error) => examination.damage(&place, format!("scrub stopped with an error: {error}")),
    }
    let lost = group.status().lost_ranges.saturating_sub(lost_before);
    if lost > 0 {
        examination.damage(&place, format!("{lost} additional ranges are lost"));
    }
}
