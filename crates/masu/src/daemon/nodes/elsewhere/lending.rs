//! The owner's side: controllers that it has other nodes run, and takes back (`taking_back`), and spares for
//! their groups (`spares`). How they change their place is in `changing`.

mod changing;
mod spares;
mod taking_back;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admin::ArrayOwner;
use array::{ControlError, Event, EventSender, Exchange, MoveSender, Nodes, Openers, Ownership};
use cluster::lending::{BEGIN_MAX, Pauses, grant, of_node, over};
use cluster::{Standing, State};
use config::{Config, DriveConfig};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::interval;
use world::Instant;
use world_real::boot_now;

use super::frames::{Frame, Hello, Path};
use super::numbers;
use super::told;
use super::wire::{Carries, Wire};
use crate::daemon::controllers::Threads;
use crate::daemon::nodes::link::Offer;

/// How often the declaration is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// After a controller could not be opened.
const AGAIN: Duration = Duration::from_secs(5);

/// What the owner knows.
pub(in crate::daemon::nodes) struct Own {
    pub(in crate::daemon::nodes) ownership: Ownership,
    pub(in crate::daemon::nodes) state: watch::Receiver<State>,
    /// As controllers are told of them.
    pub(in crate::daemon::nodes) nodes: watch::Receiver<Arc<Nodes>>,
    /// The first controller that runs at each node, by the number of the node.
    pub(in crate::daemon::nodes) runs: watch::Sender<BTreeMap<u16, usize>>,
    /// The controller that is never lent.
    pub(in crate::daemon::nodes) home: usize,
    /// The controllers that run here.
    pub(in crate::daemon::nodes) own_runs: watch::Sender<Vec<u16>>,
    /// What it waits for that another owner would wait for, too.
    pub(in crate::daemon::nodes) waits: watch::Sender<Option<String>>,
}

/// What the running array has.
pub(in crate::daemon) struct Served {
    pub(in crate::daemon) owner: ArrayOwner,
    pub(in crate::daemon) openers: Openers,
    pub(in crate::daemon) threads: Arc<Threads>,
    pub(in crate::daemon) events: EventSender,
    pub(in crate::daemon) moves: MoveSender,
    pub(in crate::daemon) spans_machines: bool,
}

/// The task that lends controllers, until the array stops.
pub(in crate::daemon) struct Lending {
    stops: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Lending {
    pub(in crate::daemon::nodes) fn start(
        own: Own,
        served: Served,
        mut offers: mpsc::Receiver<Offer>,
    ) -> Lending {
        let (stops, stop) = watch::channel(false);
        let (lent, pauses) = (Mutex::default(), Mutex::default());
        let lender = Arc::new(Lender { own, served, stop: stop.clone(), lent, pauses });
        lender.list_own();
        let mut stop = stop;
        let task = tokio::spawn(async move {
            let mut nodes = JoinSet::new();
            nodes.spawn(lender.clone().give_spares());
            loop {
                tokio::select! {
                    Some(offer) = offers.recv() => { nodes.spawn(lender.clone().take(offer)); }
                    Some(_) = nodes.join_next() => {}
                    () = told(&mut stop) => break,
                }
            }
            // Their controllers are about to be told to stop.
            while nodes.join_next().await.is_some() {}
        });
        Lending { stops, task }
    }

    /// Lends no more. The controllers that other nodes run stay there until they are told to stop with all
    /// others; one whose node is gone by then has stopped.
    pub(in crate::daemon) fn stops(&self) {
        self.stops.send_replace(true);
    }

    /// Returns when no other node runs a controller. To be called when the array has stopped.
    pub(in crate::daemon) async fn ended(self) {
        self.stops.send_replace(true);
        let _ = self.task.await;
    }
}

struct Lender {
    own: Own,
    served: Served,
    stop: watch::Receiver<bool>,
    /// The controllers that other nodes run, or that are on their way, with those nodes.
    lent: Mutex<BTreeMap<usize, u16>>,
    /// When nodes may get some again.
    pauses: Mutex<Pauses<Vec<DriveConfig>>>,
}

/// The task that has controllers change their place.
type Changing = JoinHandle<Result<(), ControlError>>;

/// A node, as far as it runs controllers.
enum Place {
    /// It runs none.
    Idle,
    /// They are closed here, to begin there: `closed` says when, and takes when they have begun.
    Closing { changing: Changing, closed: oneshot::Receiver<oneshot::Sender<()>> },
    /// It claims their drives, until this time at most; `begins` is told when they have begun there. Dropped,
    /// they begin here again.
    Beginning { changing: Changing, begins: oneshot::Sender<()>, until: Instant },
    /// It runs them; `changing` opens them there, and brings them back at last: `closed` says when they are
    /// closed there, and takes when they are to begin here.
    There {
        exchange: Arc<Exchange>,
        carries: Carries,
        changing: Changing,
        closed: Option<oneshot::Receiver<oneshot::Sender<()>>>,
    },
}

/// The connection of a node.
struct Peer {
    name: String,
    number: u16,
    wire: Wire,
    place: Place,
    controllers: BTreeSet<usize>,
    /// When its term is over; none: it had none yet.
    over: Option<Instant>,
    /// Whether it has stopped its controllers in order.
    ended: bool,
    /// Whether it is to end.
    leaves: bool,
}

impl Lender {
    fn lent(&self) -> MutexGuard<'_, BTreeMap<usize, u16>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pauses(&self) -> MutexGuard<'_, Pauses<Vec<DriveConfig>>> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The drives of controllers, as they are declared.
    fn drives_of(&self, controllers: &BTreeSet<usize>) -> Vec<DriveConfig> {
        self.served.openers.part(&controllers.iter().copied().collect::<Vec<_>>()).drives
    }

