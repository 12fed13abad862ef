//! Drives, groups and the places in them.

use status::{Drive, DriveHealth, Group, Member, Status};

use super::top::Named;
use super::write::{Sample, Text, labels};

pub(super) fn write(out: &mut Text, status: &Status, named: &Named) {
    for (name, help, value) in GROUP_GAUGES {
        out.gauge(name, help, status.groups.iter().map(|g| (labels(&[("group", &g.name)]), value(g))));
    }
    let repairs = status.groups.iter().map(|g| (labels(&[("group", &g.name)]), g.repairs as f64));
    out.counter("masu_group_repairs_total", "Places written again after a medium error", repairs);
    members(out, status, named);
    let own = || status.drives.iter().filter(|d| named.drives.contains(&d.name));
    for (name, help, value) in DRIVE_COUNTERS {
        let samples = own().map(|d| (labels(&[("drive", &d.name)]), value(d) as f64));
        let others = status.drives.iter().filter(|d| !named.drives.contains(&d.name));
        let rest = (status.drives.len() > named.drives.len())
            .then(|| (labels(&[("drive", "other")]), others.map(value).sum::<u64>() as f64));
        out.counter(name, help, samples.chain(rest));
    }
    let info = own().map(|d| {
        let group = d.group.as_deref().unwrap_or_default();
        (labels(&[("drive", &d.name), ("group", group), ("state", &d.state)]), 1.0)
    });
    out.gauge("masu_drive_info", "What a drive does: 1", info);
    let sizes = own().map(|d| (labels(&[("drive", &d.name)]), d.size_bytes as f64));
    out.gauge("masu_drive_size_bytes", "Size of a drive; 0 while it is not open", sizes);
    health(out, status, named);
    let count = |state: &&str| {
        let n = status.drives.iter().filter(|d| d.state == **state).count();
        (labels(&[("state", state)]), n as f64)
    };
    out.gauge("masu_drives", "Drives by their state", STATES.iter().map(count));
}

const STATES: [&str; 8] = ["active", "rebuilding", "missing", "stale", "failed", "replaced", "spare", "free"];

/// What drives report about themselves: those that have series of their own, and all that fail.
fn health(out: &mut Text, status: &Status, named: &Named) {
    let is_failing = |h: &DriveHealth| h.assessment.as_deref() == Some("failing");
    let reports = |d: &&Drive| named.drives.contains(&d.name) || d.health.as_ref().is_some_and(is_failing);
    for (name, is_counter, help, value) in HEALTH_FAMILIES {
        let sample = |d: &Drive| Some((labels(&[("drive", &d.name)]), value(d.health.as_ref()?)?));
        let samples = status.drives.iter().filter(reports).filter_map(sample);
        match is_counter {
            true => out.counter(name, help, samples),
            false => out.gauge(name, help, samples),
        }
    }
}

type HealthFamily = (&'static str, bool, &'static str, fn(&DriveHealth) -> Option<f64>);

const HEALTH_FAMILIES: &[HealthFamily] = &[
    ("masu_drive_failing", false, "1 while a drive reports that it is failing", |h| {
        h.assessment.as_deref().map(|assessment| f64::from(u8::from(assessment == "failing")))
    }),
    ("masu_drive_temperature_celsius", false, "Temperature of a drive", |h| {
        h.temperature_celsius.map(f64::from)
    }),
    ("masu_drive_wear_ratio", false, "Share of a drive's rated endurance that is used; may exceed 1", |h| {
        h.wear_percent.map(|percent| f64::from(percent) / 100.0)
    }),
    ("masu_drive_available_spare_ratio", false, "What is left of a drive's spare blocks", |h| {
        h.available_spare_percent.map(|percent| f64::from(percent) / 100.0)
    }),
    ("masu_drive_power_on_seconds_total", true, "Time that a drive was powered on", |h| {
        h.power_on_hours.map(|hours| hours as f64 * 3600.0)
    }),
    ("masu_drive_media_errors_total", true, "Errors that a drive could not correct, over its life", |h| {
        h.media_errors.map(|n| n as f64)
    }),
    ("masu_drive_reallocated_sectors", false, "Sectors that a drive has replaced by others", |h| {
        h.reallocated_sectors.map(|n| n as f64)
    }),
    (
        "masu_drive_health_timestamp_seconds",
        false,
        "When a drive's health was read, in seconds since 1970",
        |h| Some(h.read_unix_ms as f64 / 1e3),
    ),
];

