//! Levels 5 and 6 answer in time, even when a drive is silent that they cannot do without.
//!
//! A row of which one part was written and another one given up could not be told from the others any more. So what changes rows is
//! never given up: it goes on by itself until the drive answers, and its caller hears at once that the drive is silent. While any
//! of it goes on, the group takes no other change: none is overtaken by an older one, and there are never more of them than were in
//! flight at once.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use block::BlockError;
use futures::future::{Either, select};
use world::io::{Completer, Completions};
use world::{DriveError, Io, World};

/// Fewer waiting operations than this are not looked through for those that have ended.
const FEW: usize = 64;

/// Who waits for a group that may become overdue.
#[derive(Default)]
pub(crate) struct Overdue {
    completions: Completions<BlockError>,
    waiting: RefCell<VecDeque<Completer<BlockError>>>,
    /// At so many, those that have ended are taken out: twice as many as were in flight the last time.
    full: Cell<usize>,
    /// Operations that go on without their callers.
    left: Cell<usize>,
    cause: RefCell<Option<DriveError>>,
}

impl Overdue {
    /// A drive has been silent for too long and cannot be done without: nobody waits any longer.
    pub(crate) fn tell(&self, cause: DriveError) {
        for completer in self.waiting.take() {
            completer.complete(cause.clone().into());
        }
        *self.cause.borrow_mut() = Some(cause);
    }

    /// Completes when a drive is silent for too long.
    fn told(&self) -> Io<BlockError> {
        let (told, completer) = self.completions.start();
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= self.full.get().max(FEW) {
            waiting.retain(Completer::is_awaited);
            self.full.set(2 * waiting.len());
        }
        waiting.push_back(completer);
        told
    }

    /// Why nothing is taken now.
    fn refusal(&self) -> Option<BlockError> {
        let cause = (self.left.get() > 0).then(|| self.cause.borrow().clone());
        cause.flatten().map(BlockError::from)
    }

    /// The outcome of an operation on rows, if it ends before a drive that it may need counts as silent; from then on it goes on by itself.
    ///
    /// # Errors
    /// Besides its own: [`BlockError::Silent`], when nobody knows yet how it ends, or when it was refused because others go on.
    pub(crate) async fn in_time<T: 'static>(
        self: &Rc<Self>,
        world: &World,
        operation: impl Future<Output = Result<T, BlockError>> + 'static,
    ) -> Result<T, BlockError> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        match select(Box::pin(operation), self.told()).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((silent, operation)) => {
                let overdue = self.clone();
                overdue.left.set(overdue.left.get() + 1);
                world.spawn(async move {
                    // Its caller has an answer already; what failed, the group knows.
                    drop(operation.await);
                    overdue.left.set(overdue.left.get() - 1);
                });
                Err(silent)
            }
        }
    }
}
