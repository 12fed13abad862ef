//! The owner's side: controllers that it has other nodes run, and takes back (`taking_back`). How they change
//! their place is in `changing`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::config::DriveConfig;
use array::{Array, Config, EventSender, MoveSender, Nodes, Openers, Ownership};
use cluster::Standing;
use cluster::lending::{Pauses, grant, of_node, over};
use futures::channel::oneshot;
use futures::lock::Mutex;
use futures::{FutureExt, select_biased};
use world::sync::Signal;
use world::{Instant, Stream};

use super::frames::Frame;
use super::peer::{Changing, Peer, Place, closed};
use super::process::Process;
use super::threads::Threads;
use super::wire::Wire;

/// How often the declaration is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// After a controller could not be opened.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// What an owner lends.
pub(super) struct Lender {
    pub(super) process: Rc<Process>,
    pub(super) threads: Rc<Threads>,
    pub(super) array: Rc<Mutex<Array>>,
    pub(super) events: EventSender,
    pub(super) moves: MoveSender,
    pub(super) refused: async_channel::Sender<u64>,
    pub(super) ownership: Ownership,
    /// The controller that is never lent.
    pub(super) home: usize,
    /// As controllers are told of them, and when they changed.
    pub(super) nodes: RefCell<Arc<Nodes>>,
    pub(super) changed: Signal,
    /// The first controller that runs at each node, by the number of the node.
    pub(super) runs: RefCell<BTreeMap<u16, usize>>,
    pub(super) lent: RefCell<BTreeMap<usize, u16>>,
    pub(super) pauses: RefCell<Pauses<Vec<DriveConfig>>>,
    pub(super) openers: Openers,
    pub(super) stops: Cell<bool>,
    pub(super) stop: Signal,
    /// Connections of nodes.
    pub(super) peers: Cell<usize>,
}

/// What a connection waits for.
enum Next {
    Frame(Option<Frame>),
    Nodes(Arc<Nodes>),
    Look,
    Closed(Result<oneshot::Sender<()>, String>),
    Stop,
}

impl Lender {
    pub(super) fn config(&self) -> Arc<Config> {
        self.openers.config()
    }

    /// Lends no more.
    pub(super) fn stop(&self) {
        self.stops.set(true);
        self.stop.wake_all();
    }

    pub(super) async fn until_stop(&self) {
        self.stop.wait_for(|| self.stops.get().then_some(())).await;
    }

    /// Returns when no other node runs a controller.
    pub(super) async fn ended(&self) {
        self.stop();
        self.stop.wait_for(|| (self.peers.get() == 0).then_some(())).await;
    }

    /// The life of a connection.
    pub(super) async fn take(self: Rc<Lender>, stream: Stream) {
        let wire = Wire::over(&self.process.world, stream);
        let Some(Frame::Hello(number)) = wire.next().await else { return };
        let number = number as u16;
        // One that this owner has not seen comes again.
        let Some(name) = self.name_of(number) else { return };
        let mut peer = Peer {
            name,
            number,
            wire,
            place: Place::Idle,
            controllers: BTreeSet::new(),
            over: None,
            ended: false,
            leaves: false,
            sent: Rc::default(),
        };
        self.serve(&mut peer).await;
        self.take_back(peer).await;
    }

    /// Until the connection ends, or the node has stopped what it ran.
    async fn serve(self: &Rc<Lender>, peer: &mut Peer) {
        let (mut look_at, mut nodes) = (self.process.world.now(), None);
        loop {
            match self.next(peer, look_at, &nodes).await {
                Next::Frame(frame) => {
                    if !self.heed(peer, frame).await {
                        return;
                    }
                }
                Next::Nodes(told) => {
                    let paths = self.process.bed.keep_paths(super::owner::all_portals(&told));
                    nodes = Some(told);
                    peer.wire.send(Frame::Paths(paths)).await;
                }
                Next::Look => {
                    look_at = self.process.world.now() + LOOK;
                    if !self.look(peer) {
                        return;
                    }
                }
                // They stay closed.
                Next::Closed(Ok(_)) if self.stops.get() => return,
                Next::Closed(Ok(begins)) => self.begin_there(peer, begins).await,
                Next::Closed(Err(cause)) => {
                    self.process.tell(|| format!("{:?} stay here: {cause}", peer.controllers));
                    self.forget(peer);
                    self.pauses.borrow_mut().lost(peer.number, self.process.now());
                }
                Next::Stop => return,
            }
        }
    }

    async fn next(&self, peer: &mut Peer, look_at: Instant, nodes: &Option<Arc<Nodes>>) -> Next {
        // It has nothing of the array, and the array nothing of it.
        let has_none = matches!(peer.place, Place::Idle | Place::Beginning { .. });
        let is_new = || {
            let now = self.nodes.borrow();
            nodes.as_ref().is_none_or(|told| !Arc::ptr_eq(told, &now)).then(|| now.clone())
        };
        let Peer { wire, place, .. } = peer;
        select_biased! {
            frame = wire.next().boxed_local().fuse() => Next::Frame(frame),
            told = self.changed.wait_for(is_new).boxed_local().fuse() => Next::Nodes(told),
            begins = closed(place).boxed_local().fuse() => Next::Closed(begins),
            () = self.until_stop_if(has_none).boxed_local().fuse() => Next::Stop,
            () = self.process.world.sleep_until(look_at).boxed_local().fuse() => Next::Look,
        }
    }

