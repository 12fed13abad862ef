//! What the points of a run found: `points.json`. The same seed gives the same bytes; nothing here tells real
//! time.

use std::collections::BTreeMap;

use lab_core::record::Metric;
use serde::{Deserialize, Serialize};

pub use super::pattern::Pattern;
pub use super::takeover::{Disks, Load, Takeover, Way};

/// Where the servers' system disks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Four groups RAID5 (2D+1P), two LUs on each.
    Raid5x4,
    /// Eight groups RAID1, one LU on each.
    Raid1x8,
    /// A disk of its own in each server.
    Internal,
    /// Somebody's LUs, one for each server; what is behind them is not known.
    Given,
}

/// One pattern on one layout with so many servers, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Point {
    /// What the servers do.
    pub pattern: Pattern,
    pub layout: Layout,
    /// How many of them.
    pub servers: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// So many servers on each group; none: the groups in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packing: Vec<u32>,
    /// Each server has the share of the cache that it would have among so many; 0: among as many as there
    /// are.
    #[serde(default, skip_serializing_if = "is_zero", alias = "files_of")]
    pub share_of: u32,
    /// The first group had lost a drive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// The seed of this point.
    pub seed: u64,
    /// What each server got in all windows, server 0 first.
    pub per_server: Vec<ServerRate>,
    /// What was measured, window by window, after the warm-up.
    pub windows: Vec<Window>,
    /// Everything that can be the end of it, over all windows.
    pub resources: Vec<Resource>,
    /// Share of the reads that the controller's cache had; 0 where nothing was read.
    pub hit_share: f64,
    /// Virtual time that was cut off in front.
    pub warm_up_s: f64,
    /// Whether the warm-up ended by the rule, and not by its bound.
    pub settled: bool,
    /// Virtual time in all, warm-up and windows.
    pub virtual_s: f64,
    /// I/Os that the array, or the disk, did in it, those that filled its cache included.
    pub array_ios: u64,
}

fn is_zero(servers: &u32) -> bool {
    *servers == 0
}

/// What one server got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRate {
    /// I/Os per second.
    pub iops: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Response time, mean.
    pub response_ms_mean: f64,
    /// Response time, 99th percentile.
    pub response_ms_p99: f64,
}

/// A slice of the measured time. The vectors are in the order of the resources of their kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its length.
    pub seconds: f64,
    /// I/Os per second of all servers.
    pub iops: f64,
    /// Of each server.
    pub server_iops: Vec<f64>,
    /// Share of its cores' time that each controller worked.
    pub controller_busy: Vec<f64>,
    /// Share of the time that each port's busier direction carried something.
    pub port_busy: Vec<f64>,
    /// Data through all ports, both directions, 10^6 bytes per second.
    pub port_mb_per_s: f64,
    /// Share of the time that each drive worked.
    pub drive_busy: Vec<f64>,
    /// Requests at a drive, mean over time and drives.
    pub drive_queue_mean: f64,
    /// Share of the reads that the cache had.
    pub hit_share: f64,
    /// Share of the cache that is not on the drives yet, at the window's end.
    pub write_pending: f64,
}

/// What a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum ResourceKind {
    /// A controller: its cores.
    Controller,
    /// A direction of a port.
    Port,
    Drive,
    /// A RAID group: its drives together.
    Group,
    /// What a server itself needs for its I/Os, one after the other.
    Host,
}

/// Something that serves, over the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// As the scenario names it.
    pub name: String,
    /// What it is.
    pub kind: ResourceKind,
    /// How many serve in it side by side: cores, drives.
    pub units: u32,
    /// Share of their time that they worked.
    pub utilisation: f64,
    /// The running servers whose requests come here, from 0.
    pub used_by: Vec<u32>,
}

/// What the system disks of a boot storm are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A volume of its own for each server, with a copy of the image.
    Copies,
    /// Clones of a golden image: they share its pages.
    Clones,
    /// The same in pools of the larger pages that the array's other points have.
    LargePageClones,
}

impl Form {
    /// All, in the order of the figures.
    pub const ALL: [Form; 3] = [Form::Copies, Form::Clones, Form::LargePageClones];

    /// As a reader calls it.
    pub fn words(self) -> &'static str {
        match self {
            Form::Copies => "copies",
            Form::Clones => "clones",
            Form::LargePageClones => "clones of large pages",
        }
    }
}

/// So many servers that are switched on at once, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storm {
    /// Where their system disks are.
    pub layout: Layout,
    /// What these are.
    pub form: Form,
    /// How many of them.
    pub servers: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The seed of this storm.
    pub seed: u64,
    /// Seconds from power-on until the system of each server runs, server 0 first.
    pub up_s: Vec<f64>,
    /// Bytes that all servers read.
    pub read_bytes: u64,
    /// Their commands.
    pub commands: u64,
    /// Reads of the drives, those of read-ahead and of copies of pages included.
    pub drive_reads: u64,
    /// Bytes of these.
    pub drive_read_bytes: u64,
    /// Bytes that the drives wrote.
    pub drive_write_bytes: u64,
    /// Share of its cores' time that the controller worked, from power-on until the last boot ended.
    pub controller_busy: f64,
    /// Share of it that the port's busier direction carried something.
    pub port_busy: f64,
    /// Share of it that a drive worked, mean of all.
    pub drive_busy: f64,
}

