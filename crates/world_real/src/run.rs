//! Running a world: the loop of one thread.

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use world::io::Completions;
use world::{
    Drive, DriveSpec, FenceError, Instant, Io, Listener, NetError, OpenError, Stream, StreamOptions,
    TaskBackend, World, WorldBackend,
};

use crate::error::RunError;
use crate::executor::{ROOT, Tasks};
use crate::file_drive::OpenMedium;
use crate::local::Local;
use crate::operations::{BellOp, Op};
use crate::pulse::Pulse;
use crate::reactor::Reactor;
use crate::ring::{Ring, Sleep};
use crate::wake::{Header, Mailbox};
use crate::watch::{WATCH_TIME_MAX, Watch};
use crate::{clock, connect, file_open, image_open, listener, memory_drive, rbd, reservation};

/// How a world runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Seed of the random streams.
    pub seed: u64,
    /// The CPU of the thread; `None`: any.
    pub cpu: Option<usize>,
    /// Entries of the submission queue. A turn that submits more makes more system calls; nothing is lost.
    pub ring_entries: u32,
    /// Whether the thread, after short sleeps, polls for at most 20 us before it sleeps again: less CPU time
    /// and latency per command under load, at most 20 us of CPU time per wait otherwise.
    pub watch: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { seed: 0, cpu: None, ring_entries: 1024, watch: true }
    }
}

/// Whether somebody who has this drive open is fenced by a command ([`World::fence`]), and not by the
/// kernel's lock alone, which other machines do not see: an RBD image, and a device of an array that
/// reserves them ([`crate::reserve_devices`]).
pub fn is_fenced_by_command(spec: &DriveSpec) -> bool {
    match spec {
        DriveSpec::Rbd(_) => true,
        DriveSpec::Device { .. } => reservation::is_required(),
        _ => false,
    }
}

/// Opening a drive fails after this time: longer than a disk takes to spin up.
const OPEN_TIME_MAX: Duration = Duration::from_secs(12);
/// Fencing the holder of a drive fails after this time.
const FENCE_TIME_MAX: Duration = Duration::from_secs(12);
/// How long the end of a world waits for its files to be closed, so that they can be opened again; not
/// longer, because one may hang.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// Polls between two turns of the ring: enough to gather a batch of submissions, few enough to serve sockets
/// when tasks keep each other busy.
const POLLS_PER_TURN_MAX: usize = 512;
/// Time of polls between two turns: some may take long, and 512 of them must not keep timers, completions and
/// the watchdog waiting.
const TURN_TIME_MAX: Duration = Duration::from_millis(1);
/// So many polls share one look at the clock.
const POLLS_PER_CLOCK: usize = 8;

/// Runs one world on this thread until the future that `f` returns has ended, and returns its output.
/// Remaining tasks are dropped, and operations in flight are cancelled and awaited.
pub fn run<T, F: Future<Output = T>>(options: Options, f: impl FnOnce(World) -> F) -> Result<T, RunError> {
    if let Some(cpu) = options.cpu {
        pin_to(cpu)?;
    }
    let system = |what, cause: String| RunError::System { what, cause };
    let mailbox = Arc::new(Mailbox::new().map_err(|e| system("cannot create an eventfd", e.to_string()))?);
    let reactor = Rc::new(Reactor::new(Ring::new(options.ring_entries)?));
    if !mailbox.move_in() {
        return Err(RunError::Nested);
    }
    let backend = Rc::new(RealWorld {
        seed: options.seed,
        local: Local::new(Tasks::new(mailbox.clone()), reactor.clone()),
        reactor,
        connects: Completions::default(),
    });
    // From here on its drop tidies up, also when a task panics.
    let running = Running {
        backend: backend.clone(),
        mailbox: mailbox.clone(),
        watch: Cell::default(),
        may_watch: options.watch,
        pulse: Pulse::begin(&mailbox),
    };
    running.backend.reactor.submit(Op::Bell(BellOp::new(mailbox)));
    running.until_ended(f(World::new(backend)))
}

/// Runs one world on a new thread.
pub fn start<T, F>(
    name: &str,
    options: Options,
    f: impl FnOnce(World) -> F + Send + 'static,
) -> Result<JoinHandle<Result<T, RunError>>, RunError>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let builder = thread::Builder::new().name(name.to_owned());
    let started = builder.spawn(move || run(options, f));
    started.map_err(|e| RunError::System { what: "cannot start a thread", cause: e.to_string() })
}

