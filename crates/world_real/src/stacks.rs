//! The state of every thread of the process: its position in the kernel, from /proc, and in the program, from
//! a signal that each thread answers with its backtrace. For a process that is about to end.

use std::backtrace::Backtrace;
use std::fmt::Write;
use std::fs;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A thread that does not answer in this time hangs in the kernel, or in the middle of an allocation. Long,
/// because the first backtrace reads the program's debug information.
const ANSWER_TIME: Duration = Duration::from_secs(5);
const ANSWER_PAUSE: Duration = Duration::from_millis(1);

static ANSWER: Mutex<String> = Mutex::new(String::new());
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// A real-time signal that nobody else in this program uses.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

extern "C" fn answer(_: libc::c_int) {
    let stack = Backtrace::force_capture().to_string();
    *ANSWER.lock().unwrap_or_else(PoisonError::into_inner) = stack;
    ANSWERED.store(true, Ordering::SeqCst);
}

/// Makes threads answer the signal.
pub(crate) fn prepare() -> io::Result<()> {
    // SAFETY: the structure is plain data, and all zeros is a valid value of it. The handler allocates and
    // locks, which is not allowed to a handler in general: it runs only in a process whose end is decided,
    // where the worst that comes of it is a thread that never answers, and nobody waits for that longer than
    // `ANSWER_TIME`.
    let outcome = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = answer as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal(), &action, ptr::null_mut())
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Where every thread is.
pub(crate) fn of_all_threads() -> String {
    let mut out = String::new();
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return out };
    let own = rustix::thread::gettid().as_raw_pid();
    for entry in threads.flatten() {
        let read = |what: &str| fs::read_to_string(entry.path().join(what)).unwrap_or_default();
        let Some(id) = entry.file_name().to_str().and_then(|id| id.parse::<i32>().ok()) else { continue };
        let (name, waits, call) = (read("comm"), read("wchan"), read("syscall"));
        let (name, waits, call) = (name.trim(), waits.trim(), call.trim());
        let _ = writeln!(out, "thread {id} {name:?}: in the kernel at {waits}, system call {call}");
        // Only for the superuser.
        out.push_str(&read("stack"));
        if id != own {
            let stack = ask(id).unwrap_or_else(|| "does not answer: it hangs in the kernel".into());
            let _ = writeln!(out, "{}", stack.trim_end());
        }
    }
    out
}

/// Asks one thread for its backtrace.
fn ask(thread: i32) -> Option<String> {
    ANSWERED.store(false, Ordering::SeqCst);
    let process = rustix::process::getpid().as_raw_pid();
    // SAFETY: the call takes numbers only; a thread that is gone is an error.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal()) };
    let end = Instant::now() + ANSWER_TIME;
    while sent == 0 && Instant::now() < end {
        if ANSWERED.load(Ordering::SeqCst) {
            return Some(std::mem::take(&mut *ANSWER.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        thread::sleep(ANSWER_PAUSE);
    }
    None
}
