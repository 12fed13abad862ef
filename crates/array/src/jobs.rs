//! Long work that somebody asked for: it runs as a task of its controller, shows how far it is, and can be asked to stop.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use pool::Pool;
use raid::Throttle;

use crate::controller::Controller;
use crate::guarantee::PoolService;
use crate::status::JobStatus;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobKind {
    /// A group is read and compared.
    Scrub,
    /// A group's pages move to the others of its pool.
    Evacuate,
    /// Pages move from full groups to emptier ones.
    Rebalance,
    /// Pages of zeros of a volume are given back.
    Reclaim,
    /// Pages of a pool move between groups of different classes.
    Place,
}

/// A job that runs.
#[derive(Default)]
pub(crate) struct Job {
    done_bytes: Cell<u64>,
    total_bytes: Cell<u64>,
    stopped: Cell<bool>,
}

/// The jobs of a controller, by what they do to what.
#[derive(Default)]
pub(crate) struct Jobs(BTreeMap<(JobKind, String), Rc<Job>>);

impl Jobs {
    pub(crate) fn status(&self) -> Vec<JobStatus> {
        let of = |((kind, object), job): (&(JobKind, String), &Rc<Job>)| JobStatus {
            kind: *kind,
            object: object.clone(),
            done_bytes: job.done_bytes.get(),
            total_bytes: job.total_bytes.get(),
        };
        self.0.iter().map(of).collect()
    }

    /// All end at their next step.
    pub(crate) fn stop_all(&self) {
        self.0.values().for_each(|job| job.stopped.set(true));
    }

    fn stop(&self, which: impl Fn(JobKind, &str) -> bool) -> bool {
        let chosen = self.0.iter().filter(|((kind, object), _)| which(*kind, object));
        chosen.inspect(|(_, job)| job.stopped.set(true)).count() > 0
    }
}

impl Job {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// A pause between two steps of work on a pool: each step waits for its turn where volumes are promised something, and elsewhere hosts keep
    /// their share of the time.
    pub(crate) fn pace(
        self: &Rc<Self>,
        controller: &Rc<Controller>,
        pool: &Pool,
        foreground_share_percent: u8,
    ) -> impl AsyncFnMut(u64) -> ControlFlow<()> + use<> {
        let throttle = Throttle::new(controller.world.clone(), foreground_share_percent);
        let (job, mut paced) = (self.clone(), pool.paced(throttle));
        let (controller, pool) = (controller.clone(), pool.name().to_owned());
        async move |bytes| {
            job.done_bytes.set(job.done_bytes.get() + bytes);
            let gate = controller.state().services.get(&pool).and_then(PoolService::background_if_closed);
            match gate {
                // What moves is read and written.
                Some(gate) => drop(gate.enter(2 * bytes).await),
                None => drop(paced(bytes).await),
            }
            match job.stopped.get() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
}

/// A step of work moves or scans some MiB; on slow drives under load that takes a second.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// Tells jobs to end at their next step and waits for that; whether it came in time.
pub(crate) async fn stop(controller: &Controller, which: impl Fn(JobKind, &str) -> bool) -> bool {
    let deadline = controller.world.now() + STOP_TIME_MAX;
    while controller.state().jobs.stop(&which) {
        if controller.world.now() >= deadline {
            return false;
        }
        controller.world.sleep(STOP_PAUSE).await;
    }
    true
}

/// Tells a job to end at its next step; whether there is one.
pub(crate) fn ask_to_stop(controller: &Controller, kind: JobKind, object: &str) -> bool {
    controller.state().jobs.stop(|k, o| k == kind && o == object)
}

/// Begins a job, unless it runs; `work` says how it ended, or nothing when that is no news; an error is what is to be looked at. Whether it
/// was begun.
pub(crate) fn begin(
    controller: &Rc<Controller>,
    (kind, object): (JobKind, &str),
    total_bytes: u64,
    work: impl AsyncFnOnce(Rc<Job>) -> Result<String, String> + 'static,
) -> bool {
    let key = (kind, object.to_owned());
    if controller.state().jobs.0.contains_key(&key) {
        return false;
    }
    let job = Rc::new(Job::default());
    job.total_bytes.set(total_bytes);
    controller.state.borrow_mut().jobs.0.insert(key.clone(), job.clone());
    let this = controller.clone();
    controller.world.spawn(async move {
        match work(job).await {
            Ok(ended) if ended.is_empty() => {}
            Ok(ended) => this.note(ended),
            Err(ended) => this.warn(ended),
        }
        this.state.borrow_mut().jobs.0.remove(&key);
    });
    true
}
