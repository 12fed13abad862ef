//! The ring: set-up with what the kernel offers, entries in, results out, one system call per turn.

use std::io;
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode};

use crate::RunError;

/// How long one turn may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Not at all.
    No,
    /// Until something ends, or for this long.
    AtMost(Duration),
    /// Until something ends.
    Forever,
}

/// An operation that ended: its number and the kernel's result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) id: u64,
    pub(crate) result: i32,
}

/// One thread's ring.
pub(crate) struct Ring {
    io: IoUring,
    ended: Vec<Ended>,
}

/// Completions come in larger bursts than submissions: multishot operations (accepts, receives) end together.
const RESULTS_PER_ENTRY: u32 = 4;

/// Limit of operations in the kernel's worker threads.
const KERNEL_THREADS_MAX: u32 = 1024;

impl Ring {
    pub(crate) fn new(entries: u32) -> Result<Ring, RunError> {
        let io = build(entries)?;
        let params = io.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(RunError::Ring {
                cause: "the kernel's io_uring is too old: Linux 5.11 or later is required".into(),
            });
        }
        check_opcodes(&io)?;
        // A hanging drive blocks one kernel worker per operation; other operations must still find one.
        // (Linux 5.15; older kernels have a few threads per CPU.)
        let _ = io.submitter().register_iowq_max_workers(&mut [KERNEL_THREADS_MAX, 0]);
        // Saves the look-up of the descriptor on every enter (Linux 5.18); older kernels do without.
        let _ = io.submitter().register_ring_fd();
        Ok(Ring { io, ended: Vec::with_capacity(entries as usize * RESULTS_PER_ENTRY as usize) })
    }

    /// Queues an entry for the next turn.
    ///
    /// # Safety
    ///
    /// Whatever the entry points to must stay where it is, and untouched, until its result is reaped.
    pub(crate) unsafe fn push(&mut self, entry: &Entry) {
        // SAFETY: the caller promises what `push` asks for.
        while unsafe { self.io.submission().push(entry) }.is_err() {
            // The queue is full: submit early. Temporary errors (EAGAIN, EBUSY) are retried after reaping;
            // others recur in `turn`, which reports them.
            crate::term::check();
            let _ = self.io.submit();
            self.reap();
        }
    }

    /// Submits all queued entries, sleeps if requested, and reaps.
    pub(crate) fn turn(&mut self, sleep: Sleep) -> io::Result<()> {
        // A full queue caused early reaping: nothing else may end, so do not sleep.
        let sleep = if self.ended.is_empty() { sleep } else { Sleep::No };
        crate::term::check();
        let entered = match sleep {
            Sleep::No => {
                let queue = self.io.submission();
                let idle = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
                drop(queue);
                if idle { Ok(0) } else { self.io.submit() }
            }
            Sleep::AtMost(time) => {
                let time = Timespec::from(time);
                self.io.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
            Sleep::Forever => self.io.submit_and_wait(1),
        };
        self.reap();
        match entered {
            Ok(_) => Ok(()),
            // ETIME: the deadline came. EINTR: a signal. EBUSY, EAGAIN: too many results or too little memory
            // for now; the entries are still queued.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) =>
            {
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Whether there are completions, or kernel work that becomes a completion when this thread asks. Reads
    /// memory only.
    pub(crate) fn has_news(&mut self) -> bool {
        if !self.io.completion().is_empty() {
            return true;
        }
        let queue = self.io.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    fn reap(&mut self) {
        for entry in self.io.completion() {
            self.ended.push(Ended { id: entry.user_data(), result: entry.result() });
        }
    }

    /// Swaps the completions with `into`, which must be empty.
    pub(crate) fn take_ended(&mut self, into: &mut Vec<Ended>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut self.ended, into);
    }
}

/// The fastest set-up first: completions only when this thread asks (6.1), or without interrupting it (5.19),
/// or as in 5.11.
fn build(entries: u32) -> Result<IoUring, RunError> {
    let sized = || {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(entries.saturating_mul(RESULTS_PER_ENTRY));
        builder
    };
    let mut deferred = sized();
    deferred.setup_submit_all().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    let mut cooperative = sized();
    cooperative.setup_submit_all().setup_coop_taskrun().setup_taskrun_flag();
    let plain = sized();
    let mut last = None;
    for builder in [deferred, cooperative, plain] {
        match builder.build(entries) {
            Ok(io) => return Ok(io),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => last = Some(e),
            Err(e) => return Err(refused(&e)),
        }
    }
    Err(refused(&last.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))))
}

/// The error text without a ring.
fn refused(e: &io::Error) -> RunError {
    let cause = match e.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring: Linux 5.11 or later is required".to_owned(),
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is disabled; allow io_uring_setup, io_uring_enter and io_uring_register in the \
             container's seccomp profile, and set sysctl kernel.io_uring_disabled to 0"
                .to_owned()
        }
        Some(libc::ENOMEM) => "no memory for the ring; raise the limit of locked memory (ulimit \
            -l)"
        .to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => "too many open files; raise the limit (ulimit -n)".to_owned(),
        _ => format!("cannot set up io_uring: {e}"),
    };
    RunError::Ring { cause }
}

fn check_opcodes(io: &IoUring) -> Result<(), RunError> {
    let mut probe = Probe::new();
    io.submitter().register_probe(&mut probe).map_err(|e| refused(&e))?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
        opcode::Recv::CODE,
        opcode::SendMsg::CODE,
        opcode::Accept::CODE,
        opcode::Connect::CODE,
        opcode::AsyncCancel::CODE,
    ];
    match needed.iter().find(|code| !probe.is_supported(**code)) {
        None => Ok(()),
        Some(code) => Err(RunError::Ring {
            cause: format!("the kernel's io_uring lacks operation {code}: Linux 5.11 or later is required"),
        }),
    }
}
