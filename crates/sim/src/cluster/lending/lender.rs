//! The owner's side: controllers that it has other nodes run, and takes back (`taking_back`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::{
    Array, Config, Control, ControlError, EventSender, Exchange, MoveSender, Nodes, Openers, Ownership,
    Reply, Told, cannot_leave,
};
use cluster::Standing;
use cluster::lending::{grant, of_node, over};
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
/// After a controller could not be closed or opened.
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
    pub(super) again: RefCell<BTreeMap<u16, Instant>>,
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
        let not_before = self.again.borrow().get(&number).copied().unwrap_or(Instant(0));
        let mut peer = Peer {
            name,
            number,
            wire,
            place: Place::Idle,
            controllers: BTreeSet::new(),
            over: None,
            ended: false,
            leaves: false,
            not_before,
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
                    let wanted = self.wanted(&peer.name);
                    self.heed_look(peer, &wanted);
                }
                Next::Closed(Ok(begins)) => self.begin_there(peer, begins).await,
                Next::Closed(Err(cause)) => {
                    self.process.tell(|| format!("{:?} stay here: {cause}", peer.controllers));
                    self.forget(peer);
                    peer.not_before = self.process.now() + AGAIN;
                }
                Next::Stop => return,
            }
        }
    }

    async fn next(&self, peer: &mut Peer, look_at: Instant, nodes: &Option<Arc<Nodes>>) -> Next {
        let is_idle = matches!(peer.place, Place::Idle);
        let is_new = || {
            let now = self.nodes.borrow();
            nodes.as_ref().is_none_or(|told| !Arc::ptr_eq(told, &now)).then(|| now.clone())
        };
        let Peer { wire, place, .. } = peer;
        select_biased! {
            frame = wire.next().boxed_local().fuse() => Next::Frame(frame),
            told = self.changed.wait_for(is_new).boxed_local().fuse() => Next::Nodes(told),
            begins = closed(place).boxed_local().fuse() => Next::Closed(begins),
            () = self.until_stop_if(is_idle).boxed_local().fuse() => Next::Stop,
            () = self.process.world.sleep_until(look_at).boxed_local().fuse() => Next::Look,
        }
    }

    async fn until_stop_if(&self, is_idle: bool) {
        match is_idle {
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

    fn heed_look(self: &Rc<Lender>, peer: &mut Peer, wanted: &BTreeSet<usize>) {
        let may_lend = !peer.leaves && peer.over.is_some() && self.process.now() >= peer.not_before;
        let is_idle = matches!(peer.place, Place::Idle);
        if is_idle && may_lend && !self.stops.get() && !wanted.is_empty() {
            self.close_here(peer, wanted);
        } else if *wanted != peer.controllers {
            self.recall(peer);
        }
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

    /// Closes controllers here, and opens them at a node when that has begun.
    async fn lend(
        &self,
        controllers: &[usize],
        tell: oneshot::Sender<oneshot::Sender<()>>,
    ) -> Result<(), ControlError> {
        self.refuse_missing(controllers).await?;
        self.process.tell(|| format!("closes controllers {controllers:?}"));
        let mut array = self.array.lock().await;
        let changed = array.change_places(controllers, async || {
            for index in controllers {
                self.threads.wait_for_end(*index).await;
            }
            let (begins, begun) = oneshot::channel();
            // Without the node they begin here again.
            if tell.send(begins).is_err() || begun.await.is_err() {
                controllers.iter().for_each(|index| self.start(*index));
            }
        });
        changed.await?;
        self.process.tell(|| format!("controllers {controllers:?} run elsewhere"));
        Ok(())
    }

    /// Nothing is moved of which a part is missing, or is not declared.
    async fn refuse_missing(&self, controllers: &[usize]) -> Result<(), ControlError> {
        for index in controllers {
            if let Reply::Status(status) = self.threads.handles[*index].ask(Control::Overview).await?
                && let Some(cause) = cannot_leave(&self.config(), &status)
            {
                return Err(ControlError::failed(format!("controller {index}"), cause));
            }
        }
        Ok(())
    }

    /// The controllers are closed here.
    async fn begin_there(&self, peer: &mut Peer, begins: oneshot::Sender<()>) {
        let Place::Closing { changing, .. } = std::mem::replace(&mut peer.place, Place::Idle) else { return };
        let controllers: Vec<usize> = peer.controllers.iter().copied().collect();
        let away = controllers.iter().map(|index| self.threads.mailbox(*index).clone()).collect();
        let here = self.threads.handles.iter().filter(|handle| !peer.controllers.contains(&handle.index));
        let (events, moves, refused) = (self.events.clone(), self.moves.clone(), self.refused.clone());
        let told = Told::Owner { events, moves, refused };
        let exchange = Arc::new(Exchange::new(away, here.cloned().collect(), told));
        let first = controllers.first().copied().unwrap_or_default();
        let Ownership { epoch, owner } = self.ownership;
        let config = self.process.bed.keep_config(Config::clone(&self.config()));
        peer.wire.send(Frame::Assign { controllers, config, epoch, owner }).await;
        let sent = peer.sent.clone();
        let carries =
            peer.wire.carry(exchange.clone(), move |message| sent.borrow_mut().push(message.to_vec()));
        self.runs.borrow_mut().insert(peer.number, first);
        self.changed.wake_all();
        self.process.node.lent.set(self.process.node.lent.get() + 1);
        peer.place = Place::There { exchange, carries, changing, closed: None };
        let _ = begins.send(());
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

    /// Closes controllers at the node where they run, and opens them here when it has ended them.
    async fn bring_back(
        &self,
        controllers: &[usize],
        tell: oneshot::Sender<oneshot::Sender<()>>,
    ) -> Result<(), ControlError> {
        let change = async || {
            let (begins, begin) = oneshot::channel();
            if tell.send(begins).is_ok() {
                let _ = begin.await;
            }
            controllers.iter().for_each(|index| self.start(*index));
        };
        self.array.lock().await.change_places(controllers, change).await
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
