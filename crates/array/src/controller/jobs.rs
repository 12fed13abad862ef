//! Jobs: background work that an administrator started. A job runs as a task of its controller, shows its
//! progress, and can be stopped.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use world::World;

use super::events::Events;
use crate::status::JobKind;

/// A step moves or scans some MiB; on slow drives under load that takes a second.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// A running job.
#[derive(Default)]
pub(crate) struct Job {
    done_bytes: Cell<u64>,
    total_bytes: Cell<u64>,
    stopped: Cell<bool>,
}

impl Job {
    /// Adds to the completed bytes.
    pub(crate) fn advance(&self, bytes: u64) {
        self.done_bytes.set(self.done_bytes.get() + bytes);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// The running jobs of a controller, by kind and object.
pub(crate) struct Jobs {
    world: World,
    events: Rc<Events>,
    running: RefCell<BTreeMap<(JobKind, String), Rc<Job>>>,
}

impl Jobs {
    /// No jobs yet. When a job ends, it raises an event.
    pub(crate) fn new(world: World, events: Rc<Events>) -> Jobs {
        Jobs { world, events, running: RefCell::default() }
    }

    pub(crate) fn status(&self) -> Vec<status::Job> {
        let of = |((kind, object), job): (&(JobKind, String), &Rc<Job>)| status::Job {
            kind: format!("{kind:?}").to_lowercase(),
            object: object.clone(),
            progress: status::Progress {
                done_bytes: job.done_bytes.get(),
                total_bytes: job.total_bytes.get(),
            },
        };
        self.running.borrow().iter().map(of).collect()
    }

    /// Starts a job, unless it is running, and returns whether it did. `work` returns the text of the event
    /// at its end, or an empty text for none; an error becomes a warning.
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

    /// Stops all jobs at their next step.
    pub(crate) fn stop_all(&self) {
        self.ask_to_stop(|_, _| true);
    }

    /// Asks jobs to stop at their next step. Returns whether there are any.
    pub(crate) fn ask_to_stop(&self, which: impl Fn(JobKind, &str) -> bool) -> bool {
        let running = self.running.borrow();
        let chosen = running.iter().filter(|((kind, object), _)| which(*kind, object));
        chosen.inspect(|(_, job)| job.stopped.set(true)).count() > 0
    }

    /// Asks jobs to stop and waits. Returns whether they stopped in time.
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
