//! Pools: their room, and writes that fail.

use array::Severity;
use config::format_bytes;
use status::{Pool, Status, Trouble};

use super::drives::{named, with_medium};
use super::told::trouble;

/// A pool that will be full by then is told: a week, in which drives can be had.
const FULL_SOON_S: u64 = 7 * 86_400;

/// Writes that a drive refuses: which one, of which group, and what it is.
pub(super) fn of_refused_writes(pool: &Pool, status: &Status, all: &mut Vec<Trouble>) {
    let Some(cause) = &pool.refused_writes else { return };
    let (which, to_do) = match with_medium(pool.refusing_medium.as_ref(), status) {
        Some(drive) => {
            let group = drive.group.as_deref().unwrap_or("GROUP");
            let to_do = format!(
                "look at the drive, its cable and what is below it; copy what is on the pool away, if the group has no \
                 redundancy: masu group show {group}"
            );
            (format!("; it is {} of group {group}", named(drive)), to_do)
        }
        None => (String::new(), "see which drive that is, and look at it: masu group show GROUP".into()),
    };
    let text = format!("writes of hosts fail: {cause}{which}");
    all.push(trouble(Severity::Error, format!("pool {}", pool.name), "writes", text, to_do));
}

pub(super) fn of_pool(pool: &Pool, all: &mut Vec<Trouble>) {
    if let Some(cause) = &pool.no_room {
        let text = format!("cannot be written: {cause}");
        let to_do = "make room in the file system below that drive: hosts go on then";
        all.push(trouble(Severity::Error, format!("pool {}", pool.name), "room", text, to_do));
    }
    let used = pool.used_bytes as f64 * 100.0 / pool.size_bytes.max(1) as f64;
    let severity = match used {
        u if u >= f64::from(pool.critical_threshold_percent) => Severity::Error,
        u if u >= f64::from(pool.soft_threshold_percent) => Severity::Warning,
        _ => return of_filling(pool, all),
    };
    let free = format_bytes(pool.size_bytes.saturating_sub(pool.used_bytes));
    let text = format!("{used:.1} % are used, {free} are free; when it is full, writes are refused");
    let to_do = "add a group (masu pool add-group), or free space (masu volume reclaim, delete)";
    all.push(trouble(severity, format!("pool {}", pool.name), "threshold", text, to_do));
}

/// Below its thresholds, a pool that will be full soon.
fn of_filling(pool: &Pool, all: &mut Vec<Trouble>) {
    let Some(hours) = pool.full_in_s.filter(|left| *left < FULL_SOON_S).map(|left| left / 3600) else {
        return;
    };
    let left = if hours < 48 { format!("{hours} hours") } else { format!("{} days", hours / 24) };
    let text = format!("will be full in {left} if it goes on filling as it does; then writes are refused");
    let to_do = "add a group (masu pool add-group), or free space (masu volume reclaim, delete)";
    all.push(trouble(Severity::Warning, format!("pool {}", pool.name), "filling", text, to_do));
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, group};
    use super::*;
    use status::Drive;

    #[test]
    fn a_pool_that_will_be_full_within_a_week_is_told_unless_it_is_above_a_threshold() {
        let of = |used_bytes, full_in_s| {
            let thresholds = (80, 95);
            let pool = Pool {
                name: "p0".into(),
                size_bytes: 100,
                used_bytes,
                full_in_s,
                soft_threshold_percent: thresholds.0,
                critical_threshold_percent: thresholds.1,
                ..Pool::default()
            };
            let mut all = vec![];
            of_pool(&pool, &mut all);
            all.into_iter().map(|t| (t.kind, t.text)).collect::<Vec<_>>()
        };
        let told = of(10, Some(3 * 86_400 + 5));
        assert_eq!(told.len(), 1);
        assert!(told[0].0 == "filling" && told[0].1.contains("full in 3 days"), "{told:?}");
        assert!(of(10, Some(86_400))[0].1.contains("full in 24 hours"));
        assert_eq!((of(10, Some(FULL_SOON_S)), of(10, None)), (vec![], vec![]));
        assert_eq!(of(85, Some(86_400)).first().map(|t| t.0.as_str()), Some("threshold"));
    }

    #[test]
    fn writes_that_a_drive_refuses_are_told_with_the_drive() {
        let mut status = group("optimal", None, 0);
        status.drives = vec![Drive {
            name: "d0".into(),
            medium: "/dev/sdb".into(),
            identity: Some("wwid: naa.5".into()),
            group: Some("g0".into()),
            ..Drive::default()
        }];
        let mut other = status.drives[0].clone();
        (other.name, other.medium) = ("d1".into(), "/dev/sd".into());
        // The path of another drive is in the words of the error, too.
        status.drives.insert(0, other);
        let cause = "unrecoverable read error at byte 0: drive /dev/sdb: medium error at byte 8192";
        status.pools = vec![Pool {
            name: "p".into(),
            size_bytes: 100,
            soft_threshold_percent: 80,
            critical_threshold_percent: 95,
            refused_writes: Some(cause.into()),
            refusing_medium: Some("/dev/sdb".into()),
            ..Pool::default()
        }];
        check(
            &status,
            "error",
            &[
                "pool p: writes of hosts fail: ",
                "it is drive d0 (/dev/sdb, wwid: naa.5) of group g0",
                "group show g0",
            ],
        );
        status.pools[0].refused_writes = Some("device failed: no drive".into());
        status.pools[0].refusing_medium = None;
        check(&status, "error", &["see which drive that is"]);
    }
}