/// The drives in their places: those that have series of their own, and all that do not serve.
fn members(out: &mut Text, status: &Status, named: &Named) {
    for (name, is_counter, help, value) in MEMBER_FAMILIES {
        let mut samples: Vec<Sample> = Vec::new();
        for group in &status.groups {
            for m in &group.members {
                let drive = m.drive.as_deref().unwrap_or_default();
                if m.state == "active" && !m.slow && !named.drives.contains(drive) {
                    continue;
                }
                let position = m.position.to_string();
                let label = labels(&[("group", &group.name), ("position", &position), ("drive", drive)]);
                samples.extend(value(m).map(|value| (label, value)));
            }
        }
        match is_counter {
            true => out.counter(name, help, samples),
            false => out.gauge(name, help, samples),
        }
    }
}

type MemberFamily = (&'static str, bool, &'static str, fn(&Member) -> Option<f64>);

const MEMBER_FAMILIES: &[MemberFamily] = &[
    ("masu_member_active", false, "1 while the drive in a place of a group serves", |m| {
        Some(f64::from(u8::from(m.state == "active")))
    }),
    ("masu_member_silent", false, "1 while the drive in a place does not answer", |m| {
        Some(f64::from(u8::from(m.slow)))
    }),
    ("masu_member_errors_total", true, "Operations of the drives in a place that failed", |m| {
        Some(m.errors as f64)
    }),
    ("masu_member_unanswered_total", true, "Operations that were given up for want of an answer", |m| {
        Some(m.silences as f64)
    }),
    ("masu_member_p99_seconds", false, "What 99 of 100 operations of the last minute did not exceed", |m| {
        m.p99_us.map(|us| us as f64 / 1e6)
    }),
];

type GroupGauge = (&'static str, &'static str, fn(&Group) -> f64);

const GROUP_GAUGES: &[GroupGauge] = &[
    ("masu_group_optimal", "1 while all drives of a group serve", |g| {
        f64::from(u8::from(g.state == "optimal"))
    }),
    ("masu_group_failed", "1 while data of a group cannot be read", |g| {
        f64::from(u8::from(g.state == "failed"))
    }),
    ("masu_group_may_fail", "How many more drives may fail", |g| g.tolerates.into()),
    ("masu_group_size_bytes", "Usable size", |g| g.size_bytes as f64),
    ("masu_group_lost_ranges", "Ranges that cannot be read until they are written again", |g| {
        g.lost_ranges as f64
    }),
    ("masu_group_differing_blocks", "Blocks that differ between drives since the last scrub", |g| {
        g.differing_blocks as f64
    }),
    ("masu_group_rebuild_left_bytes", "Bytes of a drive that are still to be rebuilt", |g| {
        g.rebuild.map_or(0.0, |p| p.total_bytes.saturating_sub(p.done_bytes) as f64)
    }),
];

type DriveCounter = (&'static str, &'static str, fn(&Drive) -> u64);

const DRIVE_COUNTERS: &[DriveCounter] = &[
    ("masu_drive_reads_total", "Read operations of a drive", |d| d.reads),
    ("masu_drive_writes_total", "Write operations of a drive", |d| d.writes),
    ("masu_drive_flushes_total", "Flushes of a drive that ended", |d| d.flushes),
    ("masu_drive_read_bytes_total", "Bytes read from a drive", |d| d.read_bytes),
    ("masu_drive_written_bytes_total", "Bytes written to a drive", |d| d.write_bytes),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drives_that_report_have_health_in_base_units() {
        let drive = |name: &str, health| Drive { name: name.into(), health, ..Drive::default() };
        let passed = DriveHealth {
            read_unix_ms: 1_500,
            assessment: Some("passed".into()),
            temperature_celsius: Some(-3),
            wear_percent: Some(104),
            power_on_hours: Some(2),
            ..DriveHealth::default()
        };
        let failing = DriveHealth { assessment: Some("failing".into()), ..DriveHealth::default() };
        let drives = vec![
            drive("d0", Some(passed.clone())),
            drive("d1", None),
            // Beyond `--metrics-top`.
            drive("d2", Some(passed)),
            drive("d3", Some(failing)),
        ];
        let status = Status { drives, ..Status::default() };
        let named = Named { drives: ["d0".to_owned(), "d1".to_owned()].into(), ..Named::default() };
        let mut out = Text::default();
        health(&mut out, &status, &named);
        let text = out.into_string();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "masu_drive_failing{drive=\"d0\"} 0",
            "masu_drive_failing{drive=\"d3\"} 1",
            "masu_drive_temperature_celsius{drive=\"d0\"} -3",
            "masu_drive_wear_ratio{drive=\"d0\"} 1.04",
            "masu_drive_power_on_seconds_total{drive=\"d0\"} 7200",
            "masu_drive_health_timestamp_seconds{drive=\"d0\"} 1.5",
            "masu_drive_health_timestamp_seconds{drive=\"d3\"} 0",
        ];
        assert_eq!(samples, expected);
    }
}
