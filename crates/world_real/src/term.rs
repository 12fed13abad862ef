//! The term of a process that owns what others may take over: after its end it does nothing more.
//!
//! A process may stand still at any place, for any time (SIGSTOP, a paused virtual machine, swapping), and
//! does not notice when it goes on. So the term is compared with the clock before each call that hands
//! operations to the kernel: writes to drives and responses to hosts leave by the same call. A thread of its
//! own ends a process whose loops sleep. What remains is a process that stands still between the comparison
//! and the call; the drives must refuse that one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{io, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use world::Instant;

/// No term: it may run for ever.
const NONE: u64 = u64::MAX;
/// The end of the term by [`boot_now`].
static UNTIL_NS: AtomicU64 = AtomicU64::new(NONE);
/// The thread looks at least so often: a term may begin at any time.
const LOOK_MAX: Duration = Duration::from_millis(100);
const LOOK_MIN: Duration = Duration::from_millis(1);
/// EX_TEMPFAIL of sysexits.h: a service manager starts it again.
const EXIT: i32 = 75;

/// Time since the machine was booted, sleep included: the same clock for all processes, and nobody sets it.
pub fn boot_now() -> Instant {
    let now = clock_gettime(ClockId::Boottime);
    Instant(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Sets the end of the term by [`boot_now`]; none: it may run for ever.
pub fn set_term(until: Option<Instant>) {
    UNTIL_NS.store(until.map_or(NONE, |until| until.0), Ordering::Release);
}

/// Starts the thread that ends the process at the end of its term.
///
/// # Errors
/// The thread cannot be started.
pub fn guard_term() -> io::Result<()> {
    let look = || {
        loop {
            check();
            let until = UNTIL_NS.load(Ordering::Acquire);
            let left = Duration::from_nanos(until.saturating_sub(boot_now().0));
            thread::sleep(left.clamp(LOOK_MIN, LOOK_MAX));
        }
    };
    thread::Builder::new().name("term".into()).spawn(look).map(drop)
}

/// Ends the process if its term has ended. Without a term this reads memory only.
pub(crate) fn check() {
    let until = UNTIL_NS.load(Ordering::Acquire);
    if until != NONE && boot_now().0 >= until {
        end("its term as the owner has ended");
    }
}

/// Whether this process is within its term as the owner.
pub(crate) fn holds() -> bool {
    let until = UNTIL_NS.load(Ordering::Acquire);
    until != NONE && boot_now().0 < until
}

/// A drive was taken over by another node. A process with a term ends at once: what it has under way must not
/// be answered, as a failure neither.
pub(crate) fn fenced(drive: &str) {
    if UNTIL_NS.load(Ordering::Acquire) != NONE {
        end(&format!("another node has taken over {drive}"));
    }
}

/// Ends the process at once: nothing is flushed, sent or unwound, and no core is written, because another
/// process may wait for the files of this one.
pub fn end(cause: &str) -> ! {
    let text = format!("masu: {cause}: the process ends at once\n");
    let log = io::stderr();
    let mut fds = [PollFd::new(&log, PollFlags::OUT)];
    // A log that nobody reads must not delay the end.
    if poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
        let _ = rustix::io::write(&log, text.as_bytes());
    }
    // SAFETY: _exit only ends the process.
    unsafe { libc::_exit(EXIT) }
}
