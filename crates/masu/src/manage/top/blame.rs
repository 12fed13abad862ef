//! What holds a host up: a policy, a scheduler, a drive, a controller, or nothing. Pure.
//!
//! ```text
//!   host ──> its LUs ──QoS──> their pools ──> groups ──> drives
//! ```
//! The array measures the wait for a turn by LU, and the layers below by pool, group and drive: what is said
//! of those holds for all hosts that use them.

use std::collections::BTreeSet;

use admin::{Host, Status};

use super::sample::{Between, Use};

/// From this share of the time of its commands on, a wait is what holds a host up.
const SHARE_MIN: f64 = 0.5;
/// A drive that has so many requests at once, on average, makes others wait.
const AT_ONCE_MIN: f64 = 1.0;
/// A controller that is so busy makes commands wait for it.
const BUSY_MIN: f64 = 0.9;

/// What a host's LUs have waited for their turn, as a share of the time of their commands.
pub(super) fn qos_share(host: &Host, between: &Between) -> f64 {
    let of = |lun: &admin::HostLun| between.lus.get(&lun.volume);
    let lus = || host.luns.iter().filter_map(of);
    let all: f64 = lus().map(|lu| lu.at_once).sum();
    let waited: f64 = lus().map(|lu| lu.at_once * lu.qos_share).sum();
    if all > 0.0 { waited / all } else { 0.0 }
}

/// What holds a host up; nothing when it does nothing, or nothing stands out.
pub(super) fn held_up_by(host: &Host, used: &Use, status: &Status, between: &Between) -> Option<String> {
    if used.latency.operations() == 0 {
        return None;
    }
    let pools = pools_of(host, status);
    silent_drive(&pools, status)
        .or_else(|| turn(host, status, between))
        .or_else(|| port(used, between))
        .or_else(|| drive(&pools, status, between))
        .or_else(|| controller(between))
}

/// The pools of a host's LUs.
fn pools_of<'a>(host: &Host, status: &'a Status) -> BTreeSet<&'a str> {
    let seen: BTreeSet<&str> = host.luns.iter().map(|lun| lun.volume.as_str()).collect();
    let volumes = status.volumes.iter().filter(|volume| seen.contains(volume.name.as_str()));
    volumes.map(|volume| volume.pool.as_str()).collect()
}

/// The drives below these pools, with whether they are silent now.
fn members<'a>(pools: &BTreeSet<&str>, status: &'a Status) -> Vec<(&'a str, bool)> {
    let groups: BTreeSet<&str> = status
        .pools
        .iter()
        .filter(|pool| pools.contains(pool.name.as_str()))
        .flat_map(|pool| pool.groups.iter().map(String::as_str))
        .collect();
    let groups = status.groups.iter().filter(|group| groups.contains(group.name.as_str()));
    groups.flat_map(|g| g.members.iter().filter_map(|m| Some((m.drive.as_deref()?, m.slow)))).collect()
}

fn silent_drive(pools: &BTreeSet<&str>, status: &Status) -> Option<String> {
    let (name, _) = members(pools, status).into_iter().find(|(_, is_silent)| *is_silent)?;
    Some(format!("drive {name}: does not answer"))
}

/// The LU that waited most for its turn, and for what.
fn turn(host: &Host, status: &Status, between: &Between) -> Option<String> {
    let share = qos_share(host, between);
    if share < SHARE_MIN {
        return None;
    }
    let waited = |name: &str| between.lus.get(name).map_or(0.0, |lu| lu.at_once * lu.qos_share);
    let names = host.luns.iter().map(|lun| lun.volume.as_str());
    let name = names.max_by(|a, b| waited(a).total_cmp(&waited(b)))?;
    let volume = status.volumes.iter().find(|volume| volume.name == name);
    let image = status.images.iter().find(|image| image.name == name);
    let policy = volume.map(|v| &v.qos).or(image.map(|i| &i.qos)).and_then(|qos| qos.policy.as_deref());
    let policy = policy.and_then(|name| status.policies.iter().find(|policy| policy.name == name));
    let percent = share * 100.0;
    Some(match policy {
        Some(p) if p.maximum_iops.is_some() || p.bandwidth_bytes_per_s.is_some() => {
            format!("policy {}: {percent:.0} % of the time, its maximum or others' turns", p.name)
        }
        _ => match volume {
            Some(volume) => format!("QoS of pool {}: {percent:.0} %, others' turns", volume.pool),
            None => format!("QoS of images: {percent:.0} %, others' turns"),
        },
    })
}

/// Commands that wait at a port for their data or for memory, about as long as they then take.
fn port(used: &Use, between: &Between) -> Option<String> {
    let (waits, takes) = (between.stage("port").mean_us()?, used.mean_us()?);
    (waits >= takes * SHARE_MIN / (1.0 - SHARE_MIN)).then(|| "port: data or memory of commands".into())
}

/// The drive that has the most requests at once.
fn drive(pools: &BTreeSet<&str>, status: &Status, between: &Between) -> Option<String> {
    let of = |(name, _): (&'_ str, bool)| (name.to_owned(), between.of("drive", name));
    let drives = members(pools, status).into_iter().map(of);
    let (name, used) = drives.max_by(|a, b| a.1.at_once.total_cmp(&b.1.at_once))?;
    let ms = used.mean_us()? / 1e3;
    (used.at_once >= AT_ONCE_MIN)
        .then(|| format!("drive {name}: {:.1} requests at once, {ms:.1} ms each", used.at_once))
}

fn controller(between: &Between) -> Option<String> {
    let (number, busy) = between.controllers.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    (*busy >= BUSY_MIN).then(|| format!("controller {number}: {:.0} % busy", busy * 100.0))
}
