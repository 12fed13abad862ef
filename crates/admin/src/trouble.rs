//! What is wrong: one pure function says it of a status, for `masu status`, the metrics and the events.

use std::collections::BTreeMap;

use array::{Event, Severity};

use config::format_bytes;
use status::{Drive, Group, Image, Journal, Member, Missing, Pool, Refusals, Status, Trouble};

/// Strangers that are named.
const STRANGERS_MAX: usize = 8;
/// Undeclared volumes that are named.
const UNDECLARED_MAX: usize = 8;
/// A drive whose 99th percentile is so many times that of the others of its group is told.
const SLOW_FACTOR: u64 = 10;
/// A pool that will be full by then is told: a week, in which drives can be had.
const FULL_SOON_S: u64 = 7 * 86_400;
const TO_REPLACE: &str = "masu group replace GROUP OLD NEW, or add a spare: masu drive spare NAME PATH";

/// Everything that is wrong with an array. `since_ms` is not known here: [`Tracker`] has it.
pub(crate) fn trouble_of(status: &Status) -> Vec<Trouble> {
    let mut all = Vec::new();
    status.missing.iter().for_each(|missing| of_missing(missing, status, &mut all));
    status.groups.iter().for_each(|group| of_group(group, &lost_of(&group.name, status), &mut all));
    status.pools.iter().for_each(|pool| of_refused_writes(pool, status, &mut all));
    status.pools.iter().for_each(|pool| of_pool(pool, &mut all));
    status.images.iter().for_each(|image| of_image(image, &mut all));
    status.drives.iter().for_each(|drive| of_drive(drive, &mut all));
    for cache in status.caches.iter().filter(|c| c.second.as_ref().is_some_and(|s| s.failed)) {
        let object = format!("controller {}", cache.controller);
        let drive = cache.second.as_ref().and_then(|second| second.drive.as_deref());
        let which = drive.map_or(String::new(), |name| format!(", {}", drive_of(name, status)));
        let text = format!(
            "the SSD behind its cache{which} has refused a read or a write, and is off: reads that it held come from the drives"
        );
        all.push(trouble(Severity::Warning, object, "ssd", text, "exchange the SSD and restart the array"));
    }
    status.caches.iter().flat_map(|cache| &cache.journals).for_each(|of| of_journal(of, status, &mut all));
    for below in &status.below_minimum {
        let text = format!("gets less than its policy promises: {}", below.text);
        let to_do = "lower other minimums, or add drives to the pool: masu policy list";
        all.push(trouble(Severity::Warning, below.object.clone(), "minimum", text, to_do));
    }
    if let Some(failover) = status.failover.as_ref().filter(|failover| failover.successors.is_empty()) {
        let to_do = match &failover.fault {
            Some(_) => "repair the registry while this node serves: docs/cluster.md, \"How to lose data\"",
            None => "start another node, or see why it does not join: masu node list",
        };
        all.push(trouble(Severity::Warning, "array", "failover", failover.text.clone(), to_do));
    }
    of_refused(&status.refused, &mut all);
    of_undeclared(&status.undeclared, &mut all);
    let unfinished = status.unfinished.iter();
    all.extend(unfinished.map(|(object, text, to_do)| {
        trouble(Severity::Error, object.clone(), "unfinished", text.clone(), to_do.clone())
    }));
    all.extend(status.state_fault.as_ref().map(|(cause, differs)| of_state(cause, *differs)));
    all
}

/// What cannot be opened, and how it comes back.
fn of_missing(missing: &Missing, status: &Status, all: &mut Vec<Trouble>) {
    let object = format!("{} {}", missing.kind, missing.name);
    let to_do = match missing.kind.as_str() {
        "volume" if missing.cause.starts_with(array::VOLUME_LOST) => {
            format!("restore its pool as it was; or give it up: masu volume delete {}", missing.name)
        }
        "volume" if missing.cause.contains(" is full") || missing.cause.contains("no room") => {
            format!(
                "make room, then it is tried again; or give it up: masu volume delete {}",
                missing.name
            )
        }
        _ if missing.cause.contains(array::NO_ROOM) => {
            "make room in the file system of the file that this names (df FILE): it is tried again by itself, and \
             until then hosts do not find its volumes"
                .to_owned()
        }
        "volume" if missing.cause.ends_with("is not open") => "see its pool: it comes with that".to_owned(),
        "pool" if missing.cause.contains(array::DECLARE_JOURNAL) => {
            "write that line into the table of the pool, as masu config export prints it, and apply it: masu \
             config import FILE; it is served then by itself"
                .to_owned()
        }
        "pool" if missing.cause.contains(array::GIVE_UP_JOURNAL) => {
            "bring back the drives of the journal, and it is served by itself; or do as that says: masu config \
             import FILE"
                .to_owned()
        }
        _ => "bring back what it lies on: the array opens it then by itself".to_owned(),
    };
    let lost = match missing.kind.as_str() {
        "group" => lost_of(&missing.name, status),
        _ => String::new(),
    };
    let text = format!("is not served: {}{lost}", missing.cause);
    all.push(trouble(Severity::Error, object, "missing", text, to_do));
}

