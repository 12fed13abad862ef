//! What the facts about a machine and an array mean: ok, a warning or a problem, and what to do. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use admin::{DriveHealth, Status, Trouble};
use config::format_bytes;
use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Ok,
    Warning,
    Problem,
}

/// What was looked at, what is there, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) subject: String,
    pub(crate) level: Level,
    pub(crate) text: String,
    pub(crate) to_do: Option<String>,
}

impl Finding {
    pub(crate) fn ok(subject: &str, text: impl Into<String>) -> Finding {
        Finding { subject: subject.into(), level: Level::Ok, text: text.into(), to_do: None }
    }

    /// Nothing is wrong, and something could be better.
    pub(crate) fn hint(subject: &str, text: impl Into<String>, to_do: &str) -> Finding {
        Finding { to_do: Some(to_do.into()), ..Finding::ok(subject, text) }
    }

    pub(crate) fn warning(subject: &str, text: impl Into<String>, to_do: &str) -> Finding {
        let to_do = Some(to_do.into());
        Finding { subject: subject.into(), level: Level::Warning, text: text.into(), to_do }
    }

    pub(crate) fn problem(subject: &str, text: impl Into<String>, to_do: &str) -> Finding {
        let to_do = Some(to_do.into());
        Finding { subject: subject.into(), level: Level::Problem, text: text.into(), to_do }
    }
}

/// Descriptors: one for each session, drive, image and client, and a few for each controller.
const NOFILE_MIN: u64 = 4096;

/// The kernel, and whether it gives this user a ring.
pub(super) fn io_uring(release: &str, disabled: Option<&str>, ring: Result<(), String>) -> Finding {
    let subject = "io_uring";
    let setting = match disabled.map(str::trim) {
        Some("1") => "; kernel.io_uring_disabled is 1: only for privileged users and kernel.io_uring_group",
        Some("2") => "; kernel.io_uring_disabled is 2: for nobody",
        _ => "",
    };
    match ring {
        Ok(()) => Finding::ok(subject, format!("Linux {release} gives this user a ring{setting}")),
        Err(cause) => Finding::problem(
            subject,
            format!("Linux {release} refuses a ring: {cause}{setting}"),
            "set kernel.io_uring_disabled to 0 (sysctl -w), and allow io_uring in the container's seccomp profile",
        ),
    }
}

/// The limit of open files: masu raises the soft one to the hard one by itself.
pub(super) fn nofile(hard: Option<u64>) -> Finding {
    match hard {
        Some(limit) if limit < NOFILE_MIN => Finding::warning(
            "open files",
            format!("at most {limit}; sessions, drives, images and clients need one each"),
            "raise the hard limit to 4096 or more (LimitNOFILE= of the unit, ulimit -Hn)",
        ),
        Some(limit) => Finding::ok("open files", format!("at most {limit}")),
        None => Finding::ok("open files", "no limit"),
    }
}

/// Locked memory: rings of kernels before 5.12 are charged to it.
pub(super) fn memlock(release: &str, hard: Option<u64>) -> Finding {
    const ENOUGH: u64 = 8 << 20;
    let subject = "locked memory";
    let shown = hard.map_or("no limit".into(), |limit| format!("at most {}", format_bytes(limit)));
    match hard {
        Some(limit) if limit < ENOUGH && is_before(release, (5, 12)) => Finding::warning(
            subject,
            format!("{shown}; rings of Linux {release} are charged to it"),
            "raise it to 8 MiB or more (LimitMEMLOCK= of the unit, ulimit -Hl), or use Linux 5.12 or newer",
        ),
        _ => Finding::ok(subject, shown),
    }
}

fn is_before(release: &str, than: (u32, u32)) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < than
}

