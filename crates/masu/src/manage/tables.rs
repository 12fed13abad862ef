//! Output tables.

use admin::{Group, Mapping, Pool, Progress, Status, Volume};
use config::format_bytes;

use super::follow::percent;
use super::policy;
use crate::table;

fn share(part: u64, of: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / of.max(1) as f64)
}

fn done(progress: Option<Progress>) -> Option<String> {
    progress.map(|p| format!("{} %", percent(p)))
}

/// State and running work.
fn group_state(g: &Group) -> String {
    match (done(g.rebuild), done(g.scrub)) {
        (Some(part), _) => format!("{}, rebuilding {part}", g.state),
        (None, Some(part)) => format!("{}, scrubbing {part}", g.state),
        (None, None) => g.state.clone(),
    }
}

pub(super) fn groups(s: &Status) {
    let row = |g: &Group| {
        let state = group_state(g);
        vec![
            g.name.clone(),
            g.level.clone(),
            state,
            g.tolerates.to_string(),
            format_bytes(g.size_bytes),
            g.drives.join(" "),
        ]
    };
    let header = ["group", "level", "state", "may fail", "size", "drives"];
    table::print(&header, &["may fail", "size"], s.groups.iter().map(row).collect(), "no groups");
}

pub(super) fn group(s: &Status, g: &Group) {
    println!(
        "group {}: {}, {}, {}, class {}",
        g.name,
        g.level,
        group_state(g),
        format_bytes(g.size_bytes),
        g.class
    );
    println!("drive failures tolerated: {}", g.tolerates);
    println!("hosts keep {} % of the time during a rebuild or scrub", g.foreground_share_percent);
    if g.differing_blocks > 0 {
        println!("blocks that differ between drives since the last scrub: {}", g.differing_blocks);
    }
    if g.lost_ranges > 0 {
        println!("lost ranges (unreadable until written again): {}", g.lost_ranges);
    }
    if g.repairs > 0 {
        println!("blocks repaired since the start: {}", g.repairs);
    }
    println!();
    let row = |m: &admin::Member| {
        let drive = m.drive.clone().unwrap_or_default();
        let known = s.drives.iter().find(|d| d.name == drive);
        vec![
            m.position.to_string(),
            drive.clone(),
            if m.slow { format!("{}, silent", m.state) } else { m.state.clone() },
            known.map(|d| format_bytes(d.size_bytes)).unwrap_or_default(),
            m.p99_us.map(|us| format!("{:.1} ms", us as f64 / 1000.0)).unwrap_or_default(),
            m.errors.to_string(),
            m.silences.to_string(),
            known.map(|d| d.medium.clone()).unwrap_or_default(),
            m.cause.clone().unwrap_or_default(),
        ]
    };
    let header =
        ["position", "drive", "state", "size", "99th percentile", "errors", "unanswered", "medium", "cause"];
    let numeric = ["position", "size", "99th percentile", "errors", "unanswered"];
    table::print(&header, &numeric, g.members.iter().map(row).collect(), "no drives");
}

pub(super) fn drives(s: &Status) {
    let row = |d: &admin::Drive| {
        vec![
            d.name.clone(),
            d.group.clone().unwrap_or_else(|| "-".into()),
            d.state.clone(),
            format_bytes(d.size_bytes),
            d.reads.to_string(),
            d.writes.to_string(),
            d.flushes.to_string(),
            d.medium.clone(),
        ]
    };
    let header = ["drive", "group", "state", "size", "reads", "writes", "flushes", "medium"];
    let numeric = ["size", "reads", "writes", "flushes"];
    table::print(&header, &numeric, s.drives.iter().map(row).collect(), "no drives");
}

