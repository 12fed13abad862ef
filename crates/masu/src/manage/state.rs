//! `masu status`: trouble first.

use admin::{Group, Missing, Pool, Status, format_bytes};

use super::follow::percent;
use super::{image, tables};

/// What needs a person, a line each; none when all is well.
pub(super) fn trouble(status: &Status) -> Vec<String> {
    let missing = |m: &Missing| format!("{} {} is not served: {}", m.kind, m.name, m.cause);
    let mut lines: Vec<String> = status.missing.iter().map(missing).collect();
    status.groups.iter().for_each(|group| trouble_of_group(group, &mut lines));
    status.pools.iter().for_each(|pool| trouble_of_pool(pool, &mut lines));
    status.images.iter().for_each(|image| image::trouble(image, &mut lines));
    lines
}

fn trouble_of_group(group: &Group, lines: &mut Vec<String>) {
    let name = format!("group {} ({})", group.name, group.level);
    if group.state != "optimal" {
        let away: Vec<String> = group
            .members
            .iter()
            .filter(|m| m.state != "active")
            .map(|m| {
                let drive =
                    m.drive.as_deref().map_or(format!("position {}", m.position), |d| format!("drive {d}"));
                let cause = m.cause.as_deref().map_or(String::new(), |cause| format!(" ({cause})"));
                format!("{drive} is {}{cause}", m.state)
            })
            .collect();
        let rebuild = match &group.rebuild {
            Some(progress) => format!("rebuilding, {} %", percent(*progress)),
            None if group.state == "failed" => "it serves no more".into(),
            None => "no spare is left: masu group replace".into(),
        };
        let left = match group.tolerates {
            0 => "no further drive may fail".to_owned(),
            1 => "one further drive may fail".to_owned(),
            n => format!("{n} further drives may fail"),
        };
        lines.push(format!("{name} is {}: {}; {rebuild}; {left}", group.state, away.join(", ")));
    }
    if group.lost_ranges > 0 {
        let n = group.lost_ranges;
        lines.push(format!(
            "{name}: {n} ranges are lost: reading them is an error until they are written again"
        ));
    }
    trouble_of_differing(group, lines);
}

/// What a scrub found and could not put right.
fn trouble_of_differing(group: &Group, lines: &mut Vec<String>) {
    if group.differing_blocks > 0 {
        lines.push(format!(
            "group {}: {} blocks differ between its drives, and no redundancy tells which is right: they are left as they are; restore \
             what lies there from a backup, then scrub again",
            group.name, group.differing_blocks
        ));
    }
}

fn trouble_of_pool(pool: &Pool, lines: &mut Vec<String>) {
    let used = pool.used_bytes as f64 * 100.0 / pool.size_bytes.max(1) as f64;
    let reached = match used {
        u if u >= f64::from(pool.critical_threshold_percent) => "critical: ",
        u if u >= f64::from(pool.soft_threshold_percent) => "",
        _ => return,
    };
    let free = format_bytes(pool.size_bytes.saturating_sub(pool.used_bytes));
    lines.push(format!("pool {}: {reached}{used:.1} % are used, {free} are free", pool.name));
}

pub(super) fn print(s: &Status) {
    let busy = |l: &admin::Load| format!("{:.0} %", 100.0 * l.busy_ms as f64 / l.up_ms.max(1) as f64);
    let busy = s.loads.iter().map(busy).collect::<Vec<_>>().join(", ");
    let up = time(s.uptime_s);
    println!("{}  masu {}, up {up}, {} controller(s), busy {busy}\n", s.target, s.version, s.controllers);
    let trouble = trouble(s);
    match trouble.is_empty() {
        true => println!("All is well.\n"),
        false => {
            println!("TROUBLE");
            trouble.iter().for_each(|line| println!("{line}"));
            println!();
        }
    }
    if !s.jobs.is_empty() {
        tables::jobs(s);
        println!();
    }
    if !s.images.is_empty() {
        image::images(s);
        println!();
    }
    for part in [tables::pools, tables::groups, tables::drives, tables::ports] {
        part(s);
        println!();
    }
    if let Some(line) = tables::unprotected(s) {
        println!("{line}\n");
    }
    tables::sessions(s);
    if !s.events.is_empty() {
        println!("\nEVENTS");
        s.events.iter().for_each(|e| println!("{e}"));
    }
}

/// Seconds for people: the two largest units.
fn time(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, m) => format!("{m} min {} s", seconds % 60),
        (0, h, m) => format!("{h} h {m} min"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use admin::{Member, Progress};

    use super::*;

    fn group(state: &str, rebuild: Option<Progress>, lost_ranges: usize) -> Group {
        let member = |position, drive: &str, state: &str, cause: Option<&str>| Member {
            position,
            drive: Some(drive.into()),
            state: state.into(),
            cause: cause.map(Into::into),
        };
        let second =
            if state == "optimal" { ("active", None) } else { ("failed", Some("the file was removed")) };
        Group {
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
            repairs: 0,
            foreground_share_percent: 70,
            class: String::new(),
        }
    }

    fn check(group: &Group, expected: &[&str]) {
        let mut lines = Vec::new();
        trouble_of_group(group, &mut lines);
        let text = lines.join("\n");
        assert_eq!(lines.is_empty(), expected.is_empty(), "{text}");
        expected.iter().for_each(|part| assert!(text.contains(part), "{text:?} does not say {part:?}"));
    }

    #[test]
    fn trouble_is_named_with_its_cause() {
        check(&group("optimal", None, 0), &[]);
        check(
            &group("degraded", None, 0),
            &[
                "group g0 (raid5) is degraded",
                "drive d1 is failed (the file was removed)",
                "no spare",
                "no further drive",
            ],
        );
        let progress = Progress { done_bytes: 43, total_bytes: 100 };
        check(&group("degraded", Some(progress), 0), &["rebuilding, 43 %"]);
        check(&group("optimal", None, 3), &["3 ranges are lost"]);
    }

    #[test]
    fn times_have_two_units() {
        assert_eq!(
            [time(7), time(61), time(3_700), time(200_000)],
            ["7 s", "1 min 1 s", "1 h 1 min", "2 d 7 h"]
        );
    }
}
