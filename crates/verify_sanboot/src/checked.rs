//! What `points.json` may say: what a run writes, and nothing that contradicts itself. A forecast from points
//! that somebody changed would be no forecast of what was measured.

use std::collections::BTreeSet;

use lab_core::digest;

use super::results::{Load, Point, Results, Storm, Takeover, Window};

/// The most servers of a point.
const SERVERS_MAX: u32 = 1 << 10;
/// Shares are quotients of what was counted.
const SHARE_MAX: f64 = 1.01;
/// How busy something was: of real things it is a sum of times that were measured one after the other.
const BUSY_MAX: f64 = 2.0;
/// Numbers of a rate: more than any array does, and few enough to be shown.
const RATE_MAX: f64 = 1e12;
/// What a sum of the servers' rates may be off.
const SUM_OFF: f64 = 1e-3;

impl Results {
    /// The points with their digest, as they are written.
    #[must_use]
    pub(super) fn sealed(self) -> Results {
        let unsealed = Results { digest: None, ..self };
        let digest = digest::digest(&unsealed).ok();
        Results { digest, ..unsealed }
    }

    /// Reads `points.json`.
    ///
    /// # Errors
    ///
    /// It is something else, contradicts itself, or was changed after the run.
    pub fn read(text: &str) -> Result<Results, String> {
        let mut read: Results =
            serde_json::from_str(text).map_err(|e| format!("not points of verify sanboot: {e}"))?;
        let of_points =
            read.points.iter().chain(&read.packed).chain(&read.lost).chain(&read.held_out).find_map(fault);
        let of_storms = || read.storms.iter().find_map(fault_of_storm);
        let of_takeovers = || read.takeovers.iter().find_map(fault_of_takeover);
        if let Some(fault) =
            of_points.or_else(|| twice(&read.points)).or_else(of_storms).or_else(of_takeovers)
        {
            return Err(format!("{fault}; it is not as a run wrote it: take it from a copy, or run again"));
        }
        let Some(is) = read.digest.take() else { return Ok(read) };
        let read = read.sealed();
        match read.digest.as_ref() == Some(&is) {
            true => Ok(read),
            false => Err("was changed after the run wrote it: take it from a copy, or run again".into()),
        }
    }
}

/// A point that is counted twice makes an interval narrower than what was measured.
fn twice(points: &[Point]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let key =
        |point: &Point| (point.pattern.name(), point.layout.name(), point.servers, point.repeat, point.seed);
    let again = points.iter().find(|point| !seen.insert(key(point)))?;
    let (pattern, layout, servers, repeat, _) = key(again);
    Some(format!("the point {pattern}, {layout}, {servers} servers stands there twice (repeat {repeat})"))
}

/// What no run gives of a boot storm.
fn fault_of_storm(storm: &Storm) -> Option<String> {
    let is_rate = |rate: f64| (0.0..=RATE_MAX).contains(&rate);
    let busy = [storm.controller_busy, storm.port_busy, storm.drive_busy];
    let is_whole = (1..=SERVERS_MAX).contains(&storm.servers)
        && storm.up_s.len() == storm.servers as usize
        && storm.up_s.iter().all(|s| is_rate(*s))
        && busy.iter().all(|share| (0.0..=BUSY_MAX).contains(share));
    let place = || format!("{}, {}, {} servers", storm.layout.name(), storm.form.words(), storm.servers);
    (!is_whole).then(|| format!("the boot storm {}: a time or a share is not in its range", place()))
}

/// What no run gives of a controller that goes.
fn fault_of_takeover(one: &Takeover) -> Option<String> {
    let is_rate = |rate: &f64| (0.0..=RATE_MAX).contains(rate);
    let is_load = |load: &Load| {
        let busy = load.controller_busy.iter().chain(&load.port_busy).chain(&load.drive_busy);
        load.server_iops.len() == one.servers as usize
            && load.iops.iter().chain(&load.server_iops).all(is_rate)
            && busy.into_iter().all(|share| (0.0..=BUSY_MAX).contains(share))
    };
    let times = [one.gap_before_s, one.gap_s, one.gap_other_s, one.changed_s];
    let is_whole = (1..=SERVERS_MAX).contains(&one.servers)
        && [&one.before, &one.after].into_iter().all(is_load)
        && times.iter().chain(one.bins.iter().flatten()).all(is_rate)
        && one.bins[0].len() == one.bins[1].len();
    let place = || format!("{}, {}, {} servers", one.pattern.name(), one.way.words(), one.servers);
    (!is_whole)
        .then(|| format!("the controller that goes, {}: a time or a share is not in its range", place()))
}

/// The first thing of a point that no run gives.
fn fault(point: &Point) -> Option<String> {
    let of = |what: &str| {
        let (pattern, layout) = (point.pattern.name(), point.layout.name());
        Some(format!("the point {pattern}, {layout}, {} servers: {what}", point.servers))
    };
    let servers = point.servers as usize;
    let is_rate = |rate: f64| (0.0..=RATE_MAX).contains(&rate);
    let is_share = |share: f64| (0.0..=SHARE_MAX).contains(&share);
    let is_busy = |share: f64| (0.0..=BUSY_MAX).contains(&share);
    if !(1..=SERVERS_MAX).contains(&point.servers) || point.per_server.len() != servers {
        return of("must have the rates of as many servers, 1 to 1024");
    }
    let rates = |n: usize| {
        let rate = &point.per_server[n];
        [rate.iops, rate.mb_per_s, rate.response_ms_mean, rate.response_ms_p99]
    };
    if (0..servers).flat_map(rates).any(|rate| !is_rate(rate)) || !is_share(point.hit_share) {
        return of("a rate, a time or a share of hits is not in its range");
    }
    if ![point.warm_up_s, point.virtual_s].into_iter().all(is_rate) {
        return of("a time is not in its range");
    }
    if point
        .resources
        .iter()
        .any(|r| !is_busy(r.utilisation) || r.used_by.iter().any(|s| *s >= point.servers))
    {
        return of("the utilisation of a resource is not a share, or a server uses it that does not run");
    }
    let lists = |w: &Window| [w.controller_busy.len(), w.port_busy.len(), w.drive_busy.len()];
    let first = point.windows.first().map(lists);
    for window in &point.windows {
        let busy = window.controller_busy.iter().chain(&window.port_busy).chain(&window.drive_busy);
        let rates =
            window.server_iops.iter().chain([&window.iops, &window.port_mb_per_s, &window.drive_queue_mean]);
        if window.seconds.is_nan() || window.seconds <= 0.0 || window.seconds > RATE_MAX {
            return of("a window has no time");
        }
        if !busy.copied().all(is_busy)
            || ![window.hit_share, window.write_pending].into_iter().all(is_share)
            || !rates.copied().all(is_rate)
        {
            return of("a number of a window is not a share or a rate");
        }
        if Some(lists(window)) != first || window.server_iops.len() != servers {
            return of("windows have other servers, controllers, ports or drives");
        }
        let sum: f64 = window.server_iops.iter().sum();
        if (sum - window.iops).abs() > SUM_OFF * window.iops.max(1.0) {
            return of("the I/Os of the servers of a window are not those of the window");
        }
    }
    None
}
