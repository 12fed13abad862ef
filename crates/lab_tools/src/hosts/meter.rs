//! What a host spends: time, its thread's CPU clock, and packets as the kernel counts them.

use std::time::Duration;

use world::{Instant, TcpCounts};

/// The CPU time of the calling thread, user and system: `CLOCK_THREAD_CPUTIME_ID`.
pub fn thread_cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec.unsigned_abs() as u32)
}

/// What stands on the meters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The world's clock.
    pub at: Instant,
    /// The thread's CPU clock.
    pub cpu: Duration,
    /// Sums over the host's connections.
    pub tcp: TcpCounts,
}

/// What was spent between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Wall time.
    pub time_s: f64,
    /// CPU time of the host's thread.
    pub host_cpu_s: f64,
    /// Segments sent.
    pub packets_out: f64,
    /// Segments received.
    pub packets_in: f64,
    /// Bytes sent.
    pub bytes_out: f64,
    /// Bytes received.
    pub bytes_in: f64,
}

impl Spent {
    /// The difference of two readings.
    pub fn between(before: &Reading, after: &Reading) -> Spent {
        let difference = |of: fn(&TcpCounts) -> u64| of(&after.tcp).saturating_sub(of(&before.tcp)) as f64;
        Spent {
            time_s: after.at.since(before.at).as_secs_f64(),
            host_cpu_s: after.cpu.saturating_sub(before.cpu).as_secs_f64(),
            packets_out: difference(|t| t.segments_out),
            packets_in: difference(|t| t.segments_in),
            bytes_out: difference(|t| t.bytes_out),
            bytes_in: difference(|t| t.bytes_in),
        }
    }

    /// Packets both ways.
    pub fn packets(&self) -> f64 {
        self.packets_out + self.packets_in
    }
}

/// The sum of several connections.
pub fn sum(counts: impl Iterator<Item = TcpCounts>) -> TcpCounts {
    counts.fold(TcpCounts::default(), |a, b| TcpCounts {
        segments_out: a.segments_out + b.segments_out,
        segments_in: a.segments_in + b.segments_in,
        bytes_out: a.bytes_out + b.bytes_out,
        bytes_in: a.bytes_in + b.bytes_in,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_spends_cpu_and_one_that_sleeps_does_not() {
        let before = thread_cpu();
        std::thread::sleep(Duration::from_millis(30));
        let slept = thread_cpu() - before;
        assert!(slept < Duration::from_millis(10), "{slept:?}");
        let before = thread_cpu();
        let mut n = 0u64;
        while thread_cpu() - before < Duration::from_millis(5) {
            n = n.wrapping_add(1);
        }
        assert!(n > 0);
    }
}
