//! A status to begin with, and what is told of it.

use status::{Group, Member, Progress, Status};

use super::trouble_of;

pub(super) fn group(state: &str, rebuild: Option<Progress>, lost_ranges: usize) -> Status {
    let mut status = crate::convert::status_of(&array::Config::empty("iqn.2026-11.net.example:x"), vec![], 0);
    let member = |position, drive: &str, state: &str, cause: Option<&str>| Member {
        position,
        drive: Some(drive.into()),
        state: state.into(),
        cause: cause.map(Into::into),
        slow: false,
        errors: 0,
        silences: 0,
        p99_us: None,
    };
    let second = if state == "optimal" { ("active", None) } else { ("failed", Some("the file was removed")) };
    status.groups = vec![Group {
        name: "g0".into(),
        level: "raid5".into(),
        drives: vec![],
        size_bytes: 0,
        state: state.into(),
        tolerates: 0,
        members: vec![member(0, "d0", "active", None), member(1, "d1", second.0, second.1)],
        rebuild,
        scrub: None,
        lost_ranges,
        differing_blocks: 0,
        resync_waits: None,
        repairs: 0,
        foreground_share_percent: 70,
        class: String::new(),
        start_degraded: false,
    }];
    status
}

pub(super) fn check(status: &Status, severity: &str, expected: &[&str]) {
    let all = trouble_of(status);
    assert_eq!(all.len(), usize::from(!expected.is_empty()), "{all:?}");
    for one in &all {
        let line = format!("{}: {} -> {}", one.object, one.text, one.to_do);
        assert_eq!(one.severity, severity, "{line}");
        expected.iter().for_each(|part| assert!(line.contains(part), "{line:?} does not say {part:?}"));
    }
}
