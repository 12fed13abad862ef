//! Tasks that look after something as long as the controller has it: they can be told to let go of it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use world::World;
use world::sync::Signal;

/// What a task has to end may last as long as a drive takes to answer: a probe waits 5 s.
const LET_GO_TIME_MAX: Duration = Duration::from_secs(10);
const LET_GO_PAUSE: Duration = Duration::from_millis(10);

/// Held by the controller, and by every task that looks after one group or pool.
#[derive(Clone, Default)]
pub(crate) struct Watch(Rc<Ended>);

#[derive(Default)]
struct Ended {
    told: Cell<bool>,
    signal: Signal,
}

impl Watch {
    /// Tells the tasks to end.
    pub(crate) fn end(&self) {
        self.0.told.set(true);
        self.0.signal.wake_all();
    }

    /// Whether the tasks are to end.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.told.get()
    }

    /// Returns when the tasks are to end.
    pub(crate) async fn ended(&self) {
        self.0.signal.wait_for(|| self.has_ended().then_some(())).await;
    }

    /// Tells the tasks to end and waits until no other holder is left; whether that came in time.
    pub(crate) async fn let_go(self, world: &World) -> bool {
        self.end();
        let deadline = world.now() + LET_GO_TIME_MAX;
        while Rc::strong_count(&self.0) > 1 && world.now() < deadline {
            world.sleep(LET_GO_PAUSE).await;
        }
        Rc::strong_count(&self.0) == 1
    }
}