    fn stops(&self) -> bool {
        *self.stop.borrow()
    }

    /// Says which controllers run here.
    fn list_own(&self) {
        let lent: Vec<usize> = self.lent().keys().copied().collect();
        let all = 0..self.served.threads.handles().len();
        let own: Vec<usize> = all.filter(|index| !lent.contains(index)).collect();
        self.own.own_runs.send_replace(numbers(&own));
    }

    fn name_of(&self, numbers: &[u16]) -> Option<(u16, String)> {
        let state = self.own.state.borrow();
        let other = state.others.iter().find(|other| numbers.contains(&other.number))?;
        Some((other.number, other.name.clone()))
    }

    /// The controllers that a node is to run now. Whoever changes the array may wait for one of them: nobody
    /// waits for the change.
    fn wanted(&self, name: &str) -> BTreeSet<usize> {
        of_node(&self.declared().controller_nodes, self.own.home, name)
    }

    /// What is declared now.
    fn declared(&self) -> Arc<Config> {
        self.served.openers.config()
    }

    /// The life of a connection.
    async fn take(self: Arc<Lender>, offer: Offer) {
        let Offer { numbers, hello, stream, place: _place } = offer;
        let Some((number, name)) = self.name_of(&numbers) else { return };
        if hello != Hello::own() {
            return tracing::warn!(
                "node {name} runs no controllers: it is {hello}, and this node {}",
                Hello::own()
            );
        }
        let wire = Wire::over(stream);
        let mut peer = Peer {
            name,
            number,
            wire,
            place: Place::Idle,
            controllers: BTreeSet::new(),
            over: None,
            ended: false,
            leaves: false,
        };
        self.serve(&mut peer).await;
        self.take_back(peer).await;
    }

    /// Until the connection ends, or the node has stopped what it ran.
    async fn serve(self: &Arc<Lender>, peer: &mut Peer) {
        let (mut look, mut nodes, mut stop) = (interval(LOOK), self.own.nodes.clone(), self.stop.clone());
        nodes.mark_changed();
        loop {
            // It has nothing of the array, and the array nothing of it.
            let has_none = matches!(peer.place, Place::Idle | Place::Beginning { .. });
            tokio::select! {
                frame = peer.wire.next() => {
                    if !self.heed(peer, frame).await {
                        return;
                    }
                }
                Ok(()) = nodes.changed() => {
                    let paths = Path::all(&nodes.borrow_and_update());
                    peer.wire.send(Frame::Paths(paths)).await;
                }
                _ = look.tick() => {
                    if !self.look(peer) {
                        return;
                    }
                }
                begins = closed(&mut peer.place) => match begins {
                    // They stay closed.
                    Ok(_) if self.stops() => return,
                    Ok(begins) => self.begin_there(peer, begins).await,
                    Err(cause) => {
                        tracing::warn!("controllers for node {} stay here: {cause}", peer.name);
                        self.forget(peer);
                        // A rebuild, for example, goes on for hours.
                        self.pauses().lost(peer.number, boot_now());
                    }
                },
                () = told(&mut stop), if has_none => return,
            }
        }
    }

