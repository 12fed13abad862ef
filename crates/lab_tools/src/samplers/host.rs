//! The counters of the machine this runs on.

use std::io::{self, Read};

use super::counter::Counter;
use super::proc_text;

/// What of the machine is sampled.
#[derive(Clone, Debug, Default)]
pub struct HostPlan {
    /// These drives as `/proc/diskstats` names them; none: all that are used.
    pub drives: Vec<String>,
    /// These interfaces; none: all but the loopback.
    pub networks: Vec<String>,
    /// Processor time of these processes.
    pub processes: Vec<u32>,
}

/// Reads it.
pub struct Host {
    plan: HostPlan,
    ticks_per_s: u64,
}

/// The longest text that is read: 4,096 processors of 120 bytes each in `/proc/stat`, and what follows them.
const TEXT_BYTES_MAX: u64 = 4 << 20;

#[expect(clippy::disallowed_types, reason = "a file of /proc, of which no more is read than it may have")]
fn read(path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(TEXT_BYTES_MAX).read_to_end(&mut bytes)?;
    // A process may call itself anything.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Host {
    /// Of this machine.
    pub fn new(plan: HostPlan) -> Host {
        Host { plan, ticks_per_s: rustix::param::clock_ticks_per_second() }
    }

    /// The first drive, interface or process of the plan that this machine does not have, as the command line
    /// names it: "drive sdx", and where to look for those that it has.
    ///
    /// # Errors
    ///
    /// A text of `/proc` that cannot be read.
    pub fn missing(&self) -> Result<Option<(String, &'static str)>, String> {
        let text = |path: &str| read(path).map_err(|e| format!("{path}: {e}"));
        let (drives, networks) = (text("/proc/diskstats")?, text("/proc/net/dev")?);
        for drive in &self.plan.drives {
            if proc_text::drives(&drives, std::slice::from_ref(drive)).is_empty() {
                return Ok(Some((format!("drive {drive}"), "/proc/diskstats")));
            }
        }
        for network in &self.plan.networks {
            if proc_text::networks(&networks, std::slice::from_ref(network)).is_empty() {
                return Ok(Some((format!("network {network}"), "/proc/net/dev")));
            }
        }
        let is_gone = |pid: &&u32| read(&format!("/proc/{pid}/stat")).is_err();
        let gone = self.plan.processes.iter().find(is_gone);
        Ok(gone.map(|pid| (format!("pid {pid}"), "/proc")))
    }

    /// Everything that is counted now. A process that ended has no more counters.
    pub fn read(&self) -> Result<Vec<Counter>, String> {
        let text = |path: &str| read(path).map_err(|e| format!("{path}: {e}"));
        let mut out = proc_text::processors(&text("/proc/stat")?);
        out.extend(proc_text::memory(&text("/proc/meminfo")?));
        out.extend(proc_text::drives(&text("/proc/diskstats")?, &self.plan.drives));
        out.extend(proc_text::networks(&text("/proc/net/dev")?, &self.plan.networks));
        for process in &self.plan.processes {
            let stat = read(&format!("/proc/{process}/stat")).unwrap_or_default();
            out.extend(proc_text::process(&stat, self.ticks_per_s));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read() {
        let host =
            Host::new(HostPlan { processes: vec![std::process::id(), u32::MAX], ..HostPlan::default() });
        let counters = host.read().expect("reads");
        let has = |resource: &str| counters.iter().any(|c| c.column.resource.starts_with(resource));
        assert!(has("cpu") && has("memory"), "{counters:?}");
        let missing = |plan: HostPlan| Host::new(plan).missing().expect("reads").map(|(what, _)| what);
        let own = std::process::id();
        for (plan, expected) in [
            (HostPlan { processes: vec![own], networks: vec!["lo".into()], ..HostPlan::default() }, None),
            (HostPlan { drives: vec!["nosuch".into()], ..HostPlan::default() }, Some("drive nosuch")),
            (HostPlan { networks: vec!["nosuch".into()], ..HostPlan::default() }, Some("network nosuch")),
            (HostPlan { processes: vec![own, u32::MAX], ..HostPlan::default() }, Some("pid 4294967295")),
        ] {
            assert_eq!(missing(plan).as_deref(), expected);
        }
        assert!(has(&format!("process {}", std::process::id())) && !has(&format!("process {}", u32::MAX)));
    }
}