/// The clock source: a slow one, or one that is read with a system call, costs time in every command.
pub(super) fn clock(source: Option<&str>) -> Finding {
    let subject = "clock source";
    match source.map(str::trim) {
        Some(source @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "xen")) => Finding::warning(
            subject,
            format!("{source}: every reading is a system call or slower"),
            "find out why the kernel does not use tsc (dmesg), or boot with clocksource=tsc",
        ),
        Some(source) => Finding::ok(subject, source),
        None => Finding::warning(subject, "not known: sysfs does not tell", "mount /sys"),
    }
}

/// Where a drive's data go.
#[derive(Clone, Debug, Default)]
pub(super) struct DriveFacts {
    pub(super) name: String,
    /// What is at its path; an error if it cannot be looked at.
    pub(super) error: Option<String>,
    /// `write back` or `write through`, as the kernel has it of the device below.
    pub(super) write_cache: Option<String>,
    /// A file system in memory, whose content a power failure takes.
    pub(super) is_in_memory: bool,
    /// The file system below a file drive, its free space, and what the file may still grow, in bytes.
    pub(super) below: Option<Below>,
}

#[derive(Clone, Debug)]
pub(super) struct Below {
    pub(super) device: u64,
    pub(super) free_bytes: u64,
    pub(super) growth_bytes: u64,
}

pub(super) fn drive(facts: &DriveFacts) -> Finding {
    let subject = format!("drive {}", facts.name);
    if let Some(cause) = &facts.error {
        return Finding::problem(
            &subject,
            cause.clone(),
            "connect the drive, or replace it (masu group replace)",
        );
    }
    if facts.is_in_memory {
        let text = "a file in memory (tmpfs): a power failure takes it";
        return Finding::warning(&subject, text, "move the file to a file system on a device");
    }
    match facts.write_cache.as_deref().map(str::trim) {
        Some("write back") => {
            Finding::ok(&subject, "volatile write cache; masu flushes it before a write counts as durable")
        }
        Some("write through") => Finding::ok(&subject, "no volatile write cache"),
        Some(other) => Finding::ok(&subject, format!("write cache: {other}")),
        None => Finding::warning(
            &subject,
            "write cache not known: the kernel names no device below it",
            "make sure that what is below it honours flushes",
        ),
    }
}

/// Free space below the file drives, each file system once.
pub(super) fn space(drives: &[DriveFacts]) -> Vec<Finding> {
    let mut systems: BTreeMap<u64, (u64, u64, Vec<&str>)> = BTreeMap::new();
    for facts in drives {
        if let Some(below) = &facts.below {
            let entry = systems.entry(below.device).or_insert((below.free_bytes, 0, Vec::new()));
            entry.1 = entry.1.saturating_add(below.growth_bytes);
            entry.2.push(&facts.name);
        }
    }
    systems.into_values().map(|(free, growth, names)| of_system(free, growth, &names)).collect()
}

fn of_system(free: u64, growth: u64, names: &[&str]) -> Finding {
    let subject = match names {
        [one] => format!("space below {one}"),
        [first, rest @ ..] => format!("space below {first} +{}", rest.len()),
        [] => "space".into(),
    };
    let text = format!("{} free; the files may grow by {}", format_bytes(free), format_bytes(growth));
    match growth > free {
        true => Finding::warning(
            &subject,
            format!("{text}: writes fail when it is full"),
            "free space on the file system below, before the pool needs it",
        ),
        false => Finding::ok(&subject, text),
    }
}

/// The MTU of the interface of a portal.
pub(super) fn mtu(listen: &str, interface: &str, mtu: u32) -> Finding {
    /// The least that IPv6 allows (RFC 8200, 5), and a sign of a tunnel below 1500.
    const USUAL: u32 = 1500;
    let subject = format!("portal {listen}");
    let text = format!("{interface} has an MTU of {mtu}");
    match mtu {
        0..USUAL => Finding::warning(
            &subject,
            format!("{text}: a tunnel, or set so"),
            "set an MTU of 1500, or 9000 along the whole way to the hosts",
        ),
        USUAL if !interface.starts_with("lo") => {
            Finding::ok(&subject, format!("{text}; 9000 along the whole way saves processor time"))
        }
        _ => Finding::ok(&subject, text),
    }
}

