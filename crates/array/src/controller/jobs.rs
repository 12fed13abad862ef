//! Long work that somebody asked for: it runs as a task of its controller, shows how far it is, and can be asked to stop.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use world::World;

use super::events::Events;
use crate::status::{JobKind, JobStatus};

/// A step of work moves or scans some MiB; on slow drives under load that takes a second.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// A job that runs.
#[derive(Default)]
pub(crate) struct Job {
    done_bytes: Cell<u64>,
    total_bytes: Cell<u64>,
    stopped: Cell<bool>,
}

impl Job {
    /// So much more is done.
    pub(crate) fn advance(&self, bytes: u64) {
        self.done_bytes.set(self.done_bytes.get() + bytes);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// The jobs of a controller, by what they do to what.
pub(crate) struct Jobs {
    world: World,
    events: Rc<Events>,
    running: RefCell<BTreeMap<(JobKind, String), Rc<Job>>>,
}

impl Jobs {
    /// None yet; how they end is told as events.
    pub(crate) fn new(world: World, events: Rc<Events>) -> Jobs {
        Jobs { world, events, running: RefCell::default() }
    }

    pub(crate) fn status(&self) -> Vec<JobStatus> {
        let of = |((kind, object), job): (&(JobKind, String), &Rc<Job>)| JobStatus {
            kind: *kind,
            object: object.clone(),
            done_bytes: job.done_bytes.get(),
            total_bytes: job.total_bytes.get(),
        };
        self.running.borrow().iter().map(of).collect()
    }

    /// Begins a job, unless it runs; `work` says how it ended, or nothing when that is no news; an error is what is to be looked at. Whether it
    /// was begun.
    pub(crate) fn begin(
        self: &Rc<Self>,
        (kind, object): (JobKind, &str),
        total_bytes: u64,
        work: impl AsyncFnOnce(Rc<Job>) -> Result<String, String> + 'static,
    ) -> bool {
        let key = (kind, object.to_owned());
        if self.running.borrow().contains_key(&key) {
            return false;
        }
        let job = Rc::new(Job::default());
        job.total_bytes.set(total_bytes);
        self.running.borrow_mut().insert(key.clone(), job.clone());
        let jobs = self.clone();
        self.world.spawn(async move {
            match work(job).await {
                Ok(ended) if ended.is_empty() => {}
                Ok(ended) => jobs.events.note(ended),
                Err(ended) => jobs.events.warn(ended),
            }
            jobs.running.borrow_mut().remove(&key);
        });
        true
    }

    /// All end at their next step.
    pub(crate) fn stop_all(&self) {
        self.ask_to_stop(|_, _| true);
    }

    /// Tells jobs to end at their next step; whether there are any.
    pub(crate) fn ask_to_stop(&self, which: impl Fn(JobKind, &str) -> bool) -> bool {
        let running = self.running.borrow();
        let chosen = running.iter().filter(|((kind, object), _)| which(*kind, object));
        chosen.inspect(|(_, job)| job.stopped.set(true)).count() > 0
    }

    /// Tells jobs to end at their next step and waits for that; whether it came in time.
    pub(crate) async fn stop(&self, which: impl Fn(JobKind, &str) -> bool) -> bool {
        let deadline = self.world.now() + STOP_TIME_MAX;
        while self.ask_to_stop(&which) {
            if self.world.now() >= deadline {
                return false;
            }
            self.world.sleep(STOP_PAUSE).await;
        }
        true
    }
}
