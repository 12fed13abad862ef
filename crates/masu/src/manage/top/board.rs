//! What each tab shows: columns and rows of values. Pure.

use std::collections::BTreeMap;

use admin::{Pool, Status};
use clap::ValueEnum;
use config::format_bytes;

use super::blame::{held_up_by, qos_share};
use super::sample::{Between, Use};

/// A tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Tab {
    Waits,
    Hosts,
    Lus,
    Pools,
    Drives,
}

impl Tab {
    pub(super) const ALL: [Tab; 5] = [Tab::Waits, Tab::Hosts, Tab::Lus, Tab::Pools, Tab::Drives];

    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Waits => "Waits",
            Tab::Hosts => "Hosts",
            Tab::Lus => "LUs",
            Tab::Pools => "Pools",
            Tab::Drives => "Drives",
        }
    }

    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Tab::Waits => WAITS,
            Tab::Hosts => HOSTS,
            Tab::Lus => LUS,
            Tab::Pools => POOLS,
            Tab::Drives => DRIVES,
        }
    }

    /// The rows, in the order of the array: the stages from the port down, the others by name.
    pub(super) fn rows(self, status: &Status, between: &Between) -> Vec<Row> {
        match self {
            Tab::Waits => waits(between),
            Tab::Hosts => hosts(status, between),
            Tab::Lus => lus(status, between),
            Tab::Pools => pools(status, between),
            Tab::Drives => drives(status, between),
        }
    }
}

/// What the numbers of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Per second, or a count.
    Number,
    BytesPerSecond,
    Micros,
    /// Of 1.
    Share,
}

/// A column of a tab.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) kind: Kind,
}

const fn column(title: &'static str, kind: Kind) -> Column {
    Column { title, kind }
}

const WAITS: &[Column] = &[
    column("STAGE", Kind::Text),
    column("OPS/S", Kind::Number),
    column("MEAN", Kind::Micros),
    column("MEDIAN", Kind::Micros),
    column("99 %", Kind::Micros),
    column("AT ONCE", Kind::Number),
    column("MOST OF IT IN", Kind::Text),
];

const HOSTS: &[Column] = &[
    column("HOST", Kind::Text),
    column("IOPS", Kind::Number),
    column("MEDIAN", Kind::Micros),
    column("99 %", Kind::Micros),
    column("AT ONCE", Kind::Number),
    column("QOS", Kind::Share),
    column("HELD UP BY", Kind::Text),
    column("READ", Kind::BytesPerSecond),
    column("WRITTEN", Kind::BytesPerSecond),
];

const LUS: &[Column] = &[
    column("LU", Kind::Text),
    column("IOPS", Kind::Number),
    column("READ", Kind::BytesPerSecond),
    column("WRITTEN", Kind::BytesPerSecond),
    column("MEDIAN", Kind::Micros),
    column("99 %", Kind::Micros),
    column("AT ONCE", Kind::Number),
    column("QOS", Kind::Share),
    column("POLICY", Kind::Text),
    column("POOL", Kind::Text),
];

const POOLS: &[Column] = &[
    column("POOL", Kind::Text),
    column("USED", Kind::Share),
    column("OPS/S", Kind::Number),
    column("MEDIAN", Kind::Micros),
    column("99 %", Kind::Micros),
    column("AT ONCE", Kind::Number),
    column("DEPTH", Kind::Number),
    column("WAITING", Kind::Number),
    column("CONTROLLER", Kind::Share),
];

const DRIVES: &[Column] = &[
    column("DRIVE", Kind::Text),
    column("STATE", Kind::Text),
    column("IOPS", Kind::Number),
    column("READ", Kind::BytesPerSecond),
    column("WRITTEN", Kind::BytesPerSecond),
    column("MEDIAN", Kind::Micros),
    column("99 %", Kind::Micros),
    column("AT ONCE", Kind::Number),
    column("GROUP", Kind::Text),
];

/// A value; a number is in the unit of its column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Text(String),
    Number(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::None, Into::into)
    }
}

impl Value {
    /// As it is shown in a column.
    pub(super) fn shown(&self, kind: Kind) -> String {
        match (self, kind) {
            (Value::None, _) => "-".into(),
            (Value::Text(text), _) => text.clone(),
            (Value::Number(n), Kind::BytesPerSecond) => format!("{}/s", format_bytes(n.max(0.0) as u64)),
            (Value::Number(us), Kind::Micros) => span(*us),
            (Value::Number(n), Kind::Share) => format!("{:.0} %", n * 100.0),
            (Value::Number(n), _) if *n > 0.0 && *n < 10.0 => format!("{n:.1}"),
            (Value::Number(n), _) => format!("{n:.0}"),
        }
    }
}

/// Microseconds with three digits at most before the point.
fn span(us: f64) -> String {
    match us {
        _ if us < 999.5 => format!("{us:.0} µs"),
        _ if us < 9_995.0 => format!("{:.1} ms", us / 1e3),
        _ if us < 999_500.0 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.1} s", us / 1e6),
    }
}

/// An object of a tab: a value for each column.
pub(super) struct Row {
    pub(super) values: Vec<Value>,
    /// It needs attention.
    pub(super) is_bad: bool,
}

