//! Background monitor tasks of groups and pools; cancellable.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use world::World;
use world::sync::Signal;

/// The last step of a task may take as long as a drive takes to answer: a probe waits 5 s.
const LET_GO_TIME_MAX: Duration = Duration::from_secs(10);
const LET_GO_PAUSE: Duration = Duration::from_millis(10);

/// Held by the controller, and by every task that monitors one group or pool.
#[derive(Clone, Default)]
pub(crate) struct Watch(Rc<Ended>);

#[derive(Default)]
struct Ended {
    told: Cell<bool>,
    signal: Signal,
}

impl Watch {
    /// Asks the tasks to end.
    pub(crate) fn end(&self) {
        self.0.told.set(true);
        self.0.signal.wake_all();
    }

    /// Whether the tasks must end.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.told.get()
    }

    /// Returns when the tasks must end.
    pub(crate) async fn ended(&self) {
        self.0.signal.wait_for(|| self.has_ended().then_some(())).await;
    }

    /// Ends the tasks and waits until nothing else holds the watch. Returns whether that happened in time.
    pub(crate) async fn let_go(self, world: &World) -> bool {
        self.end();
        let deadline = world.now() + LET_GO_TIME_MAX;
        while Rc::strong_count(&self.0) > 1 && world.now() < deadline {
            world.sleep(LET_GO_PAUSE).await;
        }
        Rc::strong_count(&self.0) == 1
    }
}