/// Raises the process's limit of open files to the system's maximum, and returns the limit. A thousand
/// sessions need more than the usual 1,024.
pub fn raise_open_files_max() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A refusal leaves the limit as it was; what is reported is what holds.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail, as on a full file system. Unless it is
/// ignored, a signal ends the process there, with whatever was under way.
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no handler; SIGXFSZ is a signal that may be ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn pin_to(cpu: usize) -> Result<(), RunError> {
    let refuse = |cause: String| RunError::Pin { cpu, cause };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refuse(format!("CPU number out of range: the maximum is {}", CpuSet::MAX_CPU - 1)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| refuse(e.to_string()))
}

struct RealWorld {
    seed: u64,
    local: Local,
    reactor: Rc<Reactor>,
    connects: Completions<Result<Stream, NetError>>,
}

impl TaskBackend for RealWorld {
    fn now(&self) -> Instant {
        clock::now()
    }

    fn cpu_time(&self) -> Duration {
        clock::cpu_time()
    }

    fn sleep_until(&self, deadline: Instant) -> Io<()> {
        self.local.sleep_until(deadline)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()>>>) {
        self.local.tasks.spawn(task);
    }
}

impl WorldBackend for RealWorld {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn open_drive(&self, spec: &DriveSpec) -> Io<Result<Drive, OpenError>> {
        match spec {
            DriveSpec::File { path, create_len_bytes: len } => {
                let (path, len) = (path.clone(), *len);
                self.open_aside(spec, move || file_open::open_file(&path, len))
            }
            DriveSpec::Image { path, access } => {
                let (path, access) = (path.clone(), *access);
                self.open_aside(spec, move || image_open::open(&path, access))
            }
            DriveSpec::ImageWithin { folder, path } => {
                let (folder, path) = (folder.clone(), path.clone());
                self.open_aside(spec, move || image_open::open_within(&folder, &path))
            }
            DriveSpec::Device { path } => {
                let path = path.clone();
                self.open_aside(spec, move || file_open::open_device(&path))
            }
            DriveSpec::ReadOnly { path } => {
                let path = path.clone();
                self.open_aside(spec, move || file_open::open_read_only(&path))
            }
            DriveSpec::Rbd(image) => {
                let image = image.clone();
                self.open_with(spec, move || rbd::open(&image), rbd::OpenImage::into_drive)
            }
            DriveSpec::Memory { name, len_bytes } => Io::ready(memory_drive::open(name, *len_bytes)),
            DriveSpec::Modelled { name } => Io::ready(Err(OpenError {
                name: name.clone(),
                cause: "modelled drives require the model world".into(),
                is_absent: false,
            })),
        }
    }

    fn fence(&self, spec: &DriveSpec) -> Io<Result<Option<String>, FenceError>> {
        let (name, spec) = (spec.name(), spec.clone());
        let fences = move || match &spec {
            DriveSpec::Rbd(image) => rbd::fence(image),
            DriveSpec::Device { path } => reservation::fence(path),
            _ => Err("only RBD images and block devices can be fenced".to_owned()),
        };
        self.local.ask(&PathBuf::from(&name), Some(FENCE_TIME_MAX), fences, move |fenced| {
            let silent = || Err(format!("its storage does not answer for {} s", FENCE_TIME_MAX.as_secs()));
            fenced.unwrap_or_else(silent).map_err(|cause| FenceError { name, cause })
        })
    }

    fn listen(&self, addr: SocketAddr, options: StreamOptions) -> Result<Listener, NetError> {
        listener::listen(&self.reactor, addr, options)
    }

    fn listen_local(&self, path: &Path) -> Result<Listener, NetError> {
        listener::listen_local(&self.reactor, path)
    }

    fn connect(&self, addr: SocketAddr, options: StreamOptions) -> Io<Result<Stream, NetError>> {
        connect::connect(&self.reactor, &self.connects, addr, options)
    }
}

impl RealWorld {
    /// Opens a drive's path on another thread: it may lead to a disk, a file system or a server that does not
    /// answer.
    fn open_aside(
        &self,
        spec: &DriveSpec,
        open: impl FnOnce() -> Result<OpenMedium, OpenError> + Send + 'static,
    ) -> Io<Result<Drive, OpenError>> {
        self.open_with(spec, open, OpenMedium::into_drive)
    }