pub(super) fn jobs(s: &Status) {
    let row = |j: &admin::Job| {
        let of = match j.progress.total_bytes {
            0 => String::new(),
            total => format_bytes(total),
        };
        vec![j.kind.clone(), j.object.clone(), done(Some(j.progress)).unwrap_or_default(), of]
    };
    table::print(&["work", "on", "done", "of"], &["done", "of"], s.jobs.iter().map(row).collect(), "no work");
}

pub(super) fn pools(s: &Status) {
    let row = |p: &Pool| {
        vec![
            p.name.clone(),
            p.groups.join(" "),
            format_bytes(p.size_bytes),
            format_bytes(p.used_bytes),
            share(p.used_bytes, p.size_bytes),
            format_bytes(p.promised_bytes),
            format!("{} %, {} %", p.soft_threshold_percent, p.critical_threshold_percent),
            format_bytes(p.page_bytes),
        ]
    };
    let header = ["pool", "groups", "size", "used", "share", "promised", "warns at", "page"];
    let numeric = ["size", "used", "share", "promised", "warns at", "page"];
    table::print(&header, &numeric, s.pools.iter().map(row).collect(), "no pools");
}

pub(super) fn pool(s: &Status, p: &Pool) {
    println!(
        "pool {}: {}, {} used ({}), pages of {}",
        p.name,
        format_bytes(p.size_bytes),
        format_bytes(p.used_bytes),
        share(p.used_bytes, p.size_bytes),
        format_bytes(p.page_bytes)
    );
    println!("warns at {} % and {} %\n", p.soft_threshold_percent, p.critical_threshold_percent);
    let row = |g: &admin::PoolGroup| {
        let known = s.groups.iter().find(|known| known.name == g.name);
        vec![
            g.name.clone(),
            known.map(|known| known.level.clone()).unwrap_or_default(),
            format_bytes(g.size_bytes),
            format_bytes(g.used_bytes),
            share(g.used_bytes, g.size_bytes),
            if g.evacuating { "leaving".into() } else { known.map(group_state).unwrap_or_default() },
        ]
    };
    let header = ["group", "level", "size", "used", "share", "state"];
    table::print(&header, &["size", "used", "share"], p.group_spaces.iter().map(row).collect(), "no groups");
    println!();
    print_volumes(s.volumes.iter().filter(|v| v.pool == p.name), s);
}

pub(super) fn volumes(s: &Status) {
    print_volumes(s.volumes.iter(), s);
}

/// The mappings of a volume or an image.
pub(super) fn seen_by(mapped_to: &[Mapping]) -> String {
    let seen: Vec<String> = mapped_to.iter().map(|m| format!("{}:{}", m.host, m.lun)).collect();
    seen.join(" ")
}

/// The volumes, and a footer per pool: exclusive space and shared space, counted once, add up to the used
/// space.
fn print_volumes<'a>(volumes: impl Iterator<Item = &'a Volume>, s: &Status) {
    let volumes: Vec<&Volume> = volumes.collect();
    let row = |v: &&Volume| {
        let c = &v.counters;
        vec![
            v.name.clone(),
            v.pool.clone(),
            v.provisioning.clone(),
            v.snapshot_of.clone().unwrap_or_else(|| "-".into()),
            format_bytes(v.size_bytes),
            format_bytes(v.used_bytes),
            format_bytes(v.exclusive_bytes),
            format_bytes(v.shared_bytes),
            seen_by(&v.mapped_to),
            policy::of(&v.qos),
            c.commands.to_string(),
            format_bytes(c.zeroed_bytes),
            format_bytes(c.shared_bytes),
            format_bytes(c.moved_bytes),
            format_bytes(c.reclaimed_bytes),
        ]
    };
    let header = [
        "volume",
        "pool",
        "type",
        "snapshot of",
        "size",
        "used",
        "exclusive",
        "shared",
        "host:lun",
        "policy",
        "commands",
        "zeroed",
        "cloned",
        "moved",
        "reclaimed",
    ];
    let numeric =
        ["size", "used", "exclusive", "shared", "commands", "zeroed", "cloned", "moved", "reclaimed"];
    let empty = "no volumes; create one with masu volume create NAME --size 10GiB";
    table::print(&header, &numeric, volumes.iter().map(row).collect(), empty);
    for pool in s.pools.iter().filter(|p| volumes.iter().any(|v| v.pool == p.name)) {
        println!("\n{}", sums(pool, s));
    }
}