/// The program that reads the health of block devices; an array serves without it.
pub(super) fn smartctl(program: Option<&Path>) -> Finding {
    match program {
        Some(program) => {
            let text = format!("{} reads health, temperature and wear of block devices", program.display());
            Finding::ok("smartctl", text)
        }
        None => Finding::hint(
            "smartctl",
            "not installed: health, temperature and wear of block devices are not known",
            "install smartmontools",
        ),
    }
}

/// What a block device reports about itself, or why it reports nothing.
pub(super) fn health(drive: &str, read: Result<&DriveHealth, &str>) -> Finding {
    let subject = format!("health of {drive}");
    match read {
        Ok(health) if health.assessment.as_deref() == Some("failing") => Finding::warning(
            &subject,
            "reports that it is failing (SMART): it may lose data or stop at any time",
            "replace it: masu group replace GROUP OLD NEW",
        ),
        Ok(health) => Finding::ok(&subject, health.text()),
        Err(cause) => Finding::hint(
            &subject,
            format!("not known: {cause}"),
            "if it is a SATA, SAS or NVMe drive, smartctl may lack capabilities: docs/operation.md, Health of drives",
        ),
    }
}

/// The certificate of the API of an array that does not run.
pub(super) fn certificate(path: &Path, end_s: Result<Option<u64>, String>, now_s: u64) -> Option<Finding> {
    let subject = "api";
    match end_s {
        Ok(end_s) => Some(match admin::trouble_of_end(end_s?, now_s) {
            Some(trouble) => of_trouble(&trouble),
            None => {
                let days = end_s?.saturating_sub(now_s) / 86_400;
                Finding::ok(subject, format!("the certificate {} is valid for {days} days", path.display()))
            }
        }),
        Err(cause) => Some(Finding::warning(
            subject,
            format!("its certificate cannot be read: {cause}"),
            "look as root, or put a certificate (PEM) there",
        )),
    }
}

fn of_trouble(trouble: &Trouble) -> Finding {
    let (subject, text) = (&trouble.object, trouble.text.clone());
    match trouble.severity.as_str() {
        "error" => Finding::problem(subject, text, &trouble.to_do),
        _ => Finding::warning(subject, text, &trouble.to_do),
    }
}

