//! The texts of `/proc` (proc(5), Documentation/admin-guide/iostats.rst of Linux), read: pure, and a line
//! that is not understood is no counter, never an error: kernels add fields and lines.

use lab_core::proc::{memory_kib, own_ticks};

use super::counter::Counter;

/// Sectors of `/proc/diskstats`, whatever the drive's own are.
const SECTOR_BYTES: f64 = 512.0;
const MB: f64 = 1e6;
const KIB_PER_GIB: f64 = 1_048_576.0;

/// The numbers of a line; one that is none ends it.
fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

/// `/proc/stat`: the machine and each of its processors. `user nice system idle iowait irq softirq steal`;
/// guests' time is in user already. Idle is idle and iowait: a processor that waits for a drive is free for
/// others.
pub(super) fn processors(stat: &str) -> Vec<Counter> {
    let mut out = Vec::new();
    for line in stat.lines() {
        let Some((name, rest)) = line.split_once(' ').filter(|(name, _)| name.starts_with("cpu")) else {
            continue;
        };
        let ticks = numbers(rest);
        let &[user, nice, system, idle, iowait, ref more @ ..] = &ticks[..] else { continue };
        let at = |i: usize| more.get(i).copied().unwrap_or(0);
        let (irq, softirq, steal) = (at(0), at(1), at(2));
        // What others took was not there to be used.
        let parts = [user, nice, system, irq, softirq];
        let busy = parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
        let all = [idle, iowait, steal].iter().fold(busy, |sum, part| sum.saturating_add(*part));
        let resource = if name == "cpu" { "cpu".to_owned() } else { format!("cpu {}", &name[3..]) };
        let share = |metric, ticks| Counter::quotient(&resource, metric, "%", (ticks, all, 100.0));
        out.push(share("busy", busy));
        if name == "cpu" {
            out.extend([share("user", user.saturating_add(nice)), share("system", system)]);
            out.extend([
                share("interrupts", irq.saturating_add(softirq)),
                share("waiting for drives", iowait),
            ]);
            out.push(share("steal", steal));
        }
    }
    out
}

/// `/proc/meminfo`.
pub(super) fn memory(meminfo: &str) -> Vec<Counter> {
    let kib = |key| memory_kib(meminfo, key);
    let swapped = kib("SwapTotal").zip(kib("SwapFree")).map(|(all, free)| all.saturating_sub(free));
    let levels = [
        ("available", kib("MemAvailable")),
        ("page cache", kib("Cached")),
        ("dirty", kib("Dirty")),
        ("swapped out", swapped),
    ];
    let level = |(metric, kib): (&'static str, Option<u64>)| {
        Some(Counter::level("memory", metric, "GiB", kib? as f64 / KIB_PER_GIB))
    };
    levels.into_iter().filter_map(level).collect()
}

/// `/proc/diskstats`: of these drives, or where none is named of all that ever did anything and are no memory
/// or loop devices.
///
/// Queue is the mean number of requests, waiting and in service; await what each took from arrival to end.
pub(super) fn drives(diskstats: &str, only: &[String]) -> Vec<Counter> {
    let mut out = Vec::new();
    for line in diskstats.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.nth(2) else { continue };
        let fields: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let &[
            reads,
            _,
            read_sectors,
            read_ms,
            writes,
            _,
            write_sectors,
            write_ms,
            _,
            busy_ms,
            weighted_ms,
            ..,
        ] = &fields[..]
        else {
            continue;
        };
        let wanted = match only {
            [] => reads.saturating_add(writes) > 0 && !name.starts_with("ram") && !name.starts_with("loop"),
            some => some.iter().any(|one| one == name),
        };
        if !wanted {
            continue;
        }
        let resource = format!("disk {name}");
        let rate = |metric, unit, count, scale| Counter::rate(&resource, metric, unit, (count, scale));
        let each = |metric, over, by| Counter::quotient(&resource, metric, "ms", (over, by, 1.0));
        out.extend([
            rate("reads", "IOPS", reads, 1.0),
            rate("writes", "IOPS", writes, 1.0),
            rate("read", "MB/s", read_sectors, SECTOR_BYTES / MB),
            rate("written", "MB/s", write_sectors, SECTOR_BYTES / MB),
            each("read await", read_ms, reads),
            each("write await", write_ms, writes),
            each("await", read_ms.saturating_add(write_ms), reads.saturating_add(writes)),
            rate("queue", "requests", weighted_ms, 1e-3),
            rate("busy", "%", busy_ms, 0.1),
        ]);
    }
    out
}

/// `/proc/net/dev`: of these interfaces, or of all but the loopback.
pub(super) fn networks(dev: &str, only: &[String]) -> Vec<Counter> {
    let mut out = Vec::new();
    for line in dev.lines() {
        // A number may follow the colon without a blank.
        let Some((name, rest)) = line.split_once(':') else { continue };
        let (name, fields) = (name.trim(), numbers(rest));
        // Received: bytes packets errs drop fifo frame compressed multicast; then the same eight sent.
        let (Some(&received), Some(&packets_in)) = (fields.first(), fields.get(1)) else { continue };
        let (Some(&sent), Some(&packets_out)) = (fields.get(8), fields.get(9)) else { continue };
        let wanted = match only {
            [] => name != "lo" && received.saturating_add(sent) > 0,
            some => some.iter().any(|one| one == name),
        };
        if !wanted {
            continue;
        }
        let resource = format!("net {name}");
        let rate = |metric, unit, count, scale| Counter::rate(&resource, metric, unit, (count, scale));
        out.extend([
            rate("received", "MB/s", received, 1.0 / MB),
            rate("sent", "MB/s", sent, 1.0 / MB),
            rate("total", "MB/s", received.saturating_add(sent), 1.0 / MB),
            rate("packets", "1/s", packets_in.saturating_add(packets_out), 1.0),
        ]);
    }
    out
}

