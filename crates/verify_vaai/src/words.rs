//! The report's words: the answer, the findings, the sections. Every number in them comes from the run.

use super::measures::{WRITTEN, total_wrong};
use super::recording::Judgement;
use lab_core::report::{Cost, CostOf, Finding, Section};
use lab_core::stats::{Estimate, mean};
use lab_core::verdict::Verdict;
use lab_core::words::{plain, value};
use lab_tools::testbed::embedded::DriveKind;

/// A time in the unit that suits it.
pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if s >= 10.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.001 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// Bytes in the unit that suits them.
pub(crate) fn bytes(n: f64) -> String {
    match n {
        n if n >= f64::from(1 << 30) => {
            format!("{} GiB", plain((n / f64::from(1 << 30) * 100.0).round() / 100.0))
        }
        n if n >= f64::from(1 << 20) => {
            format!("{} MiB", plain((n / f64::from(1 << 20) * 10.0).round() / 10.0))
        }
        n => format!("{} KiB", plain((n / 1024.0).round())),
    }
}

/// A count in words: 1.5 million, 4,157.
pub(crate) fn count(n: f64) -> String {
    if n >= 1e6 {
        return format!("{:.1} million", n / 1e6);
    }
    let digits = format!("{n:.0}");
    let grouped: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|c| std::str::from_utf8(c).unwrap_or("")).collect();
    grouped.join(",")
}

/// The mean of a metric over the repeats.
pub(crate) fn mean_of(judgement: &Judgement<'_>, test: &str, mode: &str, metric: &str) -> Option<f64> {
    let values = judgement.run.record.series(test, mode, metric);
    (!values.is_empty()).then(|| mean(&values).mean)
}

/// The answer, in one sentence with its numbers.
pub(crate) fn answer(judgement: &Judgement<'_>) -> String {
    let faults = &judgement.run.faults;
    if judgement.is_wrong() {
        return format!(
            "The array corrupted data: {} blocks read back wrong, and {} locks or extents had two owners.",
            faults.blocks.wrong as f64 + wrong_elsewhere(judgement),
            faults.owners.len() + faults.daily.len()
        );
    }
    let percent = |id: &str| {
        let shown = |e: Estimate| {
            if e.low > 0.0 || e.low.is_infinite() {
                format!("{} %", value(&e))
            } else {
                format!("no visible effect ({} %)", value(&e))
            }
        };
        judgement.estimate(id).map(shown)
    };
    let mut parts = Vec::new();
    parts.extend(percent("zeroing.paper.time").map(|saved| format!("{saved} of the time to zero a disk")));
    parts.extend(
        percent("copy.paper.time").map(|saved| format!("{saved} of the time to clone one inside a pool")),
    );
    parts.extend(
        percent("between.paper.time")
            .map(|saved| format!("{saved} of the time to clone one to another pool")),
    );
    let saved = match (parts.is_empty(), least(judgement, "cpu").zip(least(judgement, "packets"))) {
        (false, Some((cpu, packets))) => {
            format!(
                "Offloading saves the hosts {}, each time with more than {cpu} % of the CPU time and {packets} % of the packets",
                listed(&parts)
            )
        }
        _ => String::new(),
    };
    let vaai = &judgement.vaai;
    let vms = vaai.published.hosts * vaai.published.vms_per_host;
    let locking = judgement
        .estimate("locking.saving")
        .map(|e| format!("{vms} VMs powered on at once start in {} % less time", value(&e)));
    match (saved.is_empty(), locking) {
        (true, None) => "Nothing was measured: the run was stopped before its first repeat ended, or the array offers none of the offloads.".into(),
        (false, None) => format!("{saved}."),
        (true, Some(locking)) => format!("{locking}."),
        (false, Some(locking)) => format!("{saved}; {locking}."),
    }
}

/// Blocks that were wrong after the other operations.
fn wrong_elsewhere(judgement: &Judgement<'_>) -> f64 {
    WRITTEN.iter().filter_map(|test| total_wrong(&judgement.run.record, test)).sum()
}

/// The least that offload in small steps saves over all operations, in whole percent (rounded down).
fn least(judgement: &Judgement<'_>, what: &str) -> Option<f64> {
    let all = ["zeroing", "copy", "between"]
        .iter()
        .filter_map(|test| judgement.estimate(&format!("{test}.paper.{what}")));
    all.map(|e| e.mean.floor()).reduce(f64::min)
}

