//! One run: its clock, tasks, timers and streams; the world that the code under test holds.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use world::io::Completions;
use world::{
    Drive, DriveSpec, Instant, Io, Listener, NetError, OpenError, Rng, Stream, StreamOptions, TaskBackend,
    World, WorldBackend,
};

use crate::modelled_drive;
use crate::net::Net;
use crate::rack::Disks;
use crate::ready::{Note, Ready};
use crate::timers::{Event, Fire, Timers};
use crate::trace::{Trace, digest_of};

/// The number of the main future, which is no spawned task.
const MAIN: usize = usize::MAX;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// How a run came to its end.
pub(crate) enum Ended<T> {
    Finished(T),
    PowerCut,
}

/// One run of the model. Everything that the run made holds it; [`Core::end`] takes the circle apart.
pub(crate) struct Core {
    pub(crate) seed: u64,
    pub(crate) trace: Rc<Trace>,
    pub(crate) disks: Disks,
    pub(crate) net: Net,
    pub(crate) latency: RefCell<Rng>,
    pub(crate) segments: RefCell<Rng>,
    schedule: RefCell<Rng>,
    now_ns: Cell<u64>,
    timers: RefCell<Timers>,
    tasks: RefCell<Vec<Option<Spawned>>>,
    free: RefCell<Vec<usize>>,
    ready: Arc<Ready>,
    sleeps: Completions<()>,
    polls_at_this_time: Cell<u64>,
    polls_at_one_time_max: u64,
}

struct Spawned {
    /// Not there while it is polled.
    task: Option<Task>,
    note: Arc<Note>,
    waker: Waker,
}

/// The stream of this name: the same for the same seed, whatever is drawn from the others.
pub(crate) fn stream(seed: u64, name: &str) -> Rng {
    Rng::with_seed(seed ^ digest_of(name.as_bytes()))
}

impl Core {
    pub(crate) fn new(
        seed: u64,
        trace: Rc<Trace>,
        disks: Disks,
        net: Net,
        polls_at_one_time_max: u64,
    ) -> Rc<Core> {
        Rc::new(Core {
            seed,
            trace,
            disks,
            net,
            latency: RefCell::new(stream(seed, "latency")),
            segments: RefCell::new(stream(seed, "segments")),
            schedule: RefCell::new(stream(seed, "schedule")),
            now_ns: Cell::new(0),
            timers: RefCell::default(),
            tasks: RefCell::default(),
            free: RefCell::default(),
            ready: Arc::default(),
            sleeps: Completions::default(),
            polls_at_this_time: Cell::new(0),
            polls_at_one_time_max,
        })
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    pub(crate) fn record(&self, what: &'static str, who: u64, value: u64) {
        self.trace.record(self.now_ns(), what, who, value);
    }

    /// Tells `target` at `at_ns`.
    pub(crate) fn arm(&self, at_ns: u64, target: Rc<dyn Fire>, token: u64) {
        self.timers.borrow_mut().arm(at_ns, Event::Fire(target, token));
    }

    /// Runs until the main future ends or the power is cut.
    pub(crate) fn run<T, F>(self: &Rc<Core>, main: impl FnOnce(World) -> F) -> Ended<T>
    where
        F: Future<Output = T>,
    {
        let mut main = pin!(main(World::new(Rc::new(Handle(self.clone())))));
        let waker = Waker::from(Note::new(MAIN, &self.ready));
        loop {
            if !self.disks.is_powered() {
                return Ended::PowerCut;
            }
            let picked = self.ready.pick(&mut self.schedule.borrow_mut());
            match picked {
                Some(note) if note.id == MAIN => {
                    self.count_poll(MAIN);
                    let polled = main.as_mut().poll(&mut Context::from_waker(&waker));
                    // A cut in the very last step is a cut: whoever asked for one must see it.
                    if let (Poll::Ready(output), true) = (polled, self.disks.is_powered()) {
                        return Ended::Finished(output);
                    }
                }
                Some(note) => self.poll_task(note.id),
                None => self.advance(),
            }
        }
    }

    fn poll_task(&self, id: usize) {
        self.count_poll(id);
        let (mut task, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            let spawned = tasks[id].as_mut().expect("a note that has not ended has its task");
            (spawned.task.take().expect("a task is polled once at a time"), spawned.waker.clone())
        };
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            if let Some(spawned) = &mut self.tasks.borrow_mut()[id] {
                spawned.task = Some(task);
            }
            return;
        }
        let spawned = self.tasks.borrow_mut()[id].take();
        if let Some(spawned) = spawned {
            spawned.note.end();
        }
        self.free.borrow_mut().push(id);
    }