impl Row {
    fn of(values: impl Into<Vec<Value>>) -> Row {
        Row { values: values.into(), is_bad: false }
    }

    /// The first column.
    pub(super) fn name(&self) -> &str {
        match self.values.first() {
            Some(Value::Text(name)) => name,
            _ => "",
        }
    }
}

fn median(of: &Use) -> Value {
    of.quantile_us(0.5).into()
}

fn p99(of: &Use) -> Value {
    of.quantile_us(0.99).into()
}

/// The stages from the port down; `lu` contains all below it.
const STAGES: [(&str, &str); 7] = [
    ("port", "port"),
    ("qos", "  QoS wait"),
    ("cache", "  cache"),
    ("image", "  image"),
    ("pool", "    pool"),
    ("raid", "      RAID"),
    ("drive", "        drive"),
];

fn waits(between: &Between) -> Vec<Row> {
    let row = |shown: &str, of: &Use, most: Option<String>| {
        let most = most.map(Value::Text).unwrap_or(Value::None);
        let numbers = [of.operations.into(), of.mean_us().into(), median(of), p99(of), of.at_once.into()];
        Row::of([vec![shown.into()], numbers.into(), vec![most]].concat())
    };
    let most = |objects: Option<&BTreeMap<String, Use>>| {
        let busiest = objects?.iter().max_by(|a, b| a.1.at_once.total_cmp(&b.1.at_once))?;
        let (name, of) = busiest;
        Some(format!("{name}, {} each", span(of.mean_us()?)))
    };
    let mut rows: Vec<Row> = STAGES
        .iter()
        .map(|(stage, shown)| row(shown, &between.stage(stage), most(between.stages.get(*stage))))
        .collect();
    rows.insert(1, row("LU", &between.all(), most(Some(&between.lus))));
    rows
}

fn hosts(status: &Status, between: &Between) -> Vec<Row> {
    let row = |host: &admin::Host| {
        let used = between.hosts.get(&host.name).copied().unwrap_or_default();
        let qos = (used.latency.operations() > 0).then(|| qos_share(host, between));
        let held = held_up_by(host, &used, status, between);
        Row::of([
            host.name.as_str().into(),
            used.operations.into(),
            median(&used),
            p99(&used),
            used.at_once.into(),
            qos.into(),
            held.as_deref().into(),
            used.read_bytes.into(),
            used.write_bytes.into(),
        ])
    };
    status.hosts.iter().map(row).collect()
}

fn lus(status: &Status, between: &Between) -> Vec<Row> {
    let row = |name: &str, qos: &admin::VolumeQos, pool: Option<&str>| {
        let used = between.lus.get(name).copied().unwrap_or_default();
        let share = (used.latency.operations() > 0).then_some(used.qos_share);
        let values = [
            name.into(),
            used.operations.into(),
            used.read_bytes.into(),
            used.write_bytes.into(),
            median(&used),
            p99(&used),
            used.at_once.into(),
            share.into(),
            qos.policy.as_deref().into(),
            pool.into(),
        ];
        Row { is_bad: qos.state == "below_minimum", ..Row::of(values) }
    };
    let volumes = status.volumes.iter().map(|v| row(&v.name, &v.qos, Some(&v.pool)));
    volumes.chain(status.images.iter().map(|i| row(&i.name, &i.qos, None))).collect()
}

fn pools(status: &Status, between: &Between) -> Vec<Row> {
    let row = |pool: &Pool| {
        let used = between.of("pool", &pool.name);
        let scheduler = status.schedulers.iter().find(|s| s.pool.as_ref() == Some(&pool.name));
        let full = pool.used_bytes as f64 / pool.size_bytes.max(1) as f64;
        let values = [
            pool.name.as_str().into(),
            full.into(),
            used.operations.into(),
            median(&used),
            p99(&used),
            used.at_once.into(),
            scheduler.map(|s| f64::from(s.depth)).into(),
            scheduler.map(|s| f64::from(s.waiting)).into(),
            between.controllers.get(&pool.controller).copied().into(),
        ];
        Row { is_bad: full * 100.0 >= f64::from(pool.soft_threshold_percent), ..Row::of(values) }
    };
    status.pools.iter().map(row).collect()
}

fn drives(status: &Status, between: &Between) -> Vec<Row> {
    let members = status.groups.iter().flat_map(|group| &group.members);
    let silent: Vec<&str> = members.filter(|m| m.slow).filter_map(|m| m.drive.as_deref()).collect();
    let row = |drive: &admin::Drive| {
        let used = between.drives.get(&drive.name).copied().unwrap_or_default();
        let timed = between.of("drive", &drive.name);
        let is_silent = silent.contains(&drive.name.as_str());
        let state = if is_silent { "silent" } else { drive.state.as_str() };
        let values = [
            drive.name.as_str().into(),
            state.into(),
            used.operations.into(),
            used.read_bytes.into(),
            used.write_bytes.into(),
            median(&timed),
            p99(&timed),
            timed.at_once.into(),
            drive.group.as_deref().into(),
        ];
        Row { is_bad: !["active", "spare", "free"].contains(&state), ..Row::of(values) }
    };
    status.drives.iter().map(row).collect()
}
