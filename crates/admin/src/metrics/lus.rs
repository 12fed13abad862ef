//! LUs: volumes and images, the busiest by name and the rest in sum; and what they are promised.

use status::{Latencies, Status, VolumeCounters, VolumeQos};

use super::stages::both;
use super::top::Named;
use super::write::{Text, labels};

/// A volume or an image, or all that have no series of their own.
#[derive(Default)]
struct Lu {
    labels: [(&'static str, String); 2],
    counters: VolumeCounters,
    qos: VolumeQos,
    used_bytes: u64,
}

impl Lu {
    fn labels(&self) -> String {
        labels(&self.pairs())
    }

    fn pairs(&self) -> [(&str, &str); 2] {
        [0, 1].map(|i| (self.labels[i].0, self.labels[i].1.as_str()))
    }

    fn add(&mut self, counters: &VolumeCounters, qos: &VolumeQos, used_bytes: u64) {
        let sum = &mut self.counters;
        for (to, more) in [
            (&mut sum.commands, counters.commands),
            (&mut sum.reads, counters.reads),
            (&mut sum.writes, counters.writes),
            (&mut sum.read_bytes, counters.read_bytes),
            (&mut sum.write_bytes, counters.write_bytes),
            (&mut sum.zeroed_bytes, counters.zeroed_bytes),
            (&mut sum.moved_bytes, counters.moved_bytes),
            (&mut sum.shared_bytes, counters.shared_bytes),
            (&mut sum.reclaimed_bytes, counters.reclaimed_bytes),
            (&mut sum.compare_misses, counters.compare_misses),
            (&mut self.qos.charged_bytes, qos.charged_bytes),
            (&mut self.qos.minimum_requests, qos.minimum_requests),
            (&mut self.qos.weight_requests, qos.weight_requests),
            (&mut self.qos.waited_requests, qos.waited_requests),
            (&mut self.qos.waited_us, qos.waited_us),
            (&mut self.used_bytes, used_bytes),
        ] {
            *to += more;
        }
        let sum: &mut Latencies = &mut sum.latency;
        sum.add(&counters.latency);
    }
}

pub(super) fn write(out: &mut Text, status: &Status, named: &Named) {
    let all = lus(status, named);
    let help = "Reads and writes of a LU, from the arrival of the command at it to its end";
    out.histograms(
        "masu_lu_latency_seconds",
        help,
        all.iter().flat_map(|lu| both(&lu.pairs(), &lu.counters.latency)),
    );
    for (name, help, value) in LU_COUNTERS {
        out.counter(name, help, all.iter().map(|lu| (lu.labels(), value(&lu.counters) as f64)));
    }
    for (name, help, value) in SERVICE_COUNTERS {
        out.counter(name, help, all.iter().map(|lu| (lu.labels(), value(&lu.qos))));
    }
    let used = all.iter().map(|lu| (lu.labels(), lu.used_bytes as f64));
    out.gauge("masu_lu_used_bytes", "Bytes in pages of a volume; the length of the file of an image", used);
    let count = [("volume", status.volumes.len()), ("image", status.images.len())];
    let count = count.map(|(kind, n)| (labels(&[("kind", kind)]), n as f64));
    out.gauge("masu_lus", "Volumes with snapshots, and images", count);
    let troubled = |i: &status::Image| f64::from(u8::from(i.error.is_some() || i.trouble.is_some()));
    let trouble = status.images.iter().map(|i| (labels(&[("lu", &i.name)]), troubled(i)));
    out.gauge("masu_image_trouble", "An image that is not served, or not written: 1", trouble);
    promises(out, status, &all);
}

/// The LUs by name, and the rest as one.
fn lus(status: &Status, named: &Named) -> Vec<Lu> {
    let mut all = Vec::with_capacity(named.lus.len() + 1);
    let mut rest = Lu { labels: labels_of("other", "other"), ..Lu::default() };
    let volumes = status.volumes.iter().map(|v| ("volume", &v.name, &v.counters, &v.qos, v.used_bytes));
    let images = status.images.iter().map(|i| ("image", &i.name, &i.counters, &i.qos, i.file_bytes));
    for (kind, name, counters, qos, used_bytes) in volumes.chain(images) {
        match named.lus.contains(name) {
            true => all.push(Lu {
                labels: labels_of(kind, name),
                counters: counters.clone(),
                qos: qos.clone(),
                used_bytes,
            }),
            false => rest.add(counters, qos, used_bytes),
        }
    }
    if status.volumes.len() + status.images.len() > named.lus.len() {
        all.push(rest);
    }
    all
}

fn labels_of(kind: &str, name: &str) -> [(&'static str, String); 2] {
    [("lu", name.into()), ("kind", kind.into())]
}

/// What LUs are promised, and what becomes of it.
fn promises(out: &mut Text, status: &Status, all: &[Lu]) {
    let promised = |lu: &Lu| Some((lu.qos.policy.clone()?, lu.qos.state == "below_minimum"));
    let info = all.iter().filter_map(|lu| {
        let (policy, _) = promised(lu)?;
        let [name, kind] = lu.pairs();
        Some((labels(&[name, kind, ("policy", &policy), ("state", &lu.qos.state)]), 1.0))
    });
    out.gauge("masu_lu_policy_info", "The policy of a LU, and whether it is kept: 1", info);
    let below = all.iter().filter_map(|lu| Some((lu.labels(), f64::from(u8::from(promised(lu)?.1)))));
    let help = "1 while a LU does not get the minimum that it asks for";
    out.gauge("masu_lu_below_minimum", help, below);
    let limited = all.iter().map(|lu| {
        let lacks = lu.qos.lacks.as_deref() == Some("outstanding");
        (lu.labels(), f64::from(u8::from(lacks)))
    });
    let help = "1 while a LU gets no more because hosts have too few requests outstanding for any to wait";
    out.gauge("masu_lu_lacks_outstanding", help, limited);
    // Of all LUs, also those without series of their own.
    let volumes = status.volumes.iter().map(|v| &v.qos);
    let states: Vec<&VolumeQos> = volumes.chain(status.images.iter().map(|i| &i.qos)).collect();
    let violated = status.policies.iter().map(|policy| {
        let of = states.iter().filter(|qos| qos.policy.as_ref() == Some(&policy.name));
        let below = of.filter(|qos| qos.state == "below_minimum").count();
        (labels(&[("policy", &policy.name)]), below as f64)
    });
    out.gauge("masu_policy_violations", "LUs of a policy that are below their minimum", violated);
}

type LuCounter = (&'static str, &'static str, fn(&VolumeCounters) -> u64);

const LU_COUNTERS: &[LuCounter] = &[
    ("masu_lu_commands_total", "Commands", |c| c.commands),
    ("masu_lu_reads_total", "Of these, reads", |c| c.reads),
    ("masu_lu_writes_total", "Of these, writes", |c| c.writes),
    ("masu_lu_read_bytes_total", "Bytes read by hosts", |c| c.read_bytes),
    ("masu_lu_written_bytes_total", "Bytes written by hosts", |c| c.write_bytes),
    ("masu_lu_zeroed_bytes_total", "Bytes zeroed by the array", |c| c.zeroed_bytes),
    ("masu_lu_moved_bytes_total", "Bytes copied by moving them inside the array", |c| c.moved_bytes),
    ("masu_lu_shared_bytes_total", "Bytes copied by sharing pages", |c| c.shared_bytes),
    ("masu_lu_reclaimed_bytes_total", "Bytes released by UNMAP", |c| c.reclaimed_bytes),
    ("masu_lu_compare_misses_total", "COMPARE AND WRITE commands that missed", |c| c.compare_misses),
];

type ServiceCounter = (&'static str, &'static str, fn(&VolumeQos) -> f64);

const SERVICE_COUNTERS: &[ServiceCounter] = &[
    ("masu_lu_charged_bytes_total", "What the requests of a LU were charged", |q| q.charged_bytes as f64),
    ("masu_lu_minimum_requests_total", "Requests served because the minimum was due", |q| {
        q.minimum_requests as f64
    }),
    ("masu_lu_weight_requests_total", "Requests served by weight", |q| q.weight_requests as f64),
    ("masu_lu_waited_requests_total", "Requests that waited for their turn", |q| q.waited_requests as f64),
    ("masu_lu_waited_seconds_total", "How long they waited", |q| q.waited_us as f64 / 1e6),
];
