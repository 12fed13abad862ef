//! The watchdog: a world whose loop does not turn is told, then the process ends with the stacks of its threads in the log. And a
//! panic on any thread ends the process. A dead part is a dead process: hosts' sessions end, whoever supervises the process
//! starts it again, and the hosts come back; a process that goes on without a part of it hangs its hosts.

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
    /// How often is looked. Silence is counted in looks, not by the clock: a process that was stopped and goes on was not silent.
    pub interval: Duration,
    /// After this it is told.
    pub slow: Duration,
    /// After this the process ends.
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

/// What the watchdog saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// It looked; none is dead. Told at every look, for whoever watches the watchdog.
    Looked,
    /// A loop has not turned for `slow`.
    Slow {
        /// Its thread.
        thread: String,
        /// For how long.
        silent: Duration,
    },
    /// It turns again.
    Again {
        /// Its thread.
        thread: String,
        /// For how long it did not.
        silent: Duration,
    },
    /// A loop has not turned for `dead`: when this is told, the process ends.
    Dead {
        /// Its thread.
        thread: String,
        /// For how long.
        silent: Duration,
        /// What every thread of the process does.
        stacks: String,
    },
}

/// Starts a thread that watches every world of this process, those that start later, too.
pub fn start_watchdog(limits: WatchdogLimits, tell: impl FnMut(Watched) + Send + 'static) -> io::Result<()> {
    stacks::prepare()?;
    thread::Builder::new().name("watchdog".into()).spawn(move || watch(limits, tell)).map(drop)
}

/// From here on a panic of any thread is logged with its backtrace, and ends the process.
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
