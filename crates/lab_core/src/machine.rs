//! The machine of a run, and whether others used it meanwhile.

use std::fs;

use crate::claim::Disturbed;
use crate::proc::{memory_kib, ticks_with_children};
use crate::report::{Doubt, Machine};

/// CPU time of the machine in ticks, from `/proc/stat` (proc(5)).
#[derive(Clone, Copy, Debug, Default)]
struct CpuTicks {
    total: u64,
    steal: u64,
    /// Idle, waiting for drives, or in interrupts.
    idle: u64,
}

fn cpu_ticks(stat: &str) -> CpuTicks {
    let line = stat.lines().find(|l| l.starts_with("cpu ")).unwrap_or("");
    let numbers: Vec<u64> = line.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    let at = |i: usize| numbers.get(i).copied().unwrap_or(0);
    // user nice system idle iowait irq softirq steal; guest times are in user already. Interrupts belong to
    // nobody: on loopback most of them are the run's own packets.
    CpuTicks { total: numbers.iter().take(8).sum(), steal: at(7), idle: at(3) + at(4) + at(5) + at(6) }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Of this process, and of programs that it started: the guest of a run is not foreign work.
fn own() -> u64 {
    ticks_with_children(&read("/proc/self/stat")).unwrap_or(0)
}

/// What is watched from the start of a run.
pub struct Watch {
    ticks: CpuTicks,
    own: u64,
    load: f64,
    swapped: u64,
}

/// Above these shares of CPU time a window is contaminated: the hypervisor below gave the processors to
/// others, or other processes here took them.
const STEAL_PERCENT_MAX: f64 = 2.0;
const OTHERS_PERCENT_MAX: f64 = 10.0;

impl Watch {
    /// Begins.
    pub fn start() -> Watch {
        Watch { ticks: cpu_ticks(&read("/proc/stat")), own: own(), load: load(), swapped: swapped() }
    }

    /// The machine, with load and steal since the start, and what others did to the run.
    pub fn end(&self) -> (Machine, Disturbances) {
        let now = cpu_ticks(&read("/proc/stat"));
        let total = now.total.saturating_sub(self.ticks.total).max(1) as f64;
        let percent = |ticks: u64| 100.0 * ticks as f64 / total;
        let steal = percent(now.steal.saturating_sub(self.ticks.steal));
        let own = own().saturating_sub(self.own);
        let busy = now.total.saturating_sub(self.ticks.total)
            - now.idle.saturating_sub(self.ticks.idle).min(total as u64);
        let others = percent(busy.saturating_sub(own)) - steal;
        let machine = Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            cores: crate::parallel::cores(),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            distribution: distribution(&read("/etc/os-release")),
            drives: drives(),
            network: network(),
            memory: memory(),
            load: round((self.load + load()) / 2.0),
            steal: round(steal),
        };
        (machine, disturbances(steal, others, swapped().saturating_sub(self.swapped)))
    }
}

/// What others did to a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disturbances {
    /// What makes it doubtful.
    pub doubts: Vec<Doubt>,
    /// By how much that may have prolonged a time.
    pub disturbed: Disturbed,
}

/// Another on each processor makes a time twice as long; others who took more than half of them, as much
/// longer as less was left. How long memory waited that was swapped out nobody knows.
fn disturbances(steal: f64, others: f64, swapped: u64) -> Disturbances {
    let doubts = doubts(steal, others, swapped);
    let left = 1.0 - ((steal + others) / 100.0).clamp(0.0, 1.0);
    let times = if swapped > 0 { f64::INFINITY } else { (1.0 / left).max(2.0) };
    let disturbed = Disturbed { times: (!doubts.is_empty()).then_some(times) };
    Disturbances { doubts, disturbed }
}