/// Parts of a sentence: with commas, and "and" before the last.
fn listed(parts: &[String]) -> String {
    match parts {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => parts.concat(),
    }
}

/// By how much the run is smaller than the published experiment.
pub(crate) fn scale(judgement: &Judgement<'_>) -> Option<String> {
    let vaai = &judgement.vaai;
    let made = |test: &str| mean_of(judgement, test, "off", "len_bytes").map_or("nothing".into(), bytes);
    if judgement.run.is_model {
        return None;
    }
    Some(format!(
        "{} of the published sizes: {} zeroed instead of {}, a template of {} instead of {}; hosts and VMs as published ({} × {}), their disks scaled",
        plain(vaai.run.scale),
        made("zeroing"),
        bytes(vaai.published.zeroed_disk.0 as f64),
        made("copy"),
        bytes(vaai.published.template.0 as f64),
        vaai.published.hosts,
        vaai.published.vms_per_host,
    ))
}

/// Which inputs were chosen with a measured or published result in view.
pub(crate) fn calibrated(judgement: &Judgement<'_>) -> Vec<String> {
    let vaai = &judgement.vaai;
    if judgement.run.is_model {
        let times = format!(
            "a published host works {} × as long for a command as this code on the machine where that was measured: so that zeroing \
             without offload takes the published 12.5 % of the processor",
            plain(vaai.model.host_times)
        );
        let processors = format!(
            "a host has {} processors and {} sessions: not published; the published 12.5, 12.0 and 27 % look like one, one and two of eight, \
             and were known when this was chosen",
            vaai.model.processors, vaai.model.sessions
        );
        return vec![times, processors];
    }
    let power_on = &vaai.power_on;
    let (locks, pause) = (power_on.file_locks + power_on.shared_locks, power_on.pause.0.as_millis());
    vec![format!(
        "a power-on is {locks} lock operations with {pause} ms of the host's own work before each: chosen within the 50 to 90 that \
         the published times leave room for (an estimate, see the scenario), so that the saving by COMPARE AND WRITE, which \
         depends on it, can be compared with the published one"
    )]
}

/// What was modelled.
pub(crate) fn modelled(judgement: &Judgement<'_>) -> Vec<String> {
    let (model, is_model) = (&judgement.vaai.model, judgement.run.is_model);
    let array = &model.array;
    let all = [
        format!(
            "drives: {} × {} and {} × {}, each pool one group RAID 1+0",
            array.drives, array.drive, array.second_drives, array.second_drive
        ),
        format!(
            "network: Ethernet of {} Gbit/s with frames of {} bytes, an acknowledgement for every {} segments; PDUs of iSCSI by their lengths",
            model.network.gbit, model.network.mtu, model.network.segments_per_ack
        ),
        "processors of hosts and controller: what a command and a MiB cost in this code's own measurement"
            .into(),
        format!(
            "a host: {} processors; LUs are dealt out to {} sessions, and the commands of a session take turns on one processor",
            model.processors, model.sessions
        ),
        "content: zeros where a disk is zeroed or cloned as published, which the array stores, copies and shares like any other data; a pattern in all other operations"
            .into(),
    ];
    all.into_iter().filter(|_| is_model).collect()
}

/// What was real.
pub(crate) fn real(judgement: &Judgement<'_>) -> Vec<String> {
    let vaai = &judgement.vaai;
    if judgement.run.is_model {
        let (array, hosts) = (
            "the array: its own code, from SCSI commands to drive I/O",
            "the datastore and the locks of the hosts",
        );
        return vec![array.into(), hosts.into()];
    }
    let mut out = vec![
        format!("iSCSI sessions over TCP, {} bytes per segment on both ends", vaai.array.segment_bytes_max),
        "packets and bytes: the kernel's counters of those connections (TCP_INFO)".into(),
        "host CPU: the CPU clock of the hosts' threads, user and system; on loopback the kernel's receive path runs in the sender's time (kernels that account interrupts apart leave it out)".into(),
        format!("array: {}", judgement.run.place),
    ];
    if judgement.run.is_embedded {
        out.push("array CPU: the CPU clock of the controller's thread; drive I/O and offloads: the array's counters".into());
        out.push(match vaai.array.drives {
            DriveKind::Memory => "drives: memory, so that the protocol is the limit without offload".into(),
            DriveKind::File => "drives: files of this machine".into(),
        });
    }
    out
}

