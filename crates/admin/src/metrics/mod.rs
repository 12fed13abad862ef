//! The status as metrics in the Prometheus text format.
//!
//! Units are base units: seconds, bytes, ratios of 1. A counter begins with the process or, for a drive,
//! group or pool, when it was opened.

mod caches;
mod drives;
mod lus;
mod pools;
mod stages;
mod top;
mod write;

use std::collections::BTreeMap;

use status::Status;
pub(crate) use top::Named;

use self::top::busiest;
use self::write::{Text, labels};
use crate::traces::TraceCounts;

/// What the process counts itself.
pub(crate) struct Process {
    /// Events, by severity.
    pub(crate) events: [(&'static str, u64); 3],
    /// When the certificate of the API on TCP ends.
    pub(crate) certificate_end_s: Option<u64>,
    pub(crate) traces: TraceCounts,
}

/// The text of `GET /metrics`. `named` has the objects with series of their own, which are at most
/// `count` LUs, hosts and drives; it is brought up to date.
pub(crate) fn text(status: &Status, counts: &Process, named: &mut Named, count: usize) -> String {
    choose(status, named, count);
    let mut out = Text::default();
    process(&mut out, status, counts);
    trouble(&mut out, status);
    stages::write(&mut out, status, named);
    lus::write(&mut out, status, named);
    pools::write(&mut out, status);
    caches::write(&mut out, status, named);
    drives::write(&mut out, status, named);
    out.into_string()
}

fn choose(status: &Status, named: &mut Named, count: usize) {
    let volumes = status.volumes.iter().map(|v| (v.name.as_str(), v.counters.commands));
    let images = status.images.iter().map(|i| (i.name.as_str(), i.counters.commands));
    named.lus = busiest(&named.lus, volumes.chain(images), count);
    let mut commands: BTreeMap<&str, u64> = BTreeMap::new();
    status.served.iter().for_each(|s| *commands.entry(&s.host).or_default() += s.commands);
    let commands_of = |name: &str| commands.get(name).copied().unwrap_or(0);
    let hosts = status.hosts.iter().map(|host| (host.name.as_str(), commands_of(&host.name)));
    named.hosts = busiest(&named.hosts, hosts, count);
    let drives = status.drives.iter().map(|d| (d.name.as_str(), d.reads + d.writes));
    named.drives = busiest(&named.drives, drives, count);
}

/// The process, its controllers, ports and jobs.
fn process(out: &mut Text, status: &Status, counts: &Process) {
    let commit = option_env!("MASU_COMMIT").unwrap_or("unknown");
    let build = labels(&[("version", &status.version), ("commit", commit)]);
    out.gauge("masu_build_info", "The version that runs: 1", [(build, 1.0)]);
    out.gauge("masu_uptime_seconds", "Time since the start", [(String::new(), status.uptime_s as f64)]);
    let end = counts.certificate_end_s.map(|end_s| (String::new(), end_s as f64));
    let help = "When the certificate of the API on TCP ends, in seconds since 1970";
    out.gauge("masu_api_certificate_end_timestamp_seconds", help, end);
    let controller = |number: usize| labels(&[("controller", &number.to_string())]);
    let busy = status.loads.iter().map(|l| (controller(l.controller), l.busy_ms as f64 / 1e3));
    let help = "Processor time that a controller used; a second of it in a second is all there is";
    out.counter("masu_controller_busy_seconds_total", help, busy);
    let port = |p: &status::Port| labels(&[("port", &p.listen.to_string())]);
    let sessions = status.ports.iter().map(|p| (port(p), p.sessions as f64));
    out.gauge("masu_port_sessions", "Sessions logged in", sessions);
    for (name, help, value) in PORT_COUNTERS {
        out.counter(name, help, status.ports.iter().map(|p| (port(p), value(p) as f64)));
    }
    let events = counts.events.iter().map(|(severity, n)| (labels(&[("severity", severity)]), *n as f64));
    out.counter("masu_events_total", "Events since the start", events);
    let TraceCounts { sent, undelivered, queue, limit } = counts.traces;
    out.counter(
        "masu_traces_sent_total",
        "Traces that the collector has taken",
        [(String::new(), sent as f64)],
    );
    let dropped = [("collector", undelivered), ("queue", queue), ("limit", limit)];
    let dropped = dropped.map(|(reason, n)| (labels(&[("reason", reason)]), n as f64));
    let help = "Traces that were dropped: the collector was away, the queue was full, the limit per second";
    out.counter("masu_traces_dropped_total", help, dropped);
    let job = |j: &status::Job| labels(&[("kind", &j.kind), ("object", &j.object)]);
    let done = status.jobs.iter().map(|j| (job(j), j.progress.done_bytes as f64));
    out.gauge("masu_job_done_bytes", "How far a running job is", done);
    let total = status.jobs.iter().map(|j| (job(j), j.progress.total_bytes as f64));
    out.gauge("masu_job_size_bytes", "All bytes of a running job; 0: not known", total);
    out.gauge("masu_jobs", "Jobs that run", [(String::new(), status.jobs.len() as f64)]);
}

type PortCounter = (&'static str, &'static str, fn(&status::Port) -> u64);

const PORT_COUNTERS: &[PortCounter] = &[
    ("masu_port_commands_total", "Commands at a port", |p| p.commands),
    ("masu_port_received_bytes_total", "Bytes from hosts", |p| p.bytes_in),
    ("masu_port_sent_bytes_total", "Bytes to hosts", |p| p.bytes_out),
];

/// What is wrong: a sample for each, and how many there are, so that none is a sample, too.
fn trouble(out: &mut Text, status: &Status) {
    let one = |t: &status::Trouble| {
        (labels(&[("severity", &t.severity), ("object", &t.object), ("kind", &t.kind)]), 1.0)
    };
    out.gauge("masu_trouble", "Something that is wrong: 1", status.trouble.iter().map(one));
    let count = |severity: &str| {
        let n = status.trouble.iter().filter(|t| t.severity == severity).count();
        (labels(&[("severity", severity)]), n as f64)
    };
    out.gauge("masu_troubles", "How much is wrong", ["warning", "error"].map(count));
    let missing = status.missing.iter().map(|m| (labels(&[("kind", &m.kind), ("name", &m.name)]), 1.0));
    out.gauge("masu_missing", "An object that was made and cannot be opened: 1", missing);
}