    /// Nothing is ready: time goes to the next event.
    fn advance(&self) {
        let next = self.timers.borrow_mut().pop();
        let Some((at_ns, event)) = next else {
            let waiting = self.tasks.borrow().iter().flatten().count();
            panic!(
                "deadlock at {} ns: the main task and {waiting} others wait for what never comes (seed {})",
                self.now_ns(),
                self.seed
            );
        };
        if at_ns > self.now_ns() {
            self.now_ns.set(at_ns);
            self.polls_at_this_time.set(0);
        }
        match event {
            Event::Wake(done) => done.complete(()),
            Event::Fire(target, token) => target.fire(self, token),
        }
    }

    fn count_poll(&self, id: usize) {
        self.record("poll", id as u64, 0);
        let polls = self.polls_at_this_time.get() + 1;
        self.polls_at_this_time.set(polls);
        assert!(
            polls <= self.polls_at_one_time_max,
            "{polls} polls at {} ns and no time has passed: a task spins (seed {})",
            self.now_ns(),
            self.seed
        );
    }

    /// Ends the run: drops all tasks and events.
    pub(crate) fn end(&self) {
        loop {
            // A task that is dropped may spawn: none is run any more, but all are dropped.
            let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
            if tasks.is_empty() {
                break;
            }
            self.free.borrow_mut().clear();
            drop(tasks);
        }
        let timers = std::mem::take(&mut *self.timers.borrow_mut());
        drop(timers);
        self.ready.clear();
    }
}

/// What a [`World`] of the model holds.
struct Handle(Rc<Core>);

impl TaskBackend for Handle {
    fn now(&self) -> Instant {
        Instant(self.0.now_ns())
    }

    /// Nothing is charged: the code takes no time here.
    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, deadline: Instant) -> Io<()> {
        if deadline.0 <= self.0.now_ns() {
            return Io::ready(());
        }
        let (io, done) = self.0.sleeps.start();
        self.0.timers.borrow_mut().arm(deadline.0, Event::Wake(done));
        io
    }

    fn spawn(&self, task: Task) {
        let mut tasks = self.0.tasks.borrow_mut();
        let id = self.0.free.borrow_mut().pop().unwrap_or(tasks.len());
        self.0.record("spawn", id as u64, 0);
        let note = Note::new(id, &self.0.ready);
        let waker = Waker::from(note.clone());
        let spawned = Some(Spawned { task: Some(task), note, waker });
        match tasks.get_mut(id) {
            Some(place) => *place = spawned,
            None => tasks.push(spawned),
        }
    }
}

impl WorldBackend for Handle {
    fn seed(&self) -> u64 {
        self.0.seed
    }

    fn open_drive(&self, spec: &DriveSpec) -> Io<Result<Drive, OpenError>> {
        Io::ready(modelled_drive::open(&self.0, spec))
    }

    fn listen(&self, addr: SocketAddr, _: StreamOptions) -> Result<Listener, NetError> {
        self.0.net.listen(&self.0, addr)
    }

    fn listen_local(&self, path: &Path) -> Result<Listener, NetError> {
        let cause = "there are no paths in the model".to_owned();
        Err(NetError::ListenLocal { path: path.display().to_string(), cause })
    }

    fn connect(&self, addr: SocketAddr, _: StreamOptions) -> Io<Result<Stream, NetError>> {
        self.0.net.connect(&self.0, addr)
    }
}
