//! Deadlines for levels 5 and 6: callers get an answer in time, even if the group cannot do without a silent
//! drive.
//!
//! A row that is partly written could not be reconstructed any more. So a change of rows is never abandoned:
//! it continues in the background until the drive answers, and its caller gets the error at once. While such
//! a change continues, the group accepts no other change: none is overtaken by an older one, and there are
//! never more of them than were in flight at once.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use block::BlockError;
use futures::future::{Either, select};
use world::io::{Completer, Completions};
use world::{DriveError, Io, World};

/// Below this number of waiting operations, ended ones are not searched for.
const FEW: usize = 64;

/// The callers of a group that may become overdue.
#[derive(Default)]
pub(crate) struct Overdue {
    completions: Completions<BlockError>,
    waiting: RefCell<VecDeque<Completer<BlockError>>>,
    /// At this number, ended operations are removed: twice as many as were in flight the last time.
    full: Cell<usize>,
    /// Operations that continue without their callers.
    left: Cell<usize>,
    cause: RefCell<Option<DriveError>>,
}

impl Overdue {
    /// The group cannot do without a drive that has been silent for too long: callers stop waiting.
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

    /// Why the group accepts no change now.
    fn refusal(&self) -> Option<BlockError> {
        let cause = (self.left.get() > 0).then(|| self.cause.borrow().clone());
        cause.flatten().map(BlockError::from)
    }

    /// The outcome of an operation on rows, if it ends before a drive that it may need counts as silent.
    /// After that it continues in the background.
    ///
    /// # Errors
    /// Its own, and [`BlockError::Silent`] if its outcome is not known yet, or if it was refused because
    /// others continue.
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
                    // Its caller has its error already, and the group handles a failure.
                    drop(operation.await);
                    overdue.left.set(overdue.left.get() - 1);
                });
                Err(silent)
            }
        }
    }
}