    /// What a node says; false: the connection has to end.
    async fn heed(self: &Arc<Lender>, peer: &mut Peer, frame: Option<Frame>) -> bool {
        match frame {
            Some(Frame::AskTerm(number)) => {
                let granted = self.grant(peer);
                let granted_ms = u32::try_from(granted.as_millis()).unwrap_or(0);
                peer.wire.send(Frame::Term { number, granted_ms }).await;
            }
            Some(Frame::Message(message)) => {
                let Place::There { exchange, .. } = &peer.place else { return false };
                if let Err(error) = exchange.incoming(&message).await {
                    let text = format!("the messages of node {} cannot be read: {error}", peer.name);
                    self.served.events.tell(Event::error("array", text));
                    return false;
                }
            }
            Some(Frame::Begins) => return self.has_begun(peer),
            Some(Frame::CannotBegin(cause)) => return self.has_refused(peer, &cause),
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
    fn look(self: &Arc<Lender>, peer: &mut Peer) -> bool {
        let (wanted, now) = (self.wanted(&peer.name), boot_now());
        match &peer.place {
            Place::Idle => {
                let may_lend = !peer.leaves && peer.over.is_some() && !self.stops() && !wanted.is_empty();
                if may_lend && self.pauses().may_get(peer.number, &self.drives_of(&wanted), now) {
                    self.close_here(peer, &wanted);
                }
            }
            // It ends with its term, which is not renewed.
            Place::Beginning { until, .. } if now >= *until => {
                let cause = format!("has not claimed their drives within {} s", BEGIN_MAX.as_secs());
                self.refused_by(peer, &cause);
                return false;
            }
            Place::There { .. } if wanted != peer.controllers => self.recall(peer),
            Place::Closing { .. } | Place::Beginning { .. } | Place::There { .. } => {}
        }
        true
    }

    /// A term within the own one.
    fn grant(&self, peer: &mut Peer) -> Duration {
        let until = match self.own.state.borrow().standing {
            Standing::Owner { until, .. } => until,
            _ => Instant(0),
        };
        let now = boot_now();
        let granted = grant(now, until);
        peer.over = peer.over.max(Some(over(now, granted)));
        granted
    }

    /// Has controllers close here, so that they can begin at a node.
    fn close_here(self: &Arc<Lender>, peer: &mut Peer, wanted: &BTreeSet<usize>) {
        {
            let mut lent = self.lent();
            if wanted.iter().any(|index| lent.contains_key(index)) {
                return;
            }
            lent.extend(wanted.iter().map(|index| (*index, peer.number)));
        }
        self.list_own();
        peer.controllers = wanted.clone();
        let (tell, closed) = oneshot::channel();
        let (lender, wanted) = (self.clone(), wanted.iter().copied().collect::<Vec<_>>());
        let (name, number) = (peer.name.clone(), peer.number);
        let changing = tokio::spawn(async move { lender.lend(&wanted, (&name, number), tell).await });
        peer.place = Place::Closing { changing, closed };
    }

    /// The node is to stop what it runs: it ends, or the declaration has changed.
    fn recall(self: &Arc<Lender>, peer: &mut Peer) {
        let Place::There { changing, closed, .. } = &mut peer.place else { return };
        if self.stops() || closed.is_some() || !changing.is_finished() {
            // All are about to stop; it is under way already; or they are being opened there: the next look
            // comes in a second.
            return;
        }
        let (tell, is_closed) = oneshot::channel();
        let (lender, controllers) = (self.clone(), peer.controllers.iter().copied().collect::<Vec<_>>());
        *closed = Some(is_closed);
        *changing = tokio::spawn(async move { lender.bring_back(&controllers, tell).await });
    }

    /// The node runs nothing of the array.
    fn forget(&self, peer: &mut Peer) {
        peer.place = Place::Idle;
        let controllers = std::mem::take(&mut peer.controllers);
        self.lent().retain(|index, _| !controllers.contains(index));
        self.list_own();
    }
}

/// What begins the controllers when they are closed here, or why they stay.
async fn closed(place: &mut Place) -> Result<oneshot::Sender<()>, String> {
    let Place::Closing { changing, closed } = place else { return std::future::pending().await };
    match closed.await {
        Ok(begins) => Ok(begins),
        Err(_) => Err(match changing.await {
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) => "they have begun here again".into(),
            Err(error) => error.to_string(),
        }),
    }
}
