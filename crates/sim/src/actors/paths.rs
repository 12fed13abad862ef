//! The paths of a host to the nodes of an array, as its multipath layer uses them: one at a time, and another
//! one when that gives no answer. A command is sent again until it is answered; it may be executed twice.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::time::Duration;

use block::Pieces;
use futures::future::{Either, select};
use iscsi::initiator::{Done, Options, Session};
use scsi::Lun;
use world::sync::Permits;
use world::{Instant, Rng, World};

/// A path without an answer for so long is given up.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two rounds over all paths.
const PAUSE: Duration = Duration::from_millis(100);
/// Longer than any take-over, whatever fails meanwhile: a command without an answer for so long is an error
/// that a host would see.
const GIVES_UP: Duration = Duration::from_secs(120);
/// BUSY (SAM-6 5.3.1): to be sent again.
const BUSY: u8 = 0x08;

/// All paths of a host.
pub(crate) struct Paths {
    world: World,
    all: Vec<Options>,
    /// The session in use, and how many came before it.
    used: RefCell<Option<(u64, Session)>>,
    /// Held by who looks for another path.
    search: Permits,
    rng: RefCell<Rng>,
    /// The host does something else between commands, at most for so long.
    think: Duration,
    changes: Cell<u64>,
    waited_max: Cell<Duration>,
}

impl Paths {
    /// A host that uses no path yet.
    pub(crate) fn new(world: &World, name: &str, all: Vec<Options>, think: Duration) -> Paths {
        Paths {
            world: world.clone(),
            all,
            used: RefCell::default(),
            search: Permits::new(1),
            rng: RefCell::new(world.random(name)),
            think,
            changes: Cell::new(0),
            waited_max: Cell::default(),
        }
    }

    /// How often it took another path.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// The longest time that a command took.
    pub(crate) fn waited_max(&self) -> Duration {
        self.waited_max.get()
    }

    /// Executes a command; panics when no path answers.
    pub(crate) async fn command(&self, lun: Lun, cdb: [u8; 16], out: Pieces, data_in_max: u32) -> Done {
        let think = self.rng.borrow_mut().u64(..=self.think.as_nanos() as u64);
        self.world.sleep(Duration::from_nanos(think)).await;
        let begun = self.world.now();
        loop {
            self.has_patience(begun);
            let (number, session) = self.session(begun).await;
            let answer = self.within(session.command(lun, cdb, out.clone(), data_in_max)).await;
            match answer {
                Some(Ok(done)) if done.status == BUSY => self.world.sleep(PAUSE).await,
                Some(Ok(done)) => {
                    self.waited_max.set(self.waited_max.get().max(self.world.now() - begun));
                    return done;
                }
                Some(Err(_)) | None => {
                    // The commands that still wait there end, too, before one is sent again: a copy could
                    // write later what it had read.
                    session.close();
                    // Unless another command has done so, and uses another one already.
                    drop(self.used.borrow_mut().take_if(|(used, _)| *used == number));
                }
            }
        }
    }

    /// The session in use; if there is none, over the first path that answers.
    async fn session(&self, begun: Instant) -> (u64, Session) {
        let _one = self.search.take(1).await;
        if let Some(used) = self.used.borrow().clone() {
            return used;
        }
        loop {
            let first = self.rng.borrow_mut().usize(..self.all.len());
            for path in (0..self.all.len()).map(|n| (first + n) % self.all.len()) {
                if let Some(Ok(session)) = self.within(Session::login(&self.world, &self.all[path])).await {
                    let number = self.changes.replace(self.changes.get() + 1);
                    *self.used.borrow_mut() = Some((number, session.clone()));
                    return (number, session);
                }
            }
            self.has_patience(begun);
            self.world.sleep(PAUSE).await;
        }
    }

    /// Panics when a command has waited too long.
    fn has_patience(&self, begun: Instant) {
        let waited = self.world.now() - begun;
        assert!(waited < GIVES_UP, "no node has answered a host for {} s", waited.as_secs());
    }

    async fn within<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        match select(pin!(call), pin!(self.world.sleep(PATIENCE))).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }
}
