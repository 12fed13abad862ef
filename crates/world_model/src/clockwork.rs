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
                Clockwork::Drive(Box::new(Running { model, done: Vec::new(), armed_ns: None }))
            }
        }
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        match self {
            Clockwork::Fixed { .. } => None,
            Clockwork::Drive(running) => Some(running.model.usage()),
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
                running.model.submit(core.now_ns(), request, &mut running.done);
                self.arm_all(core, running);
            }
        }
    }

    /// The mechanism may be free now.
    pub(crate) fn go_on(self: &Rc<Shared>, core: &Core) {
        if let Clockwork::Drive(running) = &mut *self.clockwork.borrow_mut() {
            running.armed_ns = None;
            running.model.wake(core.now_ns(), &mut running.done);
            self.arm_all(core, running);
        }
    }

    fn arm_all(self: &Rc<Shared>, core: &Core, running: &mut Running) {
        for completion in running.done.drain(..) {
            core.arm(completion.at_ns, self.clone(), completion.token);
        }
        let due_ns = running.model.due_ns();
        if let Some(due_ns) = due_ns.filter(|due_ns| running.armed_ns != Some(*due_ns)) {
            running.armed_ns = Some(due_ns);
            core.arm(due_ns.max(core.now_ns()), self.clone(), MECHANISM);
        }
    }
}
