//! Drives, RAID groups, and the places in a group.

use admin::{Drive, DriveHealth, Group, Member, Progress, Status};

use crate::manage::follow::percent;
use crate::table::column::{Column, Kind, Noun, Value};

fn of_health<T: Into<Value>>(d: &Drive, value: impl FnOnce(&DriveHealth) -> Option<T>) -> Value {
    d.health.as_ref().and_then(value).into()
}

static DRIVE_COLUMNS: [Column<Drive>; 25] = [
    Column::shown("name", Kind::Text, |d| (&d.name).into()),
    Column::shown("group", Kind::Text, |d| d.group.as_ref().into()),
    Column::shown("state", Kind::State, |d| (&d.state).into()),
    Column::shown("size", Kind::Bytes, |d| d.size_bytes.into()),
    Column::new("reads", Kind::Number, |d| d.reads.into()),
    Column::new("writes", Kind::Number, |d| d.writes.into()),
    Column::shown("read", Kind::Bytes, |d| d.read_bytes.into()),
    Column::shown("written", Kind::Bytes, |d| d.write_bytes.into()),
    Column::new("discards", Kind::Number, |d| d.zeros.into()),
    Column::new("flushes", Kind::Number, |d| d.flushes.into()),
    Column::new("fault", Kind::Text, |d| d.fault.as_ref().into()),
    Column::new("health", Kind::State, |d| of_health(d, |h| Some(h.text()))),
    Column::new("assessment", Kind::State, |d| of_health(d, |h| h.assessment.clone())),
    Column::new("temperature", Kind::Celsius, |d| of_health(d, |h| h.temperature_celsius.map(f64::from))),
    Column::new("wear", Kind::Percent, |d| of_health(d, |h| h.wear_percent)),
    Column::new("available-spare", Kind::Percent, |d| of_health(d, |h| h.available_spare_percent)),
    Column::new("power-on-hours", Kind::Number, |d| of_health(d, |h| h.power_on_hours)),
    Column::new("media-errors", Kind::Number, |d| of_health(d, |h| h.media_errors)),
    Column::new("reallocated-sectors", Kind::Number, |d| of_health(d, |h| h.reallocated_sectors)),
    Column::new("model", Kind::Text, |d| of_health(d, |h| h.model.clone())),
    Column::new("serial", Kind::Text, |d| of_health(d, |h| h.serial.clone())),
    Column::new("health-read", Kind::Time, |d| of_health(d, |h| Some(h.read_unix_ms))),
    Column::new("health-unknown", Kind::Text, |d| d.health_unknown.as_ref().into()),
    Column::new("identity", Kind::Text, |d| d.identity.as_ref().into()),
    Column::shown("medium", Kind::Text, |d| (&d.medium).into()),
];

/// `masu drive`.
pub(crate) static DRIVE: Noun<Drive> = Noun {
    one: "drive",
    many: "drives",
    columns: &DRIVE_COLUMNS,
    hint: "; masu group create makes a group of new ones",
    is_sorted: true,
};

static HEALTH_COLUMNS: [Column<Drive>; 6] = [
    Column::shown("name", Kind::Text, |d| (&d.name).into()),
    Column::shown("health", Kind::State, |d| of_health(d, |h| h.assessment.clone())),
    Column::shown("temperature", Kind::Celsius, |d| of_health(d, |h| h.temperature_celsius.map(f64::from))),
    Column::shown("wear", Kind::Percent, |d| of_health(d, |h| h.wear_percent)),
    Column::shown("media-errors", Kind::Number, |d| of_health(d, |h| h.media_errors)),
    Column::shown("model", Kind::Text, |d| of_health(d, |h| h.model.clone())),
];

/// A part of `masu status`: drives that report about themselves.
pub(crate) static HEALTH: Noun<Drive> =
    Noun { one: "drive", many: "drives", columns: &HEALTH_COLUMNS, hint: "", is_sorted: true };

/// State and running work.
fn group_state(g: &Group) -> String {
    match (g.rebuild, g.scrub) {
        (Some(part), _) => format!("{}, rebuilding {} %", g.state, percent(part)),
        (None, Some(part)) => format!("{}, scrubbing {} %", g.state, percent(part)),
        (None, None) => g.state.clone(),
    }
}

fn done(progress: Option<Progress>) -> Value {
    progress.map(percent).into()
}

static GROUP_COLUMNS: [Column<Group>; 13] = [
    Column::shown("name", Kind::Text, |g| (&g.name).into()),
    Column::shown("level", Kind::Text, |g| (&g.level).into()),
    Column::shown("state", Kind::State, |g| group_state(g).into()),
    Column::shown("tolerates", Kind::Number, |g| g.tolerates.into()),
    Column::shown("size", Kind::Bytes, |g| g.size_bytes.into()),
    Column::new("class", Kind::Text, |g| (&g.class).into()),
    Column::new("rebuilt", Kind::Percent, |g| done(g.rebuild)),
    Column::new("scrubbed", Kind::Percent, |g| done(g.scrub)),
    Column::new("lost-ranges", Kind::Number, |g| g.lost_ranges.into()),
    Column::new("differing-blocks", Kind::Number, |g| g.differing_blocks.into()),
    Column::new("repairs", Kind::Number, |g| g.repairs.into()),
    Column::new("foreground-share", Kind::Percent, |g| g.foreground_share_percent.into()),
    Column::shown("drives", Kind::Names, |g| (&g.drives).into()),
];

/// `masu group`; tolerates: how many more drives may fail, whichever they are.
pub(crate) static GROUP: Noun<Group> = Noun {
    one: "group",
    many: "groups",
    columns: &GROUP_COLUMNS,
    hint: "; create one with masu group create",
    is_sorted: true,
};

/// A place in a group, and the drive in it.
pub(crate) struct MemberRow {
    member: Member,
    drive: Option<Drive>,
}

/// The places of a group.
pub(crate) fn members(status: &Status, group: &Group) -> Vec<MemberRow> {
    let drive =
        |name: &Option<String>| status.drives.iter().find(|d| Some(&d.name) == name.as_ref()).cloned();
    group.members.iter().map(|m| MemberRow { member: m.clone(), drive: drive(&m.drive) }).collect()
}

fn member_state(m: &Member) -> String {
    if m.slow { format!("{}, silent", m.state) } else { m.state.clone() }
}

static MEMBER_COLUMNS: [Column<MemberRow>; 9] = [
    Column::shown("position", Kind::Number, |r| r.member.position.into()),
    Column::shown("drive", Kind::Text, |r| r.member.drive.as_ref().into()),
    Column::shown("state", Kind::State, |r| member_state(&r.member).into()),
    Column::shown("size", Kind::Bytes, |r| r.drive.as_ref().map(|d| d.size_bytes).into()),
    Column::shown("p99", Kind::Micros, |r| r.member.p99_us.into()),
    Column::shown("errors", Kind::Number, |r| r.member.errors.into()),
    Column::shown("unanswered", Kind::Number, |r| r.member.silences.into()),
    Column::shown("medium", Kind::Text, |r| r.drive.as_ref().map(|d| &d.medium).into()),
    Column::shown("cause", Kind::Text, |r| r.member.cause.as_ref().into()),
];

/// A part of `masu group show`.
pub(crate) static MEMBER: Noun<MemberRow> =
    Noun { one: "place", many: "places", columns: &MEMBER_COLUMNS, hint: "", is_sorted: false };
