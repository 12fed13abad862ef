//! Drives, groups and the places in them.

use status::{Drive, Group, Member, Status};

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
    let count = |state: &&str| {
        let n = status.drives.iter().filter(|d| d.state == **state).count();
        (labels(&[("state", state)]), n as f64)
    };
    out.gauge("masu_drives", "Drives by their state", STATES.iter().map(count));
}

const STATES: [&str; 8] = ["active", "rebuilding", "missing", "stale", "failed", "replaced", "spare", "free"];

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
