//! What has its own power supply: the tasks of a machine in the model, which all end when its power is cut.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{AbortHandle, abortable};
use world::{
    Drive, DriveSpec, FenceError, Instant, Io, Listener, NetError, OpenError, Stream, StreamOptions,
    TaskBackend, World, WorldBackend,
};

/// A machine: it runs in a world of its own ([`Machine::world`]). Drives are outside of it: they complete
/// what was submitted.
pub(in super::super) struct Machine {
    world: World,
    tasks: Rc<Tasks>,
}

#[derive(Default)]
struct Tasks {
    running: RefCell<BTreeMap<u64, AbortHandle>>,
    next: Cell<u64>,
    is_off: Cell<bool>,
}

impl Machine {
    /// Turns on a machine.
    pub(in super::super) fn on(outer: &World) -> Machine {
        let tasks = Rc::<Tasks>::default();
        let world = World::new(Rc::new(Scope {
            outer: outer.clone(),
            tasks: tasks.clone(),
            seed: outer.seed().wrapping_add(outer.now().0),
        }));
        Machine { world, tasks }
    }

    /// Where its code runs.
    pub(in super::super) fn world(&self) -> &World {
        &self.world
    }

    /// Cuts its power: no task of it runs from now on.
    pub(in super::super) fn cut_power(&self) {
        self.tasks.is_off.set(true);
        self.tasks.running.take().into_values().for_each(|task| task.abort());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.cut_power();
    }
}

struct Scope {
    outer: World,
    tasks: Rc<Tasks>,
    /// Each machine draws its own numbers: one that was turned on again does not draw those of before.
    seed: u64,
}

impl TaskBackend for Scope {
    fn now(&self) -> Instant {
        self.outer.now()
    }

    fn cpu_time(&self) -> Duration {
        self.outer.cpu_time()
    }

    fn sleep_until(&self, deadline: Instant) -> Io<()> {
        self.outer.sleep_until(deadline)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()>>>) {
        if self.tasks.is_off.get() {
            return;
        }
        let (task, handle) = abortable(task);
        let id = self.tasks.next.replace(self.tasks.next.get() + 1);
        self.tasks.running.borrow_mut().insert(id, handle);
        let tasks = self.tasks.clone();
        self.outer.spawn(async move {
            // An aborted task has nothing to say.
            let _ = task.await;
            tasks.running.borrow_mut().remove(&id);
        });
    }
}

impl WorldBackend for Scope {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn open_drive(&self, spec: &DriveSpec) -> Io<Result<Drive, OpenError>> {
        self.outer.open_for_outer(spec)
    }

    fn fence(&self, spec: &DriveSpec) -> Io<Result<Option<String>, FenceError>> {
        self.outer.fence(spec)
    }

    fn listen(&self, addr: SocketAddr, options: StreamOptions) -> Result<Listener, NetError> {
        self.outer.listen_with(addr, options)
    }

    fn listen_local(&self, path: &Path) -> Result<Listener, NetError> {
        self.outer.listen_local(path)
    }

    fn connect(&self, addr: SocketAddr, options: StreamOptions) -> Io<Result<Stream, NetError>> {
        self.outer.connect(addr, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use world_model::Model;

    #[test]
    fn a_machine_without_power_does_nothing_more() {
        let ticks = Rc::new(Cell::new(0));
        let counted = ticks.clone();
        Model::new(1).run(async |world| {
            let machine = Machine::on(&world);
            let inner = machine.world().clone();
            let clock = inner.clone();
            inner.spawn(async move {
                loop {
                    clock.sleep(Duration::from_millis(10)).await;
                    counted.set(counted.get() + 1);
                }
            });
            world.sleep(Duration::from_millis(55)).await;
            machine.cut_power();
            world.sleep(Duration::from_secs(1)).await;
            inner.spawn(async { panic!("it has no power") });
            world.sleep(Duration::from_secs(1)).await;
        });
        assert_eq!(ticks.get(), 5);
    }
}