/// The usage of a pool's volumes, whose sum is the pool's usage.
fn sums(pool: &Pool, s: &Status) -> String {
    let own = || s.volumes.iter().filter(|v| v.pool == pool.name);
    let exclusive: u64 = own().map(|v| v.exclusive_bytes).sum();
    // Shared pages are in several volumes and on the drives once: what the pool uses beyond the exclusive
    // ones.
    let shared = pool.used_bytes.saturating_sub(exclusive);
    format!(
        "pool {}: {} exclusive + {} shared (counted once) = {} used of {}",
        pool.name,
        format_bytes(exclusive),
        format_bytes(shared),
        format_bytes(pool.used_bytes),
        format_bytes(pool.size_bytes)
    )
}

pub(super) fn ports(s: &Status) {
    let row = |p: &admin::Port| {
        vec![
            p.listen.to_string(),
            p.portal_group.to_string(),
            p.controller.to_string(),
            p.sessions.to_string(),
            p.commands.to_string(),
            format_bytes(p.bytes_in),
            format_bytes(p.bytes_out),
        ]
    };
    let header = ["port", "group", "controller", "sessions", "commands", "in", "out"];
    let numeric = ["group", "controller", "sessions", "commands", "in", "out"];
    table::print(&header, &numeric, s.ports.iter().map(row).collect(), "no ports");
}

pub(super) fn sessions(s: &Status) {
    let row = |x: &admin::Session| {
        vec![
            x.host.clone(),
            x.initiator.clone(),
            x.isid.clone(),
            x.commands.to_string(),
            format_bytes(x.bytes),
        ]
    };
    let header = ["host", "initiator", "isid", "commands", "bytes"];
    table::print(&header, &["commands", "bytes"], s.sessions.iter().map(row).collect(), "no sessions");
}

fn host_row(h: &admin::Host) -> Vec<String> {
    let luns: Vec<String> = h.luns.iter().map(|l| format!("{}={}", l.lun, l.volume)).collect();
    vec![h.name.clone(), h.initiator.clone(), authentication(h), luns.join(" ")]
}

/// A host without a secret is unprotected: any initiator with its name is this host.
fn authentication(h: &admin::Host) -> String {
    if h.authentication == "none" { "none: UNPROTECTED".into() } else { h.authentication.clone() }
}

const HOST_HEADER: [&str; 4] = ["host", "initiator", "authentication", "luns"];

pub(super) fn hosts(s: &Status) {
    let rows = s.hosts.iter().map(host_row).collect();
    table::print(&HOST_HEADER, &[], rows, "no hosts; declare one with masu host set NAME IQN");
}

pub(super) fn host(h: &admin::Host) {
    table::print(&HOST_HEADER, &[], vec![host_row(h)], "");
}

/// Limit of unprotected hosts named in the status.
const UNPROTECTED_SHOWN: usize = 8;

/// The hosts without a secret, in one line; none if all have one.
pub(super) fn unprotected(s: &Status) -> Option<String> {
    let open = s.hosts.iter().filter(|h| h.authentication == "none");
    let names: Vec<String> = open.map(|h| format!("{} ({})", h.name, h.initiator)).collect();
    let text = "unprotected (no CHAP; any initiator with the name is the host): ";
    let more = match names.len().saturating_sub(UNPROTECTED_SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more: masu host list"),
    };
    let shown = names[..names.len().min(UNPROTECTED_SHOWN)].join(", ");
    (!names.is_empty()).then(|| format!("{text}{shown}{more}"))
}
