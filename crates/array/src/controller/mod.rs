//! The data of a controller, shared by everything on its thread. It calls nothing above it: the modules that
//! open, serve and close its objects use it.

mod events;
mod index;
mod jobs;
mod made;
mod nexuses;
mod often;
mod partitions;
mod pool_service;
mod ports;
mod refusals;
mod slices;
mod state;
mod watch;

use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use scsi::{Tokens, Tracer};
use stack::Disk;
use world::{Instant, World};

use crate::config::Config;
use crate::mailbox::{ControllerHandle, Message};
use crate::move_request::MoveSender;

pub(crate) use events::Events;
pub(crate) use index::{Index, SECTOR_BYTES};
pub(crate) use jobs::{Job, Jobs};
pub(crate) use made::{Fresh, Kind};
pub(crate) use nexuses::Seen;
pub(crate) use partitions::Partitions;
pub(crate) use pool_service::PoolService;
pub(crate) use ports::{FrontEnd, OpenPort};
pub(crate) use slices::{Slices, key_after};
pub(crate) use state::{Mapped, ResyncWait, State, VolumeKey, identity_of};
pub(crate) use watch::Watch;

/// Commands of hosts that wait for a controller that begins.
const EARLY_MAX: usize = 1024;

/// One controller. All its data stay on its thread.
pub(crate) struct Controller {
    pub(crate) world: World,
    pub(crate) index: usize,
    /// The handles of all controllers, in order.
    handles: Vec<ControllerHandle>,
    pub(crate) tokens: Rc<Tokens<Disk>>,
    pub(crate) events: Rc<Events>,
    /// Chooses the commands at its ports that are traced.
    pub(crate) tracer: Rc<Tracer>,
    pub(crate) jobs: Rc<Jobs>,
    /// Where hosts' wishes go that a pool be moved; none where nobody makes changes.
    pub(crate) moves: OnceCell<MoveSender>,
    pub(crate) state: RefCell<State>,
    /// Start time, and the CPU time that the thread had used by then.
    pub(crate) started: (Instant, Duration),
    pub(crate) stopping: Cell<bool>,
    /// Cloned by each command from the port of another controller, until it has been carried out.
    pub(crate) carried: Rc<()>,
    /// Whether it has had a declaration, and what hosts have sent before.
    begun: (Cell<bool>, RefCell<Vec<Message>>),
    /// Whether it was told to open what is declared. What changes before that is not for it: it has nothing
    /// to show.
    pub(crate) was_prepared: Cell<bool>,
}

impl Controller {
    /// A controller with nothing declared.
    pub(crate) fn new(
        world: World,
        (index, handles): (usize, Vec<ControllerHandle>),
        events: Events,
    ) -> Controller {
        let started = (world.now(), world.cpu_time());
        let (tokens, events) = (Rc::new(Tokens::new(world.clone(), index)), Rc::new(events));
        let tracer = Rc::new(Tracer::new(world.clone()));
        let jobs = Rc::new(Jobs::new(world.clone(), events.clone()));
        let (state, stopping, moves) = (RefCell::new(State::new()), Cell::new(false), OnceCell::new());
        let begun = Default::default();
        Controller {
            world,
            index,
            handles,
            tokens,
            events,
            tracer,
            jobs,
            moves,
            state,
            started,
            stopping,
            carried: Rc::default(),
            begun,
            was_prepared: Cell::new(false),
        }
    }

    /// It has a declaration. Gives what hosts have sent before the first one.
    pub(crate) fn begin(&self) -> Vec<Message> {
        self.begun.0.set(true);
        self.begun.1.take()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.0.get()
    }

    /// Keeps what a host sends before there is a declaration: it would not find its logical unit. One too
    /// many is dropped, and its host hears BUSY.
    pub(crate) fn keep_early(&self, message: Message) {
        let mut early = self.begun.1.borrow_mut();
        if early.len() < EARLY_MAX {
            early.push(message);
        }
    }

    pub(crate) fn config(&self) -> Arc<Config> {
        self.state.borrow().config.clone()
    }

    pub(crate) fn handles(&self) -> &[ControllerHandle] {
        &self.handles
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = &ControllerHandle> {
        self.handles.iter().filter(|h| h.index != self.index)
    }

    /// The portal group tag of the portal at this place of the declaration.
    pub(crate) fn portal_group(&self, index: usize) -> u16 {
        self.state.borrow().nodes.portal_group(index)
    }

    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }
}