/// All points of a run, and under which conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The product's version.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// `model` or `real`.
    pub world: String,
    /// The seed of the run; each point's is drawn from it.
    pub seed: u64,
    /// Whether it was the quick form.
    pub quick: bool,
    /// Whether the run was stopped before all points were done.
    pub stopped: bool,
    /// Inputs that the published experiment does not state, or that were calibrated: name, value, why.
    pub conditions: Vec<Condition>,
    /// In a fixed order: pattern, layout, servers, repeat.
    pub points: Vec<Point>,
    /// Few servers, but as many on a group as more servers would bring there: what a shared group does, for
    /// predictions.
    #[serde(default)]
    pub packed: Vec<Point>,
    /// The same as `points` and `packed`, with a drive of the first group lost: no forecast is made of them,
    /// only judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Point>,
    /// The same of patterns that the method of forecasts was not made with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_out: Vec<Point>,
    /// Servers that are switched on at once: layout, form, servers, repeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storms: Vec<Storm>,
    /// Controllers that go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takeovers: Vec<Takeover>,
    /// Of all the rest ([`lab_core::digest`]); none: of a run before points had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Results {
    /// What servers got, for a machine: a point's samples are its repeats, or, where it was run once, its
    /// windows.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut groups: BTreeMap<(&str, &str, u32), Vec<&Point>> = BTreeMap::new();
        for point in &self.points {
            groups.entry((point.pattern.name(), point.layout.name(), point.servers)).or_default().push(point);
        }
        let mut out = Vec::new();
        for ((pattern, layout, servers), points) in groups {
            let servers = format!("{servers:02} servers");
            let place = [("pattern", pattern), ("layout", layout), ("servers", servers.as_str())];
            let each = |of: fn(&Point) -> f64| points.iter().map(|point| of(point)).collect::<Vec<f64>>();
            let iops = match &points[..] {
                [one] => one.windows.iter().map(|w| w.iops).collect(),
                _ => each(|point| point.per_server.iter().map(|server| server.iops).sum()),
            };
            let response = each(|point| {
                let all = point.per_server.iter().map(|s| s.response_ms_mean).sum::<f64>();
                all / point.per_server.len().max(1) as f64
            });
            out.extend([
                Metric::new("iops", "1/s", &place, iops),
                Metric::new("response_mean", "ms", &place, response),
                Metric::new("hit_share", "", &place, each(|point| point.hit_share)),
            ]);
        }
        out.extend(self.storm_metrics());
        out
    }

    /// The results of the array that had lost a drive, alone.
    pub(super) fn with_a_drive_lost(&self) -> Results {
        let (points, packed) = self.lost.iter().cloned().partition(|point| point.packing.is_empty());
        Results {
            points,
            packed,
            lost: vec![],
            held_out: vec![],
            storms: vec![],
            takeovers: vec![],
            ..self.clone()
        }
    }

    /// The results of patterns that the method of forecasts was not made with, alone.
    pub(super) fn of_patterns_held_out(&self) -> Results {
        let (points, packed) = self.held_out.iter().cloned().partition(|point| point.packing.is_empty());
        Results { points, packed, held_out: vec![], ..self.with_a_drive_lost() }
    }

    /// Of each storm when its last server runs.
    fn storm_metrics(&self) -> Vec<Metric> {
        let mut groups: BTreeMap<(&str, &str, u32), Vec<f64>> = BTreeMap::new();
        for storm in &self.storms {
            let place = (storm.layout.name(), storm.form.words(), storm.servers);
            groups.entry(place).or_default().push(storm.up_s.iter().copied().fold(0.0, f64::max));
        }
        let metric = |((layout, form, servers), last): ((&str, &str, u32), Vec<f64>)| {
            let servers = format!("{servers:02} servers");
            Metric::new("boot", "s", &[("layout", layout), ("form", form), ("servers", &servers)], last)
        };
        groups.into_iter().map(metric).collect()
    }
}

/// An input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Its key in the scenario.
    pub name: String,
    /// Its value, with unit.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}

/// Where an input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The published experiment states it.
    Published,
    /// It was chosen; a sensible range is tried.
    Chosen,
    /// It was set so that a published absolute value comes out.
    Calibrated,
}

impl Layout {
    /// All, in the order of the figures.
    pub const ALL: [Layout; 4] = [Layout::Raid5x4, Layout::Raid1x8, Layout::Internal, Layout::Given];
    /// Those that are modelled.
    pub const MODELLED: [Layout; 3] = [Layout::Raid5x4, Layout::Raid1x8, Layout::Internal];

    /// As it is called in files.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Raid5x4 => "raid5x4",
            Layout::Raid1x8 => "raid1x8",
            Layout::Internal => "internal",
            Layout::Given => "given",
        }
    }
}