fn doubts(steal: f64, others: f64, swapped: u64) -> Vec<Doubt> {
    let effect = "Times and their intervals are wider than on a machine of its own; packets, drive I/O and contents are not touched.";
    let mut out = Vec::new();
    let mut doubt = |text: String| out.push(Doubt::new(text, Some(effect.into())));
    if steal > STEAL_PERCENT_MAX {
        doubt(format!(
            "The hypervisor below took {steal:.1} % of the CPU time during the run (more than {STEAL_PERCENT_MAX} %)."
        ));
    }
    if others > OTHERS_PERCENT_MAX {
        doubt(format!(
            "Other processes used {others:.0} % of this machine's CPU time during the run (more than {OTHERS_PERCENT_MAX} %)."
        ));
    }
    if swapped > 0 {
        doubt(format!("{swapped} pages were swapped out during the run."));
    }
    out
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn load() -> f64 {
    read("/proc/loadavg").split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

fn swapped() -> u64 {
    let text = read("/proc/vmstat");
    text.lines().find_map(|l| l.strip_prefix("pswpout ")).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn field(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().into())
}

/// "Debian GNU/Linux 13 (trixie)", os-release(5).
fn distribution(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(String::new, |name| name.trim_matches(['"', '\'']).to_owned())
}

/// So many drives or interfaces are named: a host may have hundreds of either.
const DEVICES_MAX: usize = 16;

/// Entries of a folder of sysfs, in order of their names.
fn devices(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// "sda: MODEL, 447.1 GiB" of each block device with hardware below it; mapped and loop devices have none.
fn drives() -> Vec<String> {
    let found = devices("/sys/block").into_iter().filter_map(|name| {
        let folder = format!("/sys/block/{name}");
        fs::symlink_metadata(format!("{folder}/device")).ok()?;
        drive(&name, &read(&format!("{folder}/device/model")), &read(&format!("{folder}/size")))
    });
    found.take(DEVICES_MAX).collect()
}

/// Nothing of a drive without a medium.
fn drive(name: &str, model: &str, sectors: &str) -> Option<String> {
    // sysfs counts in units of 512 bytes whatever the drive's sectors are.
    let sectors = sectors.trim().parse::<u64>().ok().filter(|&sectors| sectors > 0)?;
    let size = sectors as f64 / f64::from(1 << 21);
    let model = model.trim();
    Some(if model.is_empty() {
        format!("{name}: {size:.1} GiB")
    } else {
        format!("{name}: {model}, {size:.1} GiB")
    })
}

/// "eth0: virtio_net, 10000 Mbit/s" of each interface that has hardware below it.
fn network() -> Vec<String> {
    let found = devices("/sys/class/net").into_iter().filter_map(|name| {
        let folder = format!("/sys/class/net/{name}");
        fs::symlink_metadata(format!("{folder}/device")).ok()?;
        let driver = fs::read_link(format!("{folder}/device/driver")).ok();
        let driver = driver.as_ref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
        Some(interface(&name, driver.unwrap_or(""), &read(&format!("{folder}/speed"))))
    });
    found.take(DEVICES_MAX).collect()
}

/// A speed that the driver does not tell is -1, or cannot be read.
fn interface(name: &str, driver: &str, speed: &str) -> String {
    let speed = speed.trim().parse::<u64>().ok().filter(|&speed| speed > 0);
    let speed = speed.map(|speed| format!("{speed} Mbit/s"));
    let known = [Some(driver.to_owned()).filter(|driver| !driver.is_empty()), speed];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { name.to_owned() } else { format!("{name}: {}", known.join(", ")) }
}

/// The memory of this machine; `None` where the system does not say.
pub fn memory_bytes() -> Option<u64> {
    memory_kib(&read("/proc/meminfo"), "MemTotal").map(|kib| kib * 1024)
}

fn memory() -> String {
    memory_kib(&read("/proc/meminfo"), "MemTotal")
        .map_or_else(|| "unknown".into(), |kib| format!("{:.1} GiB", kib as f64 / f64::from(1 << 20)))
}

/// Now, as RFC 3339 in UTC.
pub fn now_rfc3339() -> String {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    rfc3339(since)
}

/// Days to civil date: the algorithm of the proleptic Gregorian calendar with years that begin in March.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_distribution_drives_and_network() {
        let text = "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n";
        assert_eq!(distribution(text), "Debian GNU/Linux 13 (trixie)");
        assert_eq!(distribution("PRETTY_NAME"), "");
        assert_eq!(drive("sda", " DISK 9 \n", "937703088\n").as_deref(), Some("sda: DISK 9, 447.1 GiB"));
        assert_eq!(drive("vda", "", "2097152\n").as_deref(), Some("vda: 1.0 GiB"));
        assert_eq!(drive("sr0", "DVD", "0\n"), None);
        assert_eq!(interface("eth0", "virtio_net", "-1\n"), "eth0: virtio_net");
        assert_eq!(interface("eth1", "ice", "25000\n"), "eth1: ice, 25000 Mbit/s");
        assert_eq!(interface("eth2", "", "x"), "eth2");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_795_183_500, "2026-11-20T14:05:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn proc_is_read() {
        let ticks = cpu_ticks("cpu  10 1 5 100 4 0 2 8 0 0\ncpu0 1 2 3\n");
        assert_eq!((ticks.total, ticks.steal, ticks.idle), (130, 8, 106));
        assert_eq!(doubts(1.0, 5.0, 0).len(), 0);
        assert_eq!(doubts(3.0, 50.0, 1).len(), 3);
        for (steal, others, swapped, times) in [
            (1.0, 5.0, 0, None),
            (0.0, 12.0, 0, Some(2.0)),
            (5.0, 70.0, 0, Some(4.0)),
            (0.0, 0.0, 1, Some(f64::INFINITY)),
        ] {
            assert_eq!(
                disturbances(steal, others, swapped).disturbed.times,
                times,
                "{steal} {others} {swapped}"
            );
        }
        let (machine, _) = Watch::start().end();
        assert!(machine.cores > 0 && !machine.kernel.is_empty(), "{machine:?}");
    }
}