/// Volumes that no host can have, as far as they are named.
fn of_undeclared(undeclared: &[(String, String)], all: &mut Vec<Trouble>) {
    for (pool, name) in undeclared.iter().take(UNDECLARED_MAX) {
        let text = format!("is in pool {pool} with its data, and no declaration has it: it takes space");
        let to_do = format!(
            "to have it as it is, add a [[volume]] with name = \"{name}\", pool = \"{pool}\" and its size to what masu \
             config export prints, and apply that: masu config import FILE; or delete it: masu volume delete {name}"
        );
        all.push(trouble(Severity::Warning, format!("volume {name}"), "undeclared", text, to_do));
    }
    if let Some(more) = undeclared.len().checked_sub(UNDECLARED_MAX).filter(|more| *more > 0) {
        let text = format!("{more} more volumes are in its pools, and no declaration has them");
        all.push(trouble(Severity::Warning, "array", "undeclared", text, "see masu check DATA"));
    }
}

/// A state that cannot be saved.
fn of_state(cause: &str, differs: bool) -> Trouble {
    let what = match differs {
        true => {
            "; what is stored is a change that was refused, or an older state: the next start would take that"
        }
        false => ": changes are refused",
    };
    let to_do = "make room for the data directory, or repair its file system: it is tried again by itself";
    trouble(Severity::Error, "array", "state", format!("the state cannot be saved ({cause}){what}"), to_do)
}

/// A declaration that is not as the array stands, and why.
pub(crate) fn trouble_of_following(fault: &str) -> Trouble {
    let text =
        format!("a spare was taken, a drive replaced or a group has left, which cannot be declared: {fault}");
    trouble(
        Severity::Warning,
        "array",
        "following",
        text,
        "repair what that says: it is tried again by itself",
    )
}

/// A declaration that is not in force, and why.
pub(crate) fn trouble_of_declaration(fault: &str) -> Trouble {
    let text = format!("serves its previous configuration, for its declaration cannot be applied: {fault}");
    let to_do = "repair the declaration, and send SIGHUP to masu serve: masu config diff FILE shows what is not in force";
    trouble(Severity::Error, "array", "declaration", text, to_do)
}

/// The worst first; of one severity in the order in which they were found.
pub(crate) fn sort(all: &mut [Trouble]) {
    all.sort_by_key(|t| t.severity != "error");
}

pub(crate) fn trouble(
    severity: Severity,
    object: impl Into<String>,
    kind: &str,
    text: impl Into<String>,
    to_do: impl Into<String>,
) -> Trouble {
    Trouble {
        severity: severity.name().into(),
        object: object.into(),
        kind: kind.into(),
        text: text.into(),
        to_do: to_do.into(),
        since_ms: 0,
    }
}

/// Where the drives of a group were that it has not: who looks for one needs more than its name.
fn lost_of(group: &str, status: &Status) -> String {
    let is_away = |d: &&Drive| {
        d.group.as_deref() == Some(group) && matches!(d.state.as_str(), "missing" | "failed" | "stale")
    };
    let was = |drive: &Drive| {
        let identity = drive.identity.as_ref().map_or(String::new(), |of| format!(" ({of})"));
        format!("; drive {} was {}{identity}", drive.name, drive.medium)
    };
    status.drives.iter().filter(is_away).map(was).collect()
}