/// `/proc/PID/stat`, named by its number and name: processor time, where all of one processor is 100 %.
pub(super) fn process(stat: &str, ticks_per_s: u64) -> Option<Counter> {
    let ticks = own_ticks(stat)?;
    let (pid, rest) = stat.split_once('(')?;
    let (name, _) = rest.rsplit_once(')')?;
    let resource = format!("process {} {name}", pid.trim());
    Some(Counter::rate(&resource, "busy", "% of a processor", (ticks, 100.0 / ticks_per_s.max(1) as f64)))
}

#[cfg(test)]
mod tests {
    use super::super::counter::between;
    use super::*;

    fn sample(before: &[Counter], after: &[Counter]) -> Vec<String> {
        let values = between(before, after, 10.0);
        values.into_iter().map(|(column, value)| format!("{}={value:.2}", column.key())).collect()
    }

    #[test]
    fn processors_are_shares_of_all_time() {
        let before = processors("cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 1 2 3\nintr 5 6\n");
        let after = processors("cpu  150 0 70 1000 60 5 5 10 7 0\n");
        assert_eq!(
            sample(&before, &after),
            [
                "cpu.busy_percent=23.33",
                "cpu.interrupts_percent=0.00",
                "cpu.steal_percent=3.33",
                "cpu.system_percent=6.67",
                "cpu.user_percent=16.67",
                "cpu.waiting_for_drives_percent=6.67",
            ]
        );
        // A kernel of 1995 has four fields; what is no number is none.
        assert!(processors("cpu 1 2 3 4\ncpuX a b\ncpu\n").is_empty());
    }

    #[test]
    fn drives_have_queue_and_await() {
        let line = |ios: u64, ms: u64| {
            format!(
                "   8  0 sda {ios} 0 {} {ms} {ios} 0 {} {ms} 0 {ms} {} 0 0 0 0 0 0\n 7 0 loop0 9 9 9 9 9 9 9 9 9 9 9\n",
                ios * 8,
                ios * 16,
                2 * ms
            )
        };
        let got = sample(&drives(&line(100, 1000), &[]), &drives(&line(300, 4000), &[]));
        assert_eq!(
            got,
            [
                "disk.sda.await_ms=15.00",
                "disk.sda.busy_percent=30.00",
                "disk.sda.queue_requests=0.60",
                "disk.sda.read_mb_per_s=0.08",
                "disk.sda.read_await_ms=15.00",
                "disk.sda.reads_iops=20.00",
                "disk.sda.write_await_ms=15.00",
                "disk.sda.writes_iops=20.00",
                "disk.sda.written_mb_per_s=0.16",
            ]
        );
        // Asked for, a quiet one is shown, too; a line that ends early is none.
        assert_eq!(drives("8 0 sdb 0 0 0 0 0 0 0 0 0 0 0\n", &["sdb".into()]).len(), 9);
        assert!(drives("8 0 sdb 1 2 3\n8 0\n\n8 0 sdc x\n", &[]).is_empty());
    }

    #[test]
    fn networks_are_read_with_and_without_a_blank() {
        let before = "Inter-|   Receive\n face |bytes\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n eth0:1000000 10 0 0 0 0 0 0 2000000 20 0 0 0 0 0 0\n";
        let after = " eth0: 11000000 20 0 0 0 0 0 0 22000000 30 0 0 0 0 0 0\n bad: 1 2\n";
        let got = sample(&networks(before, &[]), &networks(after, &[]));
        assert_eq!(
            got,
            [
                "net.eth0.packets_per_s=2.00",
                "net.eth0.received_mb_per_s=1.00",
                "net.eth0.sent_mb_per_s=2.00",
                "net.eth0.total_mb_per_s=3.00"
            ]
        );
        assert_eq!(networks(before, &["lo".into()]).len(), 4);
    }

    #[test]
    fn memory_and_processes_are_read() {
        let text = "MemTotal: 100 kB\nMemAvailable:   2097152 kB\nSwapTotal: 10 kB\nSwapFree: 20 kB\nDirty: many kB\n";
        let got = sample(&[], &memory(text));
        assert_eq!(got, ["memory.available_gib=2.00", "memory.swapped_out_gib=0.00"]);
        let stat = |user: u64| format!("12 (a (b) c) S 1 1 1 0 -1 4 5 6 7 8 {user} 10 0 0 20");
        let got = sample(
            &[process(&stat(90), 100).expect("a process")],
            &[process(&stat(590), 100).expect("a process")],
        );
        assert_eq!(got, ["process.12.a.(b).c.busy_percent_of_a_processor=50.00"]);
        for odd in ["", "12 (x", "12 (x) S 1 2", "12 (x) S a b c d e f g h i j k l m"] {
            assert_eq!(process(odd, 100), None, "{odd}");
        }
    }
}