    /// The same for what is not a file: `into_drive` makes the drive on this thread.
    fn open_with<T: Send + 'static>(
        &self,
        spec: &DriveSpec,
        open: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
        into_drive: fn(T, &Local) -> Drive,
    ) -> Io<Result<Drive, OpenError>> {
        let (name, local) = (spec.name(), self.local.clone());
        let lane = PathBuf::from(&name);
        self.local.ask(&lane, Some(OPEN_TIME_MAX), open, move |opened| match opened {
            Some(opened) => opened.map(|medium| into_drive(medium, &local)),
            None => {
                let cause = format!("does not answer for {} s", OPEN_TIME_MAX.as_secs());
                Err(OpenError { name, cause, is_absent: false })
            }
        })
    }
}

struct Running {
    backend: Rc<RealWorld>,
    mailbox: Arc<Mailbox>,
    watch: Cell<Watch>,
    may_watch: bool,
    /// Last: a world that hangs at its end is watched, too.
    pulse: Arc<Pulse>,
}

impl Running {
    fn until_ended<T>(&self, root: impl Future<Output = T>) -> Result<T, RunError> {
        let mut root = pin!(root);
        let header = Header::new(ROOT, &self.mailbox);
        let waker = Waker::from(header.clone());
        waker.wake_by_ref();
        loop {
            self.pulse.beat();
            self.mailbox.empty();
            let begin = clock::now();
            for polls in 1..=POLLS_PER_TURN_MAX {
                if polls % POLLS_PER_CLOCK == 0 && clock::now() - begin > TURN_TIME_MAX {
                    break;
                }
                let Some(id) = Mailbox::next_ready() else { break };
                if id != ROOT {
                    self.backend.local.tasks.poll(id);
                    continue;
                }
                header.begin_poll();
                if let Poll::Ready(output) = root.as_mut().poll(&mut Context::from_waker(&waker)) {
                    header.retire();
                    return Ok(output);
                }
            }
            self.turn()?;
        }
    }

    /// Submits the tasks' operations, waits if no task is ready, and wakes tasks whose operations or timers
    /// ended.
    fn turn(&self) -> Result<(), RunError> {
        let world = &self.backend;
        let ring_error = |e: std::io::Error| RunError::Ring { cause: e.to_string() };
        if Mailbox::ready_count() > 0 {
            world.reactor.turn(Sleep::No).map_err(ring_error)?;
        } else {
            self.wait().map_err(ring_error)?;
        }
        let mut timers = world.local.timers.borrow_mut();
        if !timers.is_empty() {
            timers.fire(clock::now());
        }
        Ok(())
    }

    /// No task is ready: waits for an operation, a timer or a wake from another thread.
    fn wait(&self) -> std::io::Result<()> {
        let reactor = &self.backend.reactor;
        let begin = clock::now();
        let next = self.backend.local.timers.borrow_mut().next_in(begin);
        if next.is_some_and(|time| time.is_zero()) {
            return reactor.turn(Sleep::No);
        }
        let watch = self.watch.get();
        if self.may_watch && watch.is_due() {
            reactor.turn(Sleep::No)?;
            let limit = begin + next.unwrap_or(WATCH_TIME_MAX).min(WATCH_TIME_MAX);
            let mut seen = Mailbox::ready_count() > 0;
            while !seen && clock::now() < limit {
                std::hint::spin_loop();
                seen = reactor.has_news() || self.mailbox.has_news();
            }
            self.watch.set(watch.ended(seen));
            if seen {
                return reactor.turn(Sleep::No);
            }
        }
        if !self.mailbox.fall_asleep() {
            return reactor.turn(Sleep::No);
        }
        // A watch may have let the deadline come: a sleep of no time is right then.
        let now = clock::now();
        let turned = reactor.turn(match next {
            Some(time) => Sleep::AtMost((begin + time).since(now)),
            None => Sleep::Forever,
        });
        self.mailbox.wake_up();
        self.watch.set(self.watch.get().slept(clock::now().since(now)));
        turned
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // First the tasks, whose handles end their connections; then what the kernel still works on; then the
        // memory.
        self.backend.local.tasks.clear();
        self.backend.local.timers.borrow_mut().clear();
        self.backend.reactor.drain();
        self.backend.local.close_media();
        self.backend.local.close_images();
        self.backend.local.closings.wait(CLOSE_TIME_MAX);
        self.mailbox.move_out();
    }
}