fn of_group(group: &Group, lost: &str, all: &mut Vec<Trouble>) {
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

fn away(member: &status::Member) -> String {
    let position = || format!("position {}", member.position);
    let drive = member.drive.as_deref().map_or_else(position, |d| format!("drive {d}"));
    let cause = member.cause.as_deref().map_or(String::new(), |cause| format!(" ({cause})"));
    format!("{drive} is {}{cause}", member.state)
}

/// A journal whose drives refuse writes: which ones, and what they are.
fn of_journal(journal: &Journal, status: &Status, all: &mut Vec<Trouble>) {
    let Some(cause) = &journal.failure else { return };
    let (pool, group) = (&journal.pool, &journal.group);
    let own = status.drives.iter().filter(|d| d.group.as_ref() == Some(group));
    let named: Vec<&Drive> = own.clone().filter(|d| cause.contains(&d.medium)).collect();
    let which: Vec<String> = match named.is_empty() {
        true => own.map(|drive| drive_of(&drive.name, status)).collect(),
        false => named.iter().map(|drive| drive_of(&drive.name, status)).collect(),
    };
    let text =
        format!("writes of hosts fail: its journal on group {group} fails ({cause}); {}", which.join(", "));
    let to_do = format!(
        "look at the drive, its cable and what is below it, and stop the array in order: that writes what only the \
         journal has to the pool; a journal on another drive: journal = GROUP in the table of pool {pool}"
    );
    all.push(trouble(Severity::Error, format!("pool {pool}"), "journal", text, to_do));
}

/// A drive as somebody looks for it.
fn drive_of(name: &str, status: &Status) -> String {
    let Some(drive) = status.drives.iter().find(|d| d.name == name) else { return format!("drive {name}") };
    let identity = drive.identity.as_ref().map_or(String::new(), |of| format!(", {of}"));
    format!("drive {name} ({}{identity})", drive.medium)
}

/// Writes that a drive refuses: which one, of which group, and what it is.
fn of_refused_writes(pool: &Pool, status: &Status, all: &mut Vec<Trouble>) {
    let Some(cause) = &pool.refused_writes else { return };
    let of = status.drives.iter().find(|d| cause.contains(&format!("drive {}", d.medium)));
    let (which, to_do) = match of {
        Some(drive) => {
            let identity = drive.identity.as_ref().map_or(String::new(), |of| format!(", {of}"));
            let group = drive.group.as_deref().unwrap_or("GROUP");
            let which = format!("; it is drive {} ({}{identity}) of group {group}", drive.name, drive.medium);
            (
                which,
                format!(
                    "look at the drive, its cable and what is below it; copy what is on the pool away, if the group has no redundancy: masu group show {group}"
                ),
            )
        }
        None => (String::new(), "see which drive that is, and look at it: masu group show GROUP".into()),
    };
    let text = format!("writes of hosts fail: {cause}{which}");
    all.push(trouble(Severity::Error, format!("pool {}", pool.name), "writes", text, to_do));
}

fn of_pool(pool: &Pool, all: &mut Vec<Trouble>) {
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

fn of_image(image: &Image, all: &mut Vec<Trouble>) {
    if let Some(text) = &image.trouble {
        let (severity, to_do) = match text.starts_with("read-only while its file") {
            true => (Severity::Error, format!("put {} back as it was; hosts write again then", image.file)),
            false => {
                (Severity::Warning, format!("make room, or look at {} with masu vdisk check", image.file))
            }
        };
        all.push(trouble(severity, format!("image {}", image.name), "image", text.clone(), to_do));
    }
    let Some(error) = &image.error else { return };
    let text = format!("is not served: {error}");
    // What is wrong with the file of a raw image comes with what to do.
    let (text, to_do) = match text.split_once("; put the file back") {
        Some((what, to_do)) => (what.to_owned(), format!("put the file back{to_do}")),
        None if error.ends_with("no such file") => {
            (text, format!("bring {} back, then restart the array", image.file))
        }
        None => (text, format!("mend {} (masu vdisk check), then restart the array", image.file)),
    };
    all.push(trouble(Severity::Error, format!("image {}", image.name), "unopened", text, to_do));
}

/// Drives in a group are told with the group.
fn of_drive(drive: &Drive, all: &mut Vec<Trouble>) {
    let (kind, text, to_do) = match (drive.state.as_str(), &drive.fault) {
        ("spare", Some(fault)) => (
            "spare",
            format!("{fault}: it is a spare that no group can take"),
            "bring the spare of this array back, or take it out: masu drive forget NAME",
        ),
        ("replaced", _) => (
            "replaced",
            "was replaced, and has no place any more".to_owned(),
            "wait until its group has let it go, then take it out: masu drive forget NAME",
        ),
        _ => return,
    };
    all.push(trouble(Severity::Warning, format!("drive {}", drive.name), kind, text, to_do));
}

/// What admits a declared host whose login was answered with this status (RFC 7143 11.13.5).
fn to_admit(status: Option<u16>) -> &'static str {
    match status {
        Some(0x0201 | 0x0202) => {
            "compare its CHAP name and secret (masu host set); if it is another machine, find it by its address"
        }
        Some(0x0203) => "give it the target name that masu status prints in its first line",
        Some(0x0206 | 0x020a) => "let it log in with one connection for each session, as new sessions",
        Some(0x0301) => "wait until the array serves; if it does, see masu events",
        Some(0x0302) => {
            "end sessions that it does not need (masu status lists them), or let it use fewer paths; the limits are in \
             docs/iscsi.md"
        }
        Some(_) => "see docs/iscsi.md for what logins must ask for, and whether its initiator is set so",
        None => "see what connects from its address and does not log in: masu events",
    }
}

/// Declared hosts each; of strangers, whose names may be made up, a few.
fn of_refused(refused: &[Refusals], all: &mut Vec<Trouble>) {
    let (hosts, strangers): (Vec<_>, Vec<_>) = refused.iter().partition(|r| r.is_host);
    let mut tell = |r: &Refusals, to_do: &str| {
        let text = format!("is refused again and again, {} times; the last: {}", r.logins, r.text);
        all.push(trouble(Severity::Warning, r.object.clone(), "refused", text, to_do));
    };
    hosts.iter().for_each(|host| tell(host, to_admit(host.login_status)));
    let to_do = "declare it if it is yours: masu host set NAME INITIATOR; otherwise see where it comes from";
    strangers.iter().take(STRANGERS_MAX).for_each(|stranger| tell(stranger, to_do));
    if let Some(more) = strangers.len().checked_sub(STRANGERS_MAX).filter(|more| *more > 0) {
        let text = format!("{more} more initiators that no host has are refused again and again");
        all.push(trouble(
            Severity::Warning,
            "array",
            "refused",
            text,
            "see where they come from: masu events",
        ));
    }
}

/// Remembers since when something is wrong, and tells what begins and what ends.
#[derive(Default)]
pub(crate) struct Tracker {
    since_ms: BTreeMap<(String, String), (u64, Trouble)>,
}

impl Tracker {
    /// Puts to each trouble since when it is there; gives the events of what began and ended.
    pub(crate) fn track(&mut self, all: &mut [Trouble], now_ms: u64) -> Vec<Event> {
        let mut events = Vec::new();
        let key = |t: &Trouble| (t.object.clone(), t.kind.clone());
        let mut next = BTreeMap::new();
        for trouble in all.iter_mut() {
            let before = self.since_ms.get(&key(trouble));
            trouble.since_ms = before.map_or(now_ms, |(since, _)| *since);
            if before.is_none_or(|(_, before)| before.severity != trouble.severity) {
                let severity = if trouble.severity == "error" { Severity::Error } else { Severity::Warning };
                events.push(Event::new(severity, &trouble.object, format!("trouble: {}", trouble.text)));
            }
            next.insert(key(trouble), (trouble.since_ms, trouble.clone()));
        }
        let over = self.since_ms.iter().filter(|(key, _)| !next.contains_key(*key));
        for (_, (_, trouble)) in over {
            events.push(Event::info(&trouble.object, format!("trouble is over: {}", trouble.text)));
        }
        self.since_ms = next;
        events
    }

    /// The same without telling: for a status that is asked for between two looks.
    pub(crate) fn date(&self, all: &mut [Trouble], now_ms: u64) {
        for trouble in all {
            let known = self.since_ms.get(&(trouble.object.clone(), trouble.kind.clone()));
            trouble.since_ms = known.map_or(now_ms, |(since, _)| *since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use status::Progress;

    fn group(state: &str, rebuild: Option<Progress>, lost_ranges: usize) -> Status {
        let mut status =
            crate::convert::status_of(&array::Config::empty("iqn.2026-11.net.example:x"), vec![], 0);
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
        let second =
            if state == "optimal" { ("active", None) } else { ("failed", Some("the file was removed")) };
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

    /// The advice was to bring back what the pool lies on, and nothing was missing.
    #[test]
    fn a_pool_without_its_declared_journal_is_told_how_to_declare_it() {
        let mut status = group("optimal", None, 0);
        let missing = |cause: String| {
            vec![status::Missing {
                kind: "pool".into(),
                name: "p".into(),
                cause: format!("it lacks it{cause}"),
            }]
        };
        status.missing = missing(format!(": {} = \"j\"", array::DECLARE_JOURNAL));
        check(&status, "error", &["write that line into the table of the pool", "masu config import FILE"]);
        status.missing = missing(format!("; {} = \"00\" serves it", array::GIVE_UP_JOURNAL));
        check(&status, "error", &["bring back the drives of the journal", "masu config import FILE"]);
    }

    #[test]
    fn what_is_not_stored_not_declared_or_has_no_room_is_trouble() {
        let mut status = group("optimal", None, 0);
        status.undeclared = vec![("p".into(), "u".into())];
        check(
            &status,
            "warning",
            &[
                "volume u: is in pool p with its data",
                "pool = \"p\"",
                "masu config export",
                "masu volume delete u",
            ],
        );
        status.undeclared = vec![];
        status.state_fault = Some(("the disk is full".into(), false));
        check(&status, "error", &["the state cannot be saved (the disk is full): changes are refused"]);
        status.state_fault = Some(("the disk is full".into(), true));
        check(&status, "error", &["the next start would take that"]);
        status.state_fault = None;
        status.unfinished = vec![("pool p".into(), "its export was interrupted".into(), "bring back".into())];
        check(&status, "error", &["pool p: its export was interrupted", "bring back"]);
        status.unfinished = vec![];
        let lost = format!("{} \"p\", where it was created earlier", array::VOLUME_LOST);
        let missing = |kind: &str, cause: &str| {
            vec![status::Missing { kind: kind.into(), name: "v".into(), cause: cause.into() }]
        };
        status.missing = missing("volume", &lost);
        check(&status, "error", &["give it up: masu volume delete v"]);
        status.missing = missing("volume", "pool p is full");
        check(&status, "error", &["make room"]);
        status.missing = missing("group", "too few drives");
        check(&status, "error", &["bring back what it lies on"]);
    }

    fn check(status: &Status, severity: &str, expected: &[&str]) {
        let all = trouble_of(status);
        assert_eq!(all.len(), usize::from(!expected.is_empty()), "{all:?}");
        for one in &all {
            let line = format!("{}: {} -> {}", one.object, one.text, one.to_do);
            assert_eq!(one.severity, severity, "{line}");
            expected.iter().for_each(|part| assert!(line.contains(part), "{line:?} does not say {part:?}"));
        }
    }

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
        status.missing =
            vec![status::Missing { kind: "group".into(), name: "g0".into(), cause: "too few".into() }];
        check(&status, "error", &["is not served: too few; drive d1 was /dev/d1"]);
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
        let cause = "unrecoverable read error at byte 0: drive /dev/sdb: medium error at byte 8192";
        status.pools = vec![Pool {
            name: "p".into(),
            size_bytes: 100,
            soft_threshold_percent: 80,
            critical_threshold_percent: 95,
            refused_writes: Some(cause.into()),
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
        check(&status, "error", &["see which drive that is"]);
    }

    #[test]
    fn drives_of_a_journal_or_a_cache_that_refuse_writes_are_trouble() {
        let mut status = group("optimal", None, 0);
        let drive = |name: &str, group: Option<&str>| Drive {
            name: name.into(),
            medium: format!("/dev/{name}"),
            identity: Some("wwid: naa.7".into()),
            group: group.map(Into::into),
            ..Drive::default()
        };
        status.drives = vec![drive("d0", Some("j")), drive("d1", Some("j")), drive("ssd", None)];
        let json = r#"{"controller": 0, "memory_bytes": 0, "used_bytes": 0, "pending_bytes": 0, "pending_percent": 0,
            "waits": 0, "evictions": 0, "volumes": [],
            "second": {"size_bytes": 0, "used_bytes": 0, "hits": 0, "misses": 0, "written_bytes": 0, "failed": true,
                "drive": "ssd"},
            "journals": [{"pool": "p", "group": "j", "failure": "the journal failed: drive /dev/d1: medium error",
                "records": 0, "commits": 0, "bytes": 0, "live_bytes": 0, "size_bytes": 0}]}"#;
        status.caches = vec![serde_json::from_str(json).expect("a cache")];
        let mut all = trouble_of(&status);
        sort(&mut all);
        let lines: Vec<String> =
            all.iter().map(|t| format!("{}: {} -> {}", t.object, t.text, t.to_do)).collect();
        for part in [
            "pool p: writes of hosts fail: its journal on group j",
            "drive d1 (/dev/d1, wwid: naa.7)",
            "stop",
        ] {
            assert!(lines[0].contains(part) && !lines[0].contains("drive d0"), "{part}: {lines:?}");
        }
        assert!(lines[1].contains("behind its cache, drive ssd (/dev/ssd, wwid: naa.7)"), "{lines:?}");
    }

    #[test]
    fn a_spare_that_no_group_can_take_is_trouble() {
        let mut config = array::Config::empty("iqn.2026-11.net.example:x");
        let spec = array::DriveSpec::Device { path: "/dev/sdx".into() };
        config.drives = vec![config::DriveConfig { name: "s0".into(), spec }];
        let mut status = crate::convert::status_of(&config, vec![], 0);
        status.drives[0].state = "spare".into();
        check(&status, "", &[]);
        status.drives[0].fault = Some("cannot be opened (no such device)".into());
        let told =
            ["drive s0: cannot be opened (no such device): it is a spare that no group can take", "forget"];
        check(&status, "warning", &told);
    }

    #[test]
    fn who_is_refused_again_and_again_is_trouble_and_strangers_are_bounded() {
        let mut status = group("optimal", None, 0);
        let refused = |object: &str, is_host| Refusals {
            object: object.into(),
            is_host,
            logins: 5,
            login_status: Some(0x0201),
            text: "a login from 10.0.0.1 at 10.0.0.9:3260 was refused: wrong".into(),
        };
        status.refused = vec![refused("host h", true)];
        let expected =
            ["host h: is refused again and again, 5 times", "from 10.0.0.1", "CHAP name and secret"];
        check(&status, "warning", &expected);
        // It has too many sessions.
        status.refused[0].login_status = Some(0x0302);
        let told = trouble_of(&status).remove(0).to_do;
        assert!(told.contains("end sessions") && !told.contains("CHAP"), "{told}");
        status.refused[0].login_status = None;
        assert!(!trouble_of(&status)[0].to_do.contains("CHAP"));
        let strangers = (0..STRANGERS_MAX + 3).map(|n| refused(&format!("initiator {n}"), false));
        status.refused.splice(0..0, strangers);
        let all = trouble_of(&status);
        assert_eq!(all.len(), STRANGERS_MAX + 2);
        assert_eq!(all[0].object, "host h", "no stranger hides a host");
        let rest = all.last().map(|t| (t.object.as_str(), t.text.as_str()));
        assert_eq!(rest, Some(("array", "3 more initiators that no host has are refused again and again")));
    }

    #[test]
    fn trouble_is_told_once_when_it_begins_and_once_when_it_ends() {
        let mut tracker = Tracker::default();
        let mut at = |status: &Status, now_ms| {
            let mut all = trouble_of(status);
            let events = tracker.track(&mut all, now_ms);
            (events.iter().map(ToString::to_string).collect::<Vec<_>>(), all.first().map(|t| t.since_ms))
        };
        let (events, since) = at(&group("degraded", None, 0), 1000);
        assert!(events.len() == 1 && events[0].starts_with("group g0: trouble: degraded"), "{events:?}");
        assert_eq!(since, Some(1000));
        // Its rebuild makes progress: it is the same trouble.
        let progress = Progress { done_bytes: 43, total_bytes: 100 };
        assert_eq!(at(&group("degraded", Some(progress), 0), 2000), (vec![], Some(1000)));
        // It becomes worse: that is news.
        assert_eq!(at(&group("failed", None, 0), 3000).0.len(), 1);
        let (events, since) = at(&group("optimal", None, 0), 4000);
        assert!(events.len() == 1 && events[0].contains("trouble is over"), "{events:?}");
        assert_eq!(since, None);
    }
}
