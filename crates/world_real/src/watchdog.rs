//! The watchdog. When the loop of a world does not turn, it reports that, then ends the process with the
//! stacks of its threads in the log. A panic on any thread also ends the process. A dead part is a dead
//! process: the hosts' sessions end, the supervisor restarts the process, and the hosts return. A process
//! that continued without one of its parts would hang its hosts.

use std::backtrace::Backtrace;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::pulse::{Pulse, pulses};
use crate::stacks;

/// How long a loop may stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogLimits {
    /// The interval of checks. Silence is counted in checks, not by the clock: a process that was stopped and
    /// continued was not silent.
    pub interval: Duration,
    /// Reported after this time.
    pub slow: Duration,
    /// The process ends after this time.
    pub dead: Duration,
}

impl Default for WatchdogLimits {
    fn default() -> WatchdogLimits {
        WatchdogLimits {
            interval: Duration::from_secs(1),
            slow: Duration::from_secs(10),
            dead: Duration::from_secs(30),
        }
    }
}

/// An observation of the watchdog.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Watched {
    /// A check found no dead world. Sent at every check, for a supervisor of the watchdog.
    Looked,
    /// A loop has not turned for `slow`.
    Slow {
        thread: String,
        /// The time so far.
        silent: Duration,
    },
    /// The loop turns again.
    Again {
        thread: String,
        /// The time that it did not turn.
        silent: Duration,
    },
    /// A loop has not turned for `dead`: after this report, the process ends.
    Dead {
        thread: String,
        /// The time so far.
        silent: Duration,
        /// The stacks of all threads.
        stacks: String,
    },
}

/// Starts a thread that watches every world of this process, including those that start later.
pub fn start_watchdog(limits: WatchdogLimits, tell: impl FnMut(Watched) + Send + 'static) -> io::Result<()> {
    stacks::prepare()?;
    thread::Builder::new().name("watchdog".into()).spawn(move || watch(limits, tell)).map(drop)
}

/// From now on a panic of any thread is logged with its backtrace and ends the process.
pub fn abort_on_panic(log: impl Fn(&str) + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |panic| {
        let thread = thread::current().name().unwrap_or("unnamed").to_owned();
        log(&format!("thread {thread:?}: {panic}\n{}", Backtrace::force_capture()));
        std::process::abort();
    }));
}

/// One loop, as it was at the last look.
struct Seen {
    pulse: Arc<Pulse>,
    turns: u64,
    silent: Duration,
}

fn watch(limits: WatchdogLimits, mut tell: impl FnMut(Watched)) {
    let mut seen: Vec<Seen> = Vec::new();
    loop {
        thread::sleep(limits.interval);
        let now = pulses();
        seen.retain(|old| now.iter().any(|pulse| Arc::ptr_eq(pulse, &old.pulse)));
        for pulse in now {
            match seen.iter_mut().find(|old| Arc::ptr_eq(&pulse, &old.pulse)) {
                Some(old) => old.look(limits, &mut tell),
                None => seen.push(Seen { turns: pulse.turns(), silent: Duration::ZERO, pulse }),
            }
        }
        // The watchdog's own hold must not keep a pulse alive whose world has ended.
        seen.retain(|old| Arc::strong_count(&old.pulse) > 1);
        seen.iter().for_each(|old| old.pulse.ask());
        tell(Watched::Looked);
    }
}

impl Seen {
    fn look(&mut self, limits: WatchdogLimits, tell: &mut impl FnMut(Watched)) {
        let turns = self.pulse.turns();
        let thread = || self.pulse.thread.clone();
        if turns != self.turns {
            if self.silent >= limits.slow {
                tell(Watched::Again { thread: thread(), silent: self.silent });
            }
            (self.turns, self.silent) = (turns, Duration::ZERO);
            return;
        }
        let before = self.silent;
        self.silent += limits.interval;
        let silent = self.silent;
        if before < limits.slow && silent >= limits.slow {
            tell(Watched::Slow { thread: thread(), silent });
        }
        if silent >= limits.dead {
            tell(Watched::Dead { thread: thread(), silent, stacks: stacks::of_all_threads() });
            std::process::abort();
        }
    }
}
