//! Work beside a workload.

use std::cell::Cell;
use std::rc::Rc;

use world::World;
use world::sync::Signal;

/// A task whose end can be waited for.
pub(crate) struct Beside(Rc<(Cell<bool>, Signal)>);

impl Beside {
    pub(crate) fn begin(world: &World, work: impl Future<Output = ()> + 'static) -> Beside {
        let done = Rc::new((Cell::new(false), Signal::default()));
        let told = done.clone();
        world.spawn(async move {
            work.await;
            told.0.set(true);
            told.1.wake_all();
        });
        Beside(done)
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) {
        self.0.1.wait_for(|| self.0.0.get().then_some(())).await;
    }
}