    async fn until_stop_if(&self, has_none: bool) {
        match has_none {
            true => self.until_stop().await,
            false => std::future::pending().await,
        }
    }

    /// False: the connection has to end.
    async fn heed(self: &Rc<Lender>, peer: &mut Peer, frame: Option<Frame>) -> bool {
        match frame {
            Some(Frame::AskTerm(number)) => {
                let granted_ms = self.grant(peer).as_millis() as u64;
                peer.wire.send(Frame::Term { number, granted_ms }).await;
            }
            Some(Frame::Message(message)) => {
                let Place::There { exchange, .. } = &peer.place else { return false };
                exchange.incoming(&message).await.unwrap_or_else(|e| panic!("messages of a node: {e}"));
            }
            Some(Frame::Begins) => return self.has_begun(peer),
            Some(Frame::CannotBegin) => return self.has_refused(peer),
            Some(Frame::Leaves) => {
                peer.leaves = true;
                self.recall(peer);
            }
            Some(Frame::Ended) => {
                peer.ended = true;
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Looks whether a node is to run others than it does; false: the connection has to end.
    fn look(self: &Rc<Lender>, peer: &mut Peer) -> bool {
        let (wanted, now) = (self.wanted(&peer.name), self.process.now());
        match &peer.place {
            Place::Idle => {
                let may_lend = !peer.leaves && peer.over.is_some() && !self.stops.get() && !wanted.is_empty();
                if may_lend && self.pauses.borrow().may_get(peer.number, &self.drives_of(&wanted), now) {
                    self.close_here(peer, &wanted);
                }
            }
            Place::Beginning { until, .. } if now >= *until => {
                self.note_refused(peer);
                return false;
            }
            Place::There { .. } if wanted != peer.controllers => self.recall(peer),
            Place::Closing { .. } | Place::Beginning { .. } | Place::There { .. } => {}
        }
        true
    }

    /// The drives of controllers, as they are declared.
    pub(super) fn drives_of(&self, controllers: &BTreeSet<usize>) -> Vec<DriveConfig> {
        self.openers.part(&controllers.iter().copied().collect::<Vec<_>>()).drives
    }

    fn name_of(&self, number: u16) -> Option<String> {
        let state = self.process.told.state.borrow();
        Some(state.as_ref()?.others.iter().find(|other| other.number == number)?.name.clone())
    }

    /// The controllers that a node is to run now.
    fn wanted(&self, name: &str) -> BTreeSet<usize> {
        of_node(&self.config().controller_nodes, self.home, name)
    }

    /// A term within the own one.
    fn grant(&self, peer: &mut Peer) -> Duration {
        let until = match self.process.told.state.borrow().as_ref().map(|state| state.standing.clone()) {
            Some(Standing::Owner { until, .. }) => until,
            _ => Instant(0),
        };
        let now = self.process.now();
        let granted = grant(now, until);
        peer.over = peer.over.max(Some(over(now, granted)));
        granted
    }

    /// Has controllers close here, so that they can begin at a node.
    fn close_here(self: &Rc<Lender>, peer: &mut Peer, wanted: &BTreeSet<usize>) {
        let mut lent = self.lent.borrow_mut();
        if wanted.iter().any(|index| lent.contains_key(index)) {
            return;
        }
        lent.extend(wanted.iter().map(|index| (*index, peer.number)));
        peer.controllers = wanted.clone();
        let (tell, closed) = oneshot::channel();
        let (lender, wanted) = (self.clone(), wanted.iter().copied().collect::<Vec<_>>());
        let changing = Changing::begin(&self.process.world, async move { lender.lend(&wanted, tell).await });
        peer.place = Place::Closing { changing, closed };
    }

    /// The node is to stop what it runs: it ends, or the declaration has changed.
    fn recall(self: &Rc<Lender>, peer: &mut Peer) {
        let Place::There { changing, closed, .. } = &mut peer.place else { return };
        if self.stops.get() || closed.is_some() || !changing.is_finished() {
            return;
        }
        let (tell, is_closed) = oneshot::channel();
        let (lender, controllers) = (self.clone(), peer.controllers.iter().copied().collect::<Vec<_>>());
        *closed = Some(is_closed);
        *changing =
            Changing::begin(&self.process.world, async move { lender.bring_back(&controllers, tell).await });
    }

    /// The node runs nothing of the array.
    pub(super) fn forget(&self, peer: &mut Peer) {
        peer.place = Place::Idle;
        let controllers = std::mem::take(&mut peer.controllers);
        self.lent.borrow_mut().retain(|index, _| !controllers.contains(index));
    }

    pub(super) fn start(&self, index: usize) {
        self.threads.start(index, self.nodes.borrow().clone());
    }
}
