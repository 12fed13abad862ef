//! The clock: monotonic, one origin for the whole process.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use world::Instant;

/// All worlds of a process count from the same origin, so that a time stamp may cross from one thread to
/// another. In nanoseconds of the system's monotonic clock.
static ORIGIN_NS: OnceLock<u64> = OnceLock::new();

/// The current time. Read from the kernel's shared page on every call (about 25 ns, no system call) rather
/// than once per turn of the loop: otherwise a latency histogram would show all operations of a batch as
/// ending together. A command reads it several times, so in nanoseconds at once: the seconds and nanoseconds
/// of `std::time` cost as much again as the read.
pub(crate) fn now() -> Instant {
    let now = system_ns();
    Instant(now.saturating_sub(*ORIGIN_NS.get_or_init(|| now)))
}

fn system_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Both are positive: the clock counts from the start of the system.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The time of day at a time of the world's clock, as the system's clock has it now.
pub fn time_of_day(at: Instant) -> SystemTime {
    let (now, today) = (now(), SystemTime::now());
    today - now.since(at) + at.since(now)
}

/// CPU time of this thread.
pub(crate) fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), u32::try_from(used.tv_nsec).unwrap_or(0))
}
