//! One run: its tasks on its timeline; the world that the code under test holds.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use world::io::Completions;
use world::{
    Drive, DriveSpec, FenceError, Instant, Io, Listener, NetError, OpenError, Rng, Stream, StreamOptions,
    TaskBackend, World, WorldBackend,
};

use crate::modelled_drive;
use crate::net::Net;
use crate::process::{Process, Turn};
use crate::rack::Disks;
use crate::ready::{Note, Ready};
use crate::timeline::{Event, Timeline, stream};
use crate::trace::Trace;

/// The number of the main future, which is no spawned task.
const MAIN: usize = usize::MAX;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// How a run ended.
pub(crate) enum Ended<T> {
    Finished(T),
    PowerCut,
    /// Nobody wants its end any more.
    Abandoned,
}

/// Steps between two looks at whether the end of a run is still wanted: a step may take some milliseconds,
/// and a look takes nanoseconds.
pub(crate) const STEPS_LOOKED: u32 = 64;

/// One run of the model. Everything that the run made holds it; [`Core::end`] takes the circle apart.
pub(crate) struct Core {
    seed: u64,
    timeline: Rc<Timeline>,
    disks: Disks,
    net: Net,
    schedule: RefCell<Rng>,
    tasks: RefCell<Vec<Option<Spawned>>>,
    free: RefCell<Vec<usize>>,
    ready: Arc<Ready>,
    sleeps: Completions<()>,
    polls_at_this_time: Cell<u64>,
    polls_at_one_time_max: u64,
    machines: RefCell<Vec<Weak<Process>>>,
}

/// A thread of a process, as its tasks know it.
#[derive(Default)]
pub(crate) struct Thread {
    has_ended: Cell<bool>,
}

