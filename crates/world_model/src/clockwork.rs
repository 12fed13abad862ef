//! The duration of operations on one disk: constant, or as the drive model computes it.

use std::rc::Rc;

use crate::disk_spec::Timing;
use crate::drives::{Completion, DriveModel, Request, Usage};
use crate::timeline::{Fire, Timeline};

/// The event of a disk whose mechanism may be free: no operation has this token.
pub(crate) const MECHANISM: u64 = u64::MAX;

/// The timing of one disk in one run.
pub(crate) enum Clockwork {
    /// A latency, and what is drawn in addition, in nanoseconds.
    Fixed { latency_ns: u64, jitter_ns: u64 },
    /// Boxed: a drive in operation is some hundred bytes.
    Drive(Box<Running>),
}

/// A drive in operation.
pub(crate) struct Running {
    model: DriveModel,
    /// Emptied after each use.
    done: Vec<Completion>,
    /// For when the mechanism's event is armed.
    armed_ns: Option<u64>,
    held: Held,
}

/// How many requests were in a drive, over time.
#[derive(Default)]
struct Held {
    inside: i128,
    /// When those that have gone went, less when all came: with the present time for each one inside, the
    /// time that they all spent.
    went_less_came_ns: i128,
}

impl Held {
    fn came(&mut self, now_ns: u64) {
        self.inside += 1;
        self.went_less_came_ns -= i128::from(now_ns);
    }

    fn goes(&mut self, at_ns: u64) {
        self.inside -= 1;
        self.went_less_came_ns += i128::from(at_ns);
    }

    fn at(&self, now_ns: u64) -> u64 {
        u64::try_from(self.went_less_came_ns + self.inside * i128::from(now_ns)).unwrap_or(0)
    }
}

impl Clockwork {
    /// At rest, as a run finds it.
    pub(crate) fn new(timing: &Timing) -> Clockwork {
        match timing {
            Timing::Fixed { latency, jitter } => Clockwork::Fixed {
                latency_ns: u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX),
                jitter_ns: u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX),
            },
            Timing::Drive(prepared) => {
                let model = prepared.drive();
                Clockwork::Drive(Box::new(Running {
                    model,
                    done: Vec::new(),
                    armed_ns: None,
                    held: Held::default(),
                }))
            }
        }
    }

    /// At `now_ns` of the run.
    pub(crate) fn usage(&self, now_ns: u64) -> Option<Usage> {
        match self {
            Clockwork::Fixed { .. } => None,
            Clockwork::Drive(running) => {
                Some(Usage { held_ns: running.held.at(now_ns), ..running.model.usage() })
            }
        }
    }

    /// Arms the completion of an operation, now or when the mechanism comes to it: `disk` is told with its
    /// token.
    pub(crate) fn submit(
        &mut self,
        timeline: &Timeline,
        disk: &Rc<impl Fire + 'static>,
        slow: u32,
        request: Request,
    ) {
        match self {
            Clockwork::Fixed { latency_ns, jitter_ns } => {
                let jitter_ns = match *jitter_ns {
                    0 => 0,
                    max => timeline.latency.borrow_mut().u64(..=max),
                };
                let work_ns = latency_ns.saturating_add(jitter_ns).saturating_mul(slow.into());
                timeline.arm(timeline.now_ns().saturating_add(work_ns), disk.clone(), request.token);
            }
            Clockwork::Drive(running) => {
                running.model.set_slow(slow);
                running.held.came(timeline.now_ns());
                running.model.submit(timeline.now_ns(), request, &mut running.done);
                running.arm_all(timeline, disk);
            }
        }
    }

    /// The mechanism may be free now.
    pub(crate) fn go_on(&mut self, timeline: &Timeline, disk: &Rc<impl Fire + 'static>) {
        if let Clockwork::Drive(running) = self {
            // One that was armed before the mechanism's plans changed: its successor is still to come. If
            // each armed another, they would be more and more.
            if running.armed_ns.is_some_and(|at_ns| at_ns > timeline.now_ns()) {
                return;
            }
            running.armed_ns = None;
            running.model.wake(timeline.now_ns(), &mut running.done);
            running.arm_all(timeline, disk);
        }
    }
}

impl Running {
    fn arm_all(&mut self, timeline: &Timeline, disk: &Rc<impl Fire + 'static>) {
        for completion in self.done.drain(..) {
            self.held.goes(completion.at_ns);
            timeline.arm(completion.at_ns, disk.clone(), completion.token);
        }
        let due_ns = self.model.due_ns();
        if let Some(due_ns) = due_ns.filter(|due_ns| self.armed_ns != Some(*due_ns)) {
            self.armed_ns = Some(due_ns);
            timeline.arm(due_ns.max(timeline.now_ns()), disk.clone(), MECHANISM);
        }
    }
}
