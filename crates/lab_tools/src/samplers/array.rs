//! The counters of an array, from what its controllers say of themselves.

use array::status::{CacheStatus, ControllerStatus};
use scsi::OpClass;

use super::counter::Counter;

const MB: f64 = 1e6;

/// Reads and writes of something, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Traffic {
    /// Operations.
    pub reads: u64,
    /// Operations.
    pub writes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
}

impl Traffic {
    /// Both together.
    pub fn plus(self, other: Traffic) -> Traffic {
        Traffic {
            reads: self.reads.wrapping_add(other.reads),
            writes: self.writes.wrapping_add(other.writes),
            read_bytes: self.read_bytes.wrapping_add(other.read_bytes),
            write_bytes: self.write_bytes.wrapping_add(other.write_bytes),
        }
    }
}

/// What a drive, a group or a LU did: IOPS and MB/s, read, written and in sum.
pub fn traffic(resource: &str, t: Traffic) -> Vec<Counter> {
    let rate = |metric, unit, count, scale| Counter::rate(resource, metric, unit, (count, scale));
    vec![
        rate("reads", "IOPS", t.reads, 1.0),
        rate("writes", "IOPS", t.writes, 1.0),
        rate("operations", "IOPS", t.reads.wrapping_add(t.writes), 1.0),
        rate("read", "MB/s", t.read_bytes, 1.0 / MB),
        rate("written", "MB/s", t.write_bytes, 1.0 / MB),
        rate("total", "MB/s", t.read_bytes.wrapping_add(t.write_bytes), 1.0 / MB),
    ]
}

/// What went through a port.
pub fn port(resource: &str, commands: u64, bytes_in: u64, bytes_out: u64) -> Vec<Counter> {
    let rate = |metric, unit, count, scale| Counter::rate(resource, metric, unit, (count, scale));
    vec![
        rate("commands", "IOPS", commands, 1.0),
        rate("from hosts", "MB/s", bytes_in, 1.0 / MB),
        rate("to hosts", "MB/s", bytes_out, 1.0 / MB),
    ]
}

/// How busy a controller was, of its thread's time.
pub fn controller(index: usize, busy_ms: u64, age_ms: u64) -> Counter {
    Counter::quotient(&format!("controller {index}"), "busy", "%", (busy_ms, age_ms, 100.0))
}

/// What is pending in a cache and how much of what hosts read and write it has.
pub fn cache(
    index: usize,
    pending_percent: u8,
    (read_bytes, read_hit_bytes): (u64, u64),
    (write_bytes, write_hit_bytes): (u64, u64),
) -> Vec<Counter> {
    let resource = format!("cache {index}");
    vec![
        Counter::level(&resource, "write pending", "%", f64::from(pending_percent)),
        Counter::quotient(&resource, "read hits", "%", (read_hit_bytes, read_bytes, 100.0)),
        Counter::quotient(&resource, "write hits", "%", (write_hit_bytes, write_bytes, 100.0)),
    ]
}

/// How full a pool is.
pub fn pool(name: &str, used_bytes: u64, len_bytes: u64) -> Vec<Counter> {
    let used_percent = 100.0 * used_bytes as f64 / len_bytes.max(1) as f64;
    vec![Counter::level(&format!("pool {name}"), "used", "%", used_percent)]
}

/// Everything that the controllers of an array count.
pub fn counters(status: &[ControllerStatus]) -> Vec<Counter> {
    status.iter().flat_map(of_controller).collect()
}

fn of_controller(status: &ControllerStatus) -> Vec<Counter> {
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut out = vec![controller(status.index, ms(status.busy), ms(status.age))];
    for one in &status.ports {
        out.extend(port(&format!("port {}", one.listen), one.commands, one.bytes_in, one.bytes_out));
    }
    let of_drive = |name: &str| {
        let drive = status.drives.iter().find(|d| d.name == name);
        drive.map_or_else(Traffic::default, |d| Traffic {
            reads: d.reads,
            writes: d.writes,
            read_bytes: d.read_bytes,
            write_bytes: d.write_bytes,
        })
    };
    for drive in &status.drives {
        out.extend(traffic(&format!("drive {}", drive.name), of_drive(&drive.name)));
    }
    for group in &status.groups {
        let members = group.members.iter().flatten().map(|name| of_drive(name));
        let sum = members.fold(Traffic::default(), Traffic::plus);
        out.extend(traffic(&format!("group {}", group.name), sum));
    }
    for volume in &status.volumes {
        let c = &volume.counters;
        let lu = Traffic {
            reads: c.commands[OpClass::Read as usize],
            writes: c.commands[OpClass::Write as usize],
            read_bytes: c.read_bytes,
            write_bytes: c.written_bytes,
        };
        out.extend(traffic(&format!("lu {}", volume.name), lu));
    }
    out.extend(status.pools.iter().flat_map(|p| pool(&p.name, p.used_bytes, p.size_bytes)));
    out.extend(status.cache.iter().flat_map(|c| of_cache(status.index, c)));
    out
}

fn of_cache(index: usize, status: &CacheStatus) -> Vec<Counter> {
    let sum = |of: fn(&cache::UnitCounts) -> u64| {
        status.units.iter().fold(0u64, |sum, unit| sum.wrapping_add(of(&unit.counts)))
    };
    cache(
        index,
        status.counts.pending_percent,
        (sum(|c| c.read_bytes), sum(|c| c.read_hit_bytes)),
        (sum(|c| c.write_bytes), sum(|c| c.write_hit_bytes)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::counter::between;
    use super::*;

    #[test]
    fn an_arrays_counters_become_rates() {
        let reading = |n: u64| {
            let t = Traffic { reads: n, writes: 2 * n, read_bytes: n << 20, write_bytes: 0 };
            let mut all = traffic("lu v1", t);
            all.push(controller(0, n, 10 * n));
            all.extend(cache(0, 11, (n, n / 2), (0, 0)));
            all
        };
        let sample = between(&reading(100), &reading(200), 10.0);
        let value =
            |key: &str| sample.iter().find(|(column, _)| column.key() == key).map(|(_, v)| format!("{v:.4}"));
        let is = |key: &str, expected: &str| assert_eq!(value(key).as_deref(), Some(expected), "{key}");
        is("lu.v1.operations_iops", "30.0000");
        is("lu.v1.read_mb_per_s", "10.4858");
        is("controller.0.busy_percent", "10.0000");
        is("cache.0.write_pending_percent", "11.0000");
        is("cache.0.read_hits_percent", "50.0000");
        assert_eq!(value("cache.0.write_hits_percent"), None, "nothing was written");
    }
}