/// What limits, what it costs, what to do.
pub(crate) fn findings(judgement: &Judgement<'_>) -> Vec<Finding> {
    let mut out = Vec::new();
    let get = |test: &str, mode: &str, metric: &str| mean_of(judgement, test, mode, metric);
    if let (Some(cpu), Some(len), Some(time)) = (
        get("zeroing", "off", "host_cpu_s"),
        get("zeroing", "off", "len_bytes"),
        get("zeroing", "off", "time_s"),
    ) {
        out.push(Finding {
            resource: "Host CPU without offload".into(),
            evidence: format!("{} of CPU time per GiB zeroed, at {} MiB/s", seconds(cpu / (len / f64::from(1 << 30))), count(len / f64::from(1 << 20) / time)),
            threshold: None,
            source: None,
            consequence: "Every GiB that a host zeroes itself takes this from its VMs; with offload it is one command per step.".into(),
            r#try: Some("Use eager-zeroed disks only on arrays that support WRITE SAME.".into()),
            cost: more_than(Some(time), get("zeroing", "paper", "time_s")),
        });
    }
    if let (Some(cpu), Some(time), Some(moved)) = (
        get("between", "paper", "array_cpu_s"),
        get("between", "paper", "time_s"),
        get("between", "paper", "moved_bytes"),
    ) {
        let busy = 100.0 * cpu / time;
        out.push(Finding {
            resource: "Array CPU, copies between pools".into(),
            evidence: format!("the controller is {busy:.0} % busy and moves {} MiB/s", count(moved / f64::from(1 << 20) / time)),
            threshold: Some("80 % of one core".into()),
            source: Some("a controller is one thread".into()),
            consequence: if busy > 80.0 {
                "The controller's core limits copies between pools, not the wire.".into()
            } else {
                "The controller's core does not limit copies between pools; its drives or the hosts' steps do.".into()
            },
            r#try: Some("Keep clones in the pool of their template: there the pages are shared and nothing moves.".into()),
            cost: more_than(Some(time), get("copy", "paper", "time_s")),
        });
    }
    if let (Some(conflicts), Some(acquired)) =
        (get("locking", "reserve", "reservation_conflicts"), get("locking", "reserve", "locks_acquired"))
    {
        let misses = get("locking", "compare", "compare_misses").unwrap_or(0.0)
            + get("locking", "compare", "lock_waits").unwrap_or(0.0);
        out.push(Finding {
            resource: "Locks".into(),
            evidence: format!(
                "{:.1} reservation conflicts per lock taken with RESERVE(6); with COMPARE AND WRITE {} of {} locks were contended",
                conflicts / acquired.max(1.0),
                count(misses),
                count(acquired)
            ),
            threshold: None,
            source: None,
            consequence: "A reserved LU also stops the reads and writes of VMs that are running.".into(),
            r#try: None,
            cost: more_than(get("locking", "reserve", "vm_time_mean_s"), get("locking", "compare", "vm_time_mean_s")),
        });
    }
    out
}

/// The share of a time that a better way would save, which takes `least`.
fn more_than(time: Option<f64>, least: Option<f64>) -> Option<Cost> {
    Cost::share(1.0 - least? / time?, CostOf::ResponseTime)
}

/// The sections, in reading order.
pub(crate) fn sections(judgement: &Judgement<'_>) -> Vec<Section> {
    let mut all = vec![
        section("bulk", "Zeroing and copying", bulk(judgement), &["time", "course"], &["bulk"]),
        section("locking", "Locking", locking(judgement), &[], &["locking"]),
    ];
    if !judgement.run.is_model {
        all.push(section("thin", "Thin provisioning", thin(judgement), &[], &[]));
    }
    if judgement.run.is_model {
        let shown = (&["daily-locks", "daily"], &["daily-locks", "daily"]);
        all.push(section("daily", "Other operations", daily(judgement), shown.0, shown.1));
    }
    all.push(section("limits", "What this run does not show", limits(judgement), &[], &[]));
    all
}

