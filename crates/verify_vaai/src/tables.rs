//! The tables behind the figures.

use super::bulk::{Bulk, Way};
use super::figures::{DAILY, operation_words};
use super::power_on::{Crowd, Operation};
use super::recording::Judgement;
use super::words::mean_of;
use lab_core::report::{Column, Table, Value};

/// A column: name, unit, metric, factor.
type Metric = (&'static str, &'static str, &'static str, f64);

const MIB: f64 = 1.0 / 1_048_576.0;
const BULK: [Metric; 12] = [
    ("time", "ms", "time_s", 1e3),
    ("host CPU", "ms", "host_cpu_s", 1e3),
    ("host busy", "%", "host_busy_percent", 1.0),
    ("array CPU", "ms", "array_cpu_s", 1e3),
    ("packets sent", "", "packets_out", 1.0),
    ("packets received", "", "packets_in", 1.0),
    ("one command", "MiB", "step_bytes", MIB),
    ("drive I/O", "MiB", "drive_bytes", MIB),
    ("written by host", "MiB", "written_bytes", MIB),
    ("zeroed", "MiB", "zeroed_bytes", MIB),
    ("shared", "MiB", "shared_bytes", MIB),
    ("moved", "MiB", "moved_bytes", MIB),
];
const LOCKING: [Metric; 9] = [
    ("mean per VM", "ms", "vm_time_mean_s", 1e3),
    ("longest", "ms", "vm_time_max_s", 1e3),
    ("host CPU", "ms", "host_cpu_s", 1e3),
    ("array CPU", "ms", "array_cpu_s", 1e3),
    ("packets", "", "packets", 1.0),
    ("locks taken", "", "locks_acquired", 1.0),
    ("another had it", "", "lock_waits", 1.0),
    ("compare misses", "", "compare_misses", 1.0),
    ("reservation conflicts", "", "reservation_conflicts", 1.0),
];

const OTHERS: [Metric; 8] = [
    ("time", "ms", "time_s", 1e3),
    ("host CPU", "ms", "host_cpu_s", 1e3),
    ("packets", "", "packets", 1.0),
    ("mean response", "ms", "response_s", 1e3),
    ("longest", "ms", "slowest_s", 1e3),
    ("before", "ms", "idle_response_s", 1e3),
    ("space taken", "%", "taken_percent", 1.0),
    ("drive I/O", "MiB", "drive_bytes", MIB),
];

/// All tables.
pub(crate) fn tables(judgement: &Judgement<'_>) -> Vec<Table> {
    let repeats = judgement.run.record.repeats;
    let thin = [
        ("thin_paper", "small steps, thin"),
        ("thin_advertised", "large steps, thin"),
        ("thin_tokens", "tokens, thin"),
    ];
    let ways: Vec<(&str, &str)> =
        Way::ALL.map(|w| (w.name(), way_words(w))).into_iter().chain(thin).collect();
    let bulk = Bulk::ALL.iter().flat_map(|b| {
        ways.iter().map(|(mode, words)| (b.name(), *mode, format!("{}, {words}", bulk_words(*b))))
    });
    let locking = Crowd::ALL.map(|c| ("locking", c.name(), crowd_words(c).to_owned()));
    vec![
        table(
            judgement,
            "bulk",
            &format!("Zeroing and copying: means of {repeats} repeats"),
            &BULK,
            bulk.collect(),
        ),
        table(
            judgement,
            "locking",
            &format!("Locking: means of {repeats} repeats"),
            &LOCKING,
            locking.to_vec(),
        ),
    ]
    .into_iter()
    .chain([daily_locks(judgement), daily(judgement)])
    .filter(|table| !table.rows.is_empty())
    .collect()
}

fn daily_locks(judgement: &Judgement<'_>) -> Table {
    let rows = Operation::ALL.into_iter().flat_map(|operation| {
        let words = operation_words(operation);
        Crowd::ALL.map(|crowd| (operation.name(), crowd.name(), format!("{words}, {}", crowd_words(crowd))))
    });
    table(judgement, "daily-locks", "Other operations with locks", &LOCKING, rows.collect())
}

fn daily(judgement: &Judgement<'_>) -> Table {
    let modes = [
        ("off", "by the host, thick"),
        ("paper", "offloaded, thick"),
        ("thin_off", "by the host, thin"),
        ("thin_paper", "offloaded, thin"),
    ];
    let rows = DAILY
        .into_iter()
        .flat_map(|(test, words)| modes.map(|(mode, by)| (test, mode, format!("{words}, {by}"))));
    let beside =
        Crowd::ALL.map(|crowd| ("bystander", crowd.name(), format!("A VM beside, {}", crowd_words(crowd))));
    let deleted = ("space", "unmap", "Another VM while one is deleted".to_owned());
    let rows = rows.chain(beside).chain([deleted]);
    table(judgement, "daily", "First writes, deployment, migration, and VMs beside", &OTHERS, rows.collect())
}

fn table(
    judgement: &Judgement<'_>,
    id: &str,
    title: &str,
    metrics: &[Metric],
    rows: Vec<(&str, &str, String)>,
) -> Table {
    let first = Column::text("operation");
    let columns = metrics.iter().map(|(name, unit, ..)| Column::number(name, unit));
    let row = |(test, mode, words): (&str, &str, String)| {
        let number = |(_, _, metric, by): &Metric| {
            mean_of(judgement, test, mode, metric)
                .map_or(Value::Text("–".into()), |v| Value::Number(v * by))
        };
        let numbers: Vec<Value> = metrics.iter().map(number).collect();
        let is_empty = numbers.iter().all(|v| matches!(v, Value::Text(_)));
        (!is_empty).then(|| std::iter::once(Value::Text(words)).chain(numbers).collect())
    };
    Table {
        id: id.into(),
        title: title.into(),
        columns: std::iter::once(first).chain(columns).collect(),
        rows: rows.into_iter().filter_map(row).collect(),
    }
}

fn bulk_words(bulk: Bulk) -> &'static str {
    match bulk {
        Bulk::Zeroing => "Zeroing",
        Bulk::Copy => "Clone in one pool",
        Bulk::Between => "Clone between pools",
    }
}

fn way_words(way: Way) -> &'static str {
    match way {
        Way::Off => "by the host",
        Way::Paper => "small steps",
        Way::Advertised => "large steps",
        Way::Tokens => "tokens",
    }
}

fn crowd_words(crowd: Crowd) -> &'static str {
    match crowd {
        Crowd::Reserve => "LU reserved",
        Crowd::Compare => "COMPARE AND WRITE",
        Crowd::Alone => "one host alone",
    }
}
