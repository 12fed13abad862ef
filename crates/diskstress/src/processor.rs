//! Processor time of the whole machine and of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time so far. The machine's is in the ticks of `/proc/stat` (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// All ticks of all processors.
    pub all: u64,
    /// Of these, ticks that were not idle.
    pub busy: u64,
    /// Of these, ticks stolen by a hypervisor.
    pub steal: u64,
    /// Processor time of this process.
    pub process: Duration,
}

/// Processor load over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Load of all processors together, percent.
    pub machine_percent: f64,
    /// Steal time of all processors together, percent.
    pub steal_percent: f64,
    /// Load of this process; one full processor is 100.
    pub process_percent: f64,
}

/// The machine's line of `/proc/stat`; zeros if there is none.
fn machine(stat: &str) -> Used {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or("");
    let ticks: Vec<u64> = line.split_whitespace().map_while(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; time of guests is in user already.
    let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
    let busy = [0, 1, 2, 5, 6].map(at).into_iter().fold(0u64, u64::saturating_add);
    let all = [3, 4, 7].map(at).into_iter().fold(busy, u64::saturating_add);
    Used { all, busy, steal: at(7), process: Duration::ZERO }
}

impl Used {
    /// Reads the processor time so far.
    pub fn now() -> Used {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let process = Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32);
        Used { process, ..machine(&std::fs::read_to_string("/proc/stat").unwrap_or_default()) }
    }

    /// The load from `before` to this, over `seconds`.
    pub fn since(&self, before: &Used, seconds: f64) -> Load {
        let share = |of: fn(&Used) -> u64| {
            let all = self.all.saturating_sub(before.all).max(1);
            100.0 * of(self).saturating_sub(of(before)) as f64 / all as f64
        };
        let process = self.process.saturating_sub(before.process).as_secs_f64();
        Load {
            machine_percent: share(|u| u.busy),
            steal_percent: share(|u| u.steal),
            process_percent: if seconds > 0.0 { 100.0 * process / seconds } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_processors() {
        let before = machine("cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 1 2 3\n");
        let after = Used { process: Duration::from_secs(1), ..machine("cpu  150 0 70 1000 60 5 5 10 7 0\n") };
        let load = after.since(&before, 2.0);
        assert!((load.machine_percent - 70.0 / 3.0).abs() < 1e-9, "{load:?}");
        assert!((load.steal_percent - 10.0 / 3.0).abs() < 1e-9 && load.process_percent == 50.0, "{load:?}");
        for odd in ["", "cpu", "cpu x y", "cpu 1 2"] {
            assert_eq!(machine(odd).since(&machine(odd), 0.0), Load::default());
        }
        assert!(Used::now().all > 0);
    }
}
