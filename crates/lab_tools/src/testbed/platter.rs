//! The time of a modelled drive, by the clock of its world: an operation ends when the mechanism has done it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use world::{Instant, World};
use world_model::drives::{Completion, DriveModel, Kind, Prepared, Request, Usage};

/// Addresses of the model are in these.
const BLOCK_BYTES: u64 = 512;

/// A mechanism, and the operations that wait for it.
pub(super) struct Platter<O> {
    world: World,
    model: RefCell<DriveModel>,
    /// By token.
    ops: RefCell<Vec<Option<O>>>,
    armed: Cell<Option<u64>>,
    queue: Cell<Queue>,
    /// What is done when one has had its time.
    end: Box<dyn Fn(O)>,
}

/// Operations in a drive, over time.
#[derive(Clone, Copy, Default)]
struct Queue {
    len: u64,
    since_ns: u64,
    /// How long operations were in it, added up.
    held_ns: u64,
}

impl Queue {
    /// With `len` operations from now on.
    fn with(self, len: u64, now_ns: u64) -> Queue {
        Queue { len, since_ns: now_ns, held_ns: self.held_ns + self.len * (now_ns - self.since_ns) }
    }
}

impl<O: 'static> Platter<O> {
    /// One that has done nothing yet.
    pub(super) fn new(world: &World, prepared: &Prepared, end: impl Fn(O) + 'static) -> Rc<Platter<O>> {
        Rc::new(Platter {
            world: world.clone(),
            model: RefCell::new(prepared.drive()),
            ops: RefCell::default(),
            armed: Cell::default(),
            queue: Cell::default(),
            end: Box::new(end),
        })
    }

    /// Takes `len` bytes at byte `at` through the mechanism.
    pub(super) fn submit(self: &Rc<Platter<O>>, kind: Kind, (at, len): (u64, u64), op: O) {
        let token = {
            let mut ops = self.ops.borrow_mut();
            let free = ops.iter().position(Option::is_none).unwrap_or(ops.len());
            if free == ops.len() {
                ops.push(None);
            }
            ops[free] = Some(op);
            free as u64
        };
        let (now, mut done) = (self.world.now().0, Vec::new());
        let queue = self.queue.get();
        self.queue.set(queue.with(queue.len + 1, now));
        self.catch_up(now, &mut done);
        let request = Request { token, kind, block: at / BLOCK_BYTES, blocks: len / BLOCK_BYTES };
        self.model.borrow_mut().submit(now, request, &mut done);
        self.arm(done);
    }

    /// How much it has worked so far.
    pub(super) fn usage(&self) -> Usage {
        let queue = self.queue.get();
        Usage { held_ns: queue.with(queue.len, self.world.now().0).held_ns, ..self.model.borrow().usage() }
    }

    /// The mechanism went on when it was free, whether a timer was late or not.
    fn catch_up(&self, now: u64, done: &mut Vec<Completion>) {
        let mut model = self.model.borrow_mut();
        while let Some(due) = model.due_ns().filter(|due| *due <= now) {
            model.wake(due, done);
            if model.due_ns() == Some(due) {
                return;
            }
        }
    }

    fn arm(self: &Rc<Platter<O>>, done: Vec<Completion>) {
        for completion in done {
            let platter = self.clone();
            self.world.spawn(async move {
                platter.world.sleep_until(Instant(completion.at_ns)).await;
                let queue = platter.queue.get();
                platter.queue.set(queue.with(queue.len - 1, platter.world.now().0));
                let op = platter.ops.borrow_mut()[completion.token as usize].take();
                op.into_iter().for_each(|op| (platter.end)(op));
            });
        }
        let due = self.model.borrow().due_ns();
        let Some(due) = due.filter(|due| self.armed.get().is_none_or(|armed| *due < armed)) else { return };
        self.armed.set(Some(due));
        // A drive that is closed is gone at once, and not when its mechanism would be free.
        let (world, platter) = (self.world.clone(), Rc::downgrade(self));
        self.world.spawn(async move {
            world.sleep_until(Instant(due)).await;
            let Some(platter) = platter.upgrade() else { return };
            if platter.armed.get() == Some(due) {
                platter.armed.set(None);
            }
            let mut done = Vec::new();
            platter.catch_up(platter.world.now().0, &mut done);
            platter.arm(done);
        });
    }
}