fn section(id: &str, title: &str, text: String, figures: &[&str], tables: &[&str]) -> Section {
    Section {
        id: id.into(),
        title: title.into(),
        text: Some(text),
        figures: figures.iter().map(ToString::to_string).collect(),
        tables: tables.iter().map(ToString::to_string).collect(),
    }
}

fn bulk(judgement: &Judgement<'_>) -> String {
    let vaai = &judgement.vaai;
    let steps = |test: &str| {
        mean_of(judgement, test, "advertised", "step_bytes").map_or("its own steps".into(), bytes)
    };
    let published = format!(
        "{} per WRITE SAME and {} per copied segment",
        bytes(vaai.paper_steps.write_same.0 as f64),
        bytes(vaai.paper_steps.copy_segment.0 as f64)
    );
    let (transfer, in_flight, content) = match judgement.run.is_model {
        true => (
            vaai.model.transfer,
            format!(
                "{} transfers in flight, or {} commands where the array works",
                vaai.model.outstanding, vaai.model.outstanding_offload
            ),
            "Every operation begins with the same array, its cache empty; LUs are thick where nothing else is said.",
        ),
        false => (
            vaai.run.transfer,
            format!("{} commands in flight either way", vaai.run.outstanding),
            "The space of the new disk held other data before, and what is there afterwards is read back and compared: zeros must be zeros, a \
             clone must be its template.",
        ),
    };
    format!(
        "A host makes an eager-zeroed disk, and clones a template inside its pool and into another pool. Without offload it writes zeros, or reads and \
         writes the data, {} at a time. With offload it leaves the work to the array: in small steps, those of the published experiment ({published}), and \
         in large steps, the most that the array advertises ({} per WRITE SAME, {} per EXTENDED COPY). Clones are also made by tokens (ODX: \
         POPULATE TOKEN, WRITE USING TOKEN), one after the other, of the length that the array advertises. It keeps {in_flight}.\n\n{content} \
         Allocation and the disk's descriptor on the datastore are part of the measured time.",
        bytes(transfer.0 as f64),
        steps("zeroing"),
        steps("copy"),
    )
}

fn locking(judgement: &Judgement<'_>) -> String {
    let vaai = &judgement.vaai;
    let power_on = &vaai.power_on;
    let is_model = judgement.run.is_model;
    let pause = match is_model {
        true => vaai.model.pause(power_on.file_locks + power_on.shared_locks),
        false => power_on.pause.0,
    };
    let conflict_wait = match is_model {
        true => format!(
            "\n\nIn the model a host waits {} ms after a RESERVATION CONFLICT, plus or minus a fifth.",
            vaai.model.conflict_wait.0.as_millis()
        ),
        false => String::new(),
    };
    let text = format!(
        "{} hosts power on {} VMs each, all at once, on one datastore. A power-on takes {} locks of the VM's own files and {} of what all VMs share (space for \
         it), each after {} ms of the host's own work; between them its guest reads {} × 16 KiB and writes {} × 4 KiB. A lock is a record of one sector. It is \
         taken by COMPARE AND WRITE, or by RESERVE(6) of the whole LU, reading and writing the record, and RELEASE(6); a host that meets a \
         reservation waits a random time of up to {} ms, doubled up to {} ms. Hosts renew their heartbeats meanwhile.\n\nAfterwards every lock \
         record and every allocation on the disk is compared with what the hosts believe: each lock one owner, each change counted once, no space given \
         out twice. Published: mean 68 s per VM with the LU reserved and 34 s with COMPARE AND WRITE, at the size of a real power-on.",
        vaai.published.hosts,
        vaai.published.vms_per_host,
        power_on.file_locks,
        power_on.shared_locks,
        pause.as_millis(),
        power_on.boot_reads,
        power_on.boot_writes,
        power_on.backoff_first.0.as_millis(),
        power_on.backoff_max.0.as_millis(),
    );
    text + &conflict_wait
}

fn thin(judgement: &Judgement<'_>) -> String {
    let vaai = &judgement.vaai;
    format!(
        "A host fills a LU of {} on a pool of {}. The array must warn it with UNIT ATTENTION 38h/07h when the pool crosses {} %, and stop it with \
         27h/07h when the pool is full. The host then gives 16 MiB back with UNMAP and sends the stopped write again, which must go through; all data is read \
         back. At the end it gives everything back, and the pool must be as empty as before. This was not measured in the published experiment.",
        bytes(vaai.thin.promised.0 as f64),
        bytes(vaai.thin.pool.0 as f64),
        vaai.thin.threshold_percent,
    )
}

