//! RAID groups, and the drives in their places.

use array::Severity;
use status::{Drive, Group, Member, Status, Trouble};

use super::told::trouble;

/// A drive whose 99th percentile is so many times that of the others of its group is told.
const SLOW_FACTOR: u64 = 10;
const TO_REPLACE: &str = "masu group replace GROUP OLD NEW, or add a spare: masu drive spare NAME PATH";

pub(super) fn of_group(group: &Group, lost: &str, all: &mut Vec<Trouble>) {
    let object = format!("group {}", group.name);
    let serves = group.state == "degraded";
    if group.state != "optimal" {
        let away: Vec<String> = group.members.iter().filter(|m| m.state != "active").map(away).collect();
        let left = match (serves, group.tolerates) {
            (false, _) => "it serves no more".to_owned(),
            (true, 0) => "no further drive may fail".to_owned(),
            (true, 1) => "one further drive may fail".to_owned(),
            (true, n) => format!("{n} further drives may fail"),
        };
        let level = &group.level;
        let text = format!("{} ({level}): {}{lost}; {left}", group.state, away.join(", "));
        let to_do = match &group.rebuild {
            Some(p) => format!("wait: it is being rebuilt, {} %", 100 * p.done_bytes / p.total_bytes.max(1)),
            None if serves => format!("no spare is left: {TO_REPLACE}"),
            None => "bring the missing drives back, and restart the array".into(),
        };
        let severity = if serves { Severity::Warning } else { Severity::Error };
        all.push(trouble(severity, object.clone(), "state", text, to_do));
    }
    if group.lost_ranges > 0 {
        let n = group.lost_ranges;
        let text = format!("{n} ranges are lost: reading them is an error until they are written again");
        let to_do = "restore what lay there from a backup: masu group show GROUP";
        all.push(trouble(Severity::Error, object.clone(), "lost", text, to_do));
    }
    if group.differing_blocks > 0 {
        let n = group.differing_blocks;
        let text = format!(
            "{n} blocks differ between its drives, and no redundancy tells which is right: they are left as they are"
        );
        let to_do = "restore what lies there from a backup, then scrub again: masu group scrub GROUP";
        all.push(trouble(Severity::Error, object.clone(), "differing", text, to_do));
    }
    if let Some(cause) = &group.resync_waits {
        let text = format!("its mirrors may differ, and are not made equal yet: {cause}");
        let to_do = "see why that is; until then each mirror stays as it is: masu status";
        all.push(trouble(Severity::Warning, object.clone(), "resync", text, to_do));
    }
    if group.start_degraded {
        let text = "start_degraded stands in its declaration: a start without some of its drives would serve what the others \
                    have, be it older";
        let to_do = "take it out of the file, and apply that: SIGHUP, or masu config import FILE";
        all.push(trouble(Severity::Warning, object, "start-degraded", text, to_do));
    }
    group.members.iter().filter(|m| m.state == "active").for_each(|m| of_member(group, m, all));
}

/// Where the drives of a group were that it has not: who looks for one needs more than its name.
pub(super) fn lost_of(group: &str, status: &Status) -> String {
    let is_away = |d: &&Drive| {
        d.group.as_deref() == Some(group) && matches!(d.state.as_str(), "missing" | "failed" | "stale")
    };
    let was = |drive: &Drive| {
        let identity = drive.identity.as_ref().map_or(String::new(), |of| format!(" ({of})"));
        format!("; drive {} was {}{identity}", drive.name, drive.medium)
    };
    status.drives.iter().filter(is_away).map(was).collect()
}

/// A drive that serves, and is slow.
fn of_member(group: &Group, member: &Member, all: &mut Vec<Trouble>) {
    let Some(drive) = &member.drive else { return };
    let place = format!("position {} of group {}", member.position, group.name);
    let to_do = format!("look at the drive and its cable, or exchange it: {TO_REPLACE}");
    if member.slow {
        let text = format!("does not answer at the moment ({place})");
        all.push(trouble(Severity::Warning, format!("drive {drive}"), "silent", text, to_do));
        return;
    }
    let mut others: Vec<u64> =
        group.members.iter().filter(|m| m.position != member.position).filter_map(|m| m.p99_us).collect();
    others.sort_unstable();
    let (Some(own), Some(usual)) = (member.p99_us, others.get(others.len() / 2)) else { return };
    if own >= SLOW_FACTOR * usual {
        let text = format!(
            "is slow: 99 of 100 operations of the last minute took up to {own} us, those of the others of its group {usual} us ({place})"
        );
        all.push(trouble(Severity::Warning, format!("drive {drive}"), "slow", text, to_do));
    }
}

fn away(member: &Member) -> String {
    let position = || format!("position {}", member.position);
    let drive = member.drive.as_deref().map_or_else(position, |d| format!("drive {d}"));
    let cause = member.cause.as_deref().map_or(String::new(), |cause| format!(" ({cause})"));
    format!("{drive} is {}{cause}", member.state)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, group};
    use super::super::trouble_of;
    use super::*;
    use status::{Missing, Progress, Reason};

    #[test]
    fn trouble_is_named_with_its_cause_and_what_to_do() {
        check(&group("optimal", None, 0), "", &[]);
        let mut standing = group("optimal", None, 0);
        standing.groups[0].start_degraded = true;
        check(&standing, "warning", &["group g0: start_degraded stands", "take it out of the file"]);
        let degraded = [
            "group g0: degraded (raid5)",
            "drive d1 is failed (the file was removed)",
            "no further drive",
            "no spare",
        ];
        check(&group("degraded", None, 0), "warning", &degraded);
        let progress = Progress { done_bytes: 43, total_bytes: 100 };
        check(&group("degraded", Some(progress), 0), "warning", &["it is being rebuilt, 43 %"]);
        check(&group("failed", None, 0), "error", &["it serves no more"]);
        check(&group("optimal", None, 3), "error", &["3 ranges are lost"]);
    }

    #[test]
    fn a_drive_that_is_away_is_told_with_its_device() {
        let mut status = group("degraded", None, 0);
        // It could not be opened: the group knows no more than that nothing is there.
        status.groups[0].members[1] = Member {
            drive: None,
            state: "missing".into(),
            cause: None,
            ..status.groups[0].members[1].clone()
        };
        let drive = |name: &str, state: &str| Drive {
            name: name.into(),
            medium: format!("/dev/{name}"),
            identity: Some(format!("wwid: naa.{name}")),
            group: Some("g0".into()),
            state: state.into(),
            ..Drive::default()
        };
        status.drives = vec![drive("d0", "active"), drive("d1", "missing")];
        check(
            &status,
            "warning",
            &["position 1 is missing; drive d1 was /dev/d1 (wwid: naa.d1); no further"],
        );
        assert!(!trouble_of(&status)[0].text.contains("/dev/d0"));
        status.drives[1].identity = None;
        check(&status, "warning", &["; drive d1 was /dev/d1; no further"]);
        status.groups.clear();
        status.missing = vec![Missing {
            kind: "group".into(),
            name: "g0".into(),
            cause: "too few".into(),
            reason: Reason::Away,
            medium: None,
        }];
        check(&status, "error", &["is not served: too few; drive d1 was /dev/d1"]);
    }
}