struct Spawned {
    /// Where it runs, if not in the one process of the run.
    machine: Option<Rc<Process>>,
    thread: Option<Rc<Thread>>,
    /// Not there while it is polled.
    task: Option<Task>,
    note: Arc<Note>,
    waker: Waker,
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
            timeline: Timeline::new(seed, trace),
            disks,
            net,
            schedule: RefCell::new(stream(seed, "schedule")),
            tasks: RefCell::default(),
            free: RefCell::default(),
            ready: Arc::default(),
            sleeps: Completions::default(),
            polls_at_this_time: Cell::new(0),
            polls_at_one_time_max,
            machines: RefCell::default(),
        })
    }

    /// A handle for the code on this machine; none: for the one process of the run.
    pub(crate) fn world(self: &Rc<Core>, machine: Option<Rc<Process>>) -> World {
        World::new(Rc::new(Handle { core: self.clone(), machine, thread: None }))
    }

    /// A handle for the code of a thread.
    pub(crate) fn world_of_thread(self: &Rc<Core>, machine: &Rc<Process>, thread: &Rc<Thread>) -> World {
        let (machine, thread) = (Some(machine.clone()), Some(thread.clone()));
        World::new(Rc::new(Handle { core: self.clone(), machine, thread }))
    }

    /// A new machine.
    pub(crate) fn know(&self, machine: &Rc<Process>) {
        self.machines.borrow_mut().push(Rc::downgrade(machine));
    }

    /// The machine's process dies: its tasks are dropped, but for one that takes a step right now, which
    /// ends with it.
    pub(crate) fn kill(&self, machine: &Rc<Process>) {
        if machine.is_dead() {
            return;
        }
        self.timeline.record("kill", 0, 0);
        machine.die();
        self.end_tasks(|task| task.machine.as_ref().is_some_and(|on| Rc::ptr_eq(on, machine)));
    }

    /// A thread ends: its tasks are dropped, with the drives that they have open.
    pub(crate) fn end_thread(&self, thread: &Rc<Thread>) {
        if !thread.has_ended.replace(true) {
            self.end_tasks(|task| task.thread.as_ref().is_some_and(|of| Rc::ptr_eq(of, thread)));
        }
    }

    fn end_tasks(&self, is_ended: impl Fn(&Spawned) -> bool) {
        let mut ended = Vec::new();
        for (id, place) in self.tasks.borrow_mut().iter_mut().enumerate() {
            if let Some(spawned) = place.take_if(|spawned| spawned.task.is_some() && is_ended(spawned)) {
                spawned.note.end();
                self.free.borrow_mut().push(id);
                ended.push(spawned);
            }
        }
        drop(ended);
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.timeline.now_ns()
    }

    /// Runs until the main future ends, the power fails, or nobody wants its end any more. A look changes
    /// nothing of the run.
    pub(crate) fn run<T, F>(
        self: &Rc<Core>,
        main: impl FnOnce(World) -> F,
        is_wanted: &dyn Fn() -> bool,
    ) -> Ended<T>
    where
        F: Future<Output = T>,
    {
        let mut main = pin!(main(self.world(None)));
        let waker = Waker::from(Note::new(MAIN, &self.ready));
        let mut steps = 0_u32;
        loop {
            if !self.disks.is_powered() {
                return Ended::PowerCut;
            }
            steps = (steps + 1) % STEPS_LOOKED;
            if steps == 0 && !is_wanted() {
                return Ended::Abandoned;
            }
            let picked = self.ready.pick(&mut self.schedule.borrow_mut());
            match picked {
                Some(note) if note.id == MAIN => {
                    self.count_poll(MAIN);
                    let polled = main.as_mut().poll(&mut Context::from_waker(&waker));
                    // A power failure in the very last step counts: whoever requested it must see it.
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
        let machine = {
            let tasks = self.tasks.borrow();
            let spawned = tasks[id].as_ref().expect("a note that has not ended has its task");
            spawned.machine.as_ref().map(|machine| (machine.clone(), spawned.waker.clone()))
        };
        if let Some((machine, waker)) = &machine {
            match machine.turn(waker) {
                Turn::Goes => {}
                Turn::Waits => return,
                Turn::Ends => return self.kill(machine),
            }
        }
        let (mut task, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            let spawned = tasks[id].as_mut().expect("a note that has not ended has its task");
            (spawned.task.take().expect("a task is polled once at a time"), spawned.waker.clone())
        };
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() && machine.is_none_or(|(machine, _)| !machine.is_dead()) {
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

    /// No task is ready: time advances to the next event.
    fn advance(&self) {
        let before_ns = self.now_ns();
        let Some(event) = self.timeline.advance() else {
            let waiting = self.tasks.borrow().iter().flatten().count();
            panic!(
                "deadlock at {before_ns} ns: the main task and {waiting} other tasks wait and nothing can \
                 wake them (seed {})",
                self.seed
            );
        };
        if self.now_ns() > before_ns {
            self.polls_at_this_time.set(0);
        }
        match event {
            Event::Wake(done) => done.complete(()),
            Event::Fire(target, token) => target.fire(&self.timeline, token),
        }
    }

    fn count_poll(&self, id: usize) {
        self.timeline.record("poll", id as u64, 0);
        let polls = self.polls_at_this_time.get() + 1;
        self.polls_at_this_time.set(polls);
        assert!(
            polls <= self.polls_at_one_time_max,
            "{polls} polls at {} ns without progress of time: a task spins (seed {})",
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
        self.machines.take().iter().filter_map(Weak::upgrade).for_each(|machine| machine.forget());
        self.timeline.end();
        self.ready.clear();
    }
}

/// What a [`World`] of the model holds.
struct Handle {
    core: Rc<Core>,
    machine: Option<Rc<Process>>,
    thread: Option<Rc<Thread>>,
}

impl TaskBackend for Handle {
    fn now(&self) -> Instant {
        Instant(self.core.now_ns())
    }

    /// Nothing is charged: code takes no time in the model.
    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, deadline: Instant) -> Io<()> {
        if deadline.0 <= self.core.now_ns() {
            return Io::ready(());
        }
        let (io, done) = self.core.sleeps.start();
        self.core.timeline.wake(deadline.0, done);
        io
    }

    fn spawn(&self, task: Task) {
        let has_ended = |thread: &Rc<Thread>| thread.has_ended.get();
        if self.machine.as_ref().is_some_and(|machine| machine.is_dead())
            || self.thread.as_ref().is_some_and(has_ended)
        {
            return;
        }
        let mut tasks = self.core.tasks.borrow_mut();
        let id = self.core.free.borrow_mut().pop().unwrap_or(tasks.len());
        self.core.timeline.record("spawn", id as u64, 0);
        let note = Note::new(id, &self.core.ready);
        let waker = Waker::from(note.clone());
        let (machine, thread) = (self.machine.clone(), self.thread.clone());
        let spawned = Some(Spawned { machine, thread, task: Some(task), note, waker });
        match tasks.get_mut(id) {
            Some(place) => *place = spawned,
            None => tasks.push(spawned),
        }
    }
}

impl WorldBackend for Handle {
    fn seed(&self) -> u64 {
        self.core.seed
    }

    fn open_drive(&self, spec: &DriveSpec) -> Io<Result<Drive, OpenError>> {
        Io::ready(modelled_drive::open(&self.core.timeline, &self.core.disks, self.machine.as_ref(), spec))
    }

    fn fence(&self, spec: &DriveSpec) -> Io<Result<Option<String>, FenceError>> {
        if self.machine.is_some()
            && let Some(fenced) = modelled_drive::fence(&self.core.timeline, &self.core.disks, spec)
        {
            return fenced;
        }
        let cause = "only drives of the model that machines share have a fence".to_owned();
        Io::ready(Err(FenceError { name: spec.name(), cause }))
    }

    fn listen(&self, addr: SocketAddr, _: StreamOptions) -> Result<Listener, NetError> {
        self.core.net.listen(&self.core.timeline, addr)
    }

    fn listen_local(&self, path: &Path) -> Result<Listener, NetError> {
        let cause = "the model has no file system".to_owned();
        Err(NetError::ListenLocal { path: path.display().to_string(), cause })
    }

    fn connect(&self, addr: SocketAddr, _: StreamOptions) -> Io<Result<Stream, NetError>> {
        self.core.net.connect(&self.core.timeline, addr)
    }
}
