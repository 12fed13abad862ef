//! How long the operations of one disk take: fixed, or as the drive model says.

use std::rc::Rc;

use crate::core::Core;
use crate::disk::{Shared, Timing};
use crate::drives::{BLOCK_BYTES, Completion, DriveModel, Kind, Request, Usage};

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
    /// When those that have gone went, less when all came: with the present time for each one inside, the time that they all spent.
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
}

impl Shared {
    /// Arms the completion of an operation, now or when the mechanism comes to it. `at` and `len` in bytes.
    pub(crate) fn schedule(self: &Rc<Shared>, core: &Core, token: u64, kind: Kind, at: u64, len: u64) {
        let slow = self.faults.borrow().slow;
        match &mut *self.clockwork.borrow_mut() {
            Clockwork::Fixed { latency_ns, jitter_ns } => {
                let jitter_ns = match *jitter_ns {
                    0 => 0,
                    max => core.latency.borrow_mut().u64(..=max),
                };
                let work_ns = latency_ns.saturating_add(jitter_ns).saturating_mul(slow.into());
                core.arm(core.now_ns().saturating_add(work_ns), self.clone(), token);
            }
            Clockwork::Drive(running) => {
                let request = Request { token, kind, block: at / BLOCK_BYTES, blocks: len / BLOCK_BYTES };
                running.model.set_slow(slow);
                running.held.came(core.now_ns());
                running.model.submit(core.now_ns(), request, &mut running.done);
                self.arm_all(core, running);
            }
        }
    }

    /// The mechanism may be free now.
    pub(crate) fn go_on(self: &Rc<Shared>, core: &Core) {
        if let Clockwork::Drive(running) = &mut *self.clockwork.borrow_mut() {
            // One that was armed before the mechanism's plans changed: its successor is still to come. If each armed another, they would be
            // more and more.
            if running.armed_ns.is_some_and(|at_ns| at_ns > core.now_ns()) {
                return;
            }
            running.armed_ns = None;
            running.model.wake(core.now_ns(), &mut running.done);
            self.arm_all(core, running);
        }
    }

    fn arm_all(self: &Rc<Shared>, core: &Core, running: &mut Running) {
        for completion in running.done.drain(..) {
            running.held.goes(completion.at_ns);
            core.arm(completion.at_ns, self.clone(), completion.token);
        }
        let due_ns = running.model.due_ns();
        if let Some(due_ns) = due_ns.filter(|due_ns| running.armed_ns != Some(*due_ns)) {
            running.armed_ns = Some(due_ns);
            core.arm(due_ns.max(core.now_ns()), self.clone(), MECHANISM);
        }
    }
}