fn daily(judgement: &Judgement<'_>) -> String {
    let vaai = &judgement.vaai;
    let daily = &vaai.daily;
    format!(
        "{} hosts with {} VMs each create them all at once, then grow their disks by {} MiB, take snapshots, hand each VM to another host, delete the snapshots \
         and shut down. Before each lock operation a host works {} ms by itself. After each operation locks, descriptors, clusters and a mark in every extent \
         are compared with what the hosts did. A VM of another host reads meanwhile.\n\nA guest writes into {} blocks of 1 MiB that hold what a deleted VM \
         left: each is zeroed before its first write, by the host or by WRITE SAME. {} hosts deploy a disk of {} from one template at once. A disk of {} moves \
         to a LU of another pool while its VM writes: the host or EXTENDED COPY copies {} at a time, writes into what is copied wait, those into what \
         was copied go to both. A VM with {} is deleted while another VM reads and writes. Every block is read back and compared. The quick form \
         does {} % of VMs, blocks and bytes.",
        vaai.published.hosts,
        daily.vms_per_host,
        daily.growths,
        daily.pause.0.as_millis(),
        daily.first_writes,
        daily.deployed,
        bytes(daily.deployed_disk.0 as f64),
        bytes(daily.moved_disk.0 as f64),
        bytes(daily.moved_region.0 as f64),
        bytes(daily.deleted_disk.0 as f64),
        plain(100.0 * daily.quick_share),
    )
}

/// What the run does not show.
fn limits(judgement: &Judgement<'_>) -> String {
    if judgement.run.is_model {
        return "The model's network loses nothing and has no other traffic, its drives have no defects, and the disks that are zeroed and \
                cloned as published hold zeros: whether the right bytes arrive there is what the real form verifies. What a processor works is proportional to commands and bytes; caches that \
                miss and interrupts that come in bunches are not in it."
            .into();
    }
    let mut text = String::from(
        "Loopback has no wire: without offload the data moves at the speed of two processors copying memory, several times that of 1 GbE, so the \
         time that offload saves on a real network is larger than here. Packets are those that Ethernet would carry, because segments are limited to \
         the same size; acknowledgements are fewer than on a real network.",
    );
    let undecided = judgement.claims.iter().filter(|c| c.verdict == Verdict::Undecided).count();
    if undecided > 0 {
        let checks = if undecided == 1 { "one check".to_owned() } else { format!("{undecided} checks") };
        text += &format!(
            "\n\nFor {checks} the bound lies within the interval: more repeats, or a quieter machine, would decide."
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_they_deserve() {
        let all = [99.957, 75.0, 71.46, 1.046, 1234.5, 0.0];
        assert_eq!(all.map(plain), ["99.96", "75", "71.5", "1.05", "1234", "0"]);
        assert_eq!(value(&Estimate { mean: 98.9, low: 98.7, high: 99.1 }), "98.90 ± 0.20");
        assert_eq!(value(&Estimate { mean: 84.4, low: 64.2, high: 104.6 }), "84 ± 20");
        assert_eq!(value(&Estimate::exact(100.0)), "100");
        assert_eq!(
            [12.0, 1.25, 0.034, 0.0041, 0.00003].map(seconds),
            ["12 s", "1.2 s", "34 ms", "4.1 ms", "30 µs"]
        );
        assert_eq!(
            [4157.0, 12.0, 1_234_567.0, 130_000.0].map(count),
            ["4,157", "12", "1.2 million", "130,000"]
        );
        assert_eq!(
            [2.0 * f64::from(1 << 30), 1.5 * f64::from(1 << 20), 4096.0].map(bytes),
            ["2 GiB", "1.5 MiB", "4 KiB"]
        );
    }

    #[test]
    fn a_finding_costs_what_the_better_way_saves() {
        let words = |time, least| more_than(time, least).map(Cost::words);
        assert_eq!(words(Some(8.0), Some(2.0)).as_deref(), Some("75 % of response time"));
        assert_eq!(words(Some(2.0), Some(8.0)).as_deref(), Some("0 % of response time"));
        assert_eq!((words(None, Some(2.0)), words(Some(8.0), None)), (None, None));
    }
}