/// How near to full a pool may be before it is a finding, beside its thresholds.
pub(super) fn array(status: &Status) -> Vec<Finding> {
    let mut findings: Vec<Finding> = status.trouble.iter().map(of_trouble).collect();
    let share = |p: &admin::Pool| p.used_bytes as f64 / p.size_bytes.max(1) as f64;
    let fullest = status.pools.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    findings.extend(fullest.map(|pool| {
        let text = format!(
            "nearest to full: {:.1} % used, {} free, {} promised",
            100.0 * share(pool),
            format_bytes(pool.size_bytes.saturating_sub(pool.used_bytes)),
            format_bytes(pool.promised_bytes)
        );
        Finding::ok(&format!("pool {}", pool.name), text)
    }));
    let fragile = status.groups.iter().filter(|group| group.tolerates == 0);
    findings.extend(fragile.map(|group| {
        Finding::warning(
            &format!("group {}", group.name),
            format!("{}, {}: the next failed drive loses data", group.level, group.state),
            match group.state.as_str() {
                "degraded" => "add a spare (masu drive create), or replace the drive (masu group replace)",
                _ => "use a level with redundancy for data that must survive a drive",
            },
        )
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_decides_and_the_setting_explains() {
        assert_eq!(io_uring("6.1.0", Some("1\n"), Ok(())).level, Level::Ok);
        let refused = io_uring("6.6.1", Some("2\n"), Err("Operation not permitted".into()));
        assert!(refused.level == Level::Problem && refused.text.contains("is 2"), "{}", refused.text);
        assert_eq!(io_uring("5.4.0", None, Err("no".into())).level, Level::Problem);
    }

    #[test]
    fn limits_and_clocks_are_judged() {
        assert_eq!(
            [nofile(Some(1024)).level, nofile(Some(1 << 20)).level, nofile(None).level],
            [Level::Warning, Level::Ok, Level::Ok]
        );
        assert_eq!(memlock("5.10.0-21-amd64", Some(65_536)).level, Level::Warning);
        assert_eq!(memlock("6.1.0", Some(65_536)).level, Level::Ok);
        assert_eq!(
            [clock(Some("tsc\n")).level, clock(Some("hpet\n")).level, clock(None).level],
            [Level::Ok, Level::Warning, Level::Warning]
        );
    }

    #[test]
    fn a_certificate_is_judged_by_its_end() {
        let (now_s, path) = (1_800_000_000, Path::new("api.cert.pem"));
        let check = |end_s, level: Level, said: &str| {
            let found = certificate(path, end_s, now_s).expect("a finding");
            assert!(found.level == level && found.text.contains(said), "{found:?}");
        };
        check(Ok(Some(now_s + 31 * 86_400)), Level::Ok, "api.cert.pem is valid for 31 days");
        check(Ok(Some(now_s + 30 * 86_400)), Level::Warning, "expires in 30 days");
        check(Ok(Some(now_s)), Level::Problem, "has expired");
        check(Err("permission denied".into()), Level::Warning, "cannot be read: permission denied");
        assert_eq!(certificate(path, Ok(None), now_s), None);
    }

    #[test]
    fn health_that_is_not_known_is_a_hint_and_a_failing_drive_a_warning() {
        let with = |assessment: &str| DriveHealth {
            assessment: Some(assessment.into()),
            temperature_celsius: Some(41),
            ..DriveHealth::default()
        };
        let passed = health("d0", Ok(&with("passed")));
        assert_eq!((passed.level, passed.text.as_str()), (Level::Ok, "passed, 41 °C"));
        assert_eq!(health("d0", Ok(&with("failing"))).level, Level::Warning);
        for hint in [health("d0", Err("Permission denied")), smartctl(None)] {
            assert!(hint.level == Level::Ok && hint.to_do.is_some(), "{hint:?}");
        }
        assert!(health("d0", Err("Permission denied")).text.contains("not known: Permission denied"));
        assert_eq!(smartctl(Some(Path::new("/usr/sbin/smartctl"))).to_do, None);
    }

    #[test]
    fn files_on_one_file_system_share_its_space() {
        let file = |name: &str, device, growth_bytes| DriveFacts {
            name: name.into(),
            below: Some(Below { device, free_bytes: 100, growth_bytes }),
            ..DriveFacts::default()
        };
        let found = space(&[file("a", 1, 60), file("b", 1, 60), file("c", 2, 100)]);
        assert_eq!(found.iter().map(|f| f.level).collect::<Vec<_>>(), [Level::Warning, Level::Ok]);
        assert_eq!(found[0].subject, "space below a +1");
    }

    #[test]
    fn drives_are_judged_by_what_is_below_them() {
        let with = |cache: Option<&str>| DriveFacts {
            name: "d".into(),
            write_cache: cache.map(Into::into),
            ..DriveFacts::default()
        };
        assert_eq!(drive(&with(Some("write back\n"))).level, Level::Ok);
        assert_eq!(drive(&with(None)).level, Level::Warning);
        assert_eq!(
            drive(&DriveFacts { is_in_memory: true, ..with(Some("write back")) }).level,
            Level::Warning
        );
        assert_eq!(drive(&DriveFacts { error: Some("gone".into()), ..with(None) }).level, Level::Problem);
        assert_eq!([mtu("a", "eth0", 1400).level, mtu("a", "eth0", 1500).level], [Level::Warning, Level::Ok]);
    }
}
