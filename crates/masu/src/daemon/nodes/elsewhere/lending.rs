//! The owner's side: controllers that it has other nodes run, and takes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admin::ArrayOwner;
use anyhow::{Result, bail};
use array::{
    Control, Event, EventSender, Exchange, MoveSender, Nodes, Ownership, Reply, Told, answer_for_absent,
};
use cluster::{Standing, State};
use config::Config;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, sleep};
use world::Instant;
use world_real::boot_now;

use super::assignment::{home, of_node};
use super::claim::claim;
use super::frames::{Assignment, Frame, Hello, Path};
use super::told;
use super::wire::{Carries, Wire};
use super::{numbers, term};
use crate::daemon::controllers::Threads;
use crate::daemon::nodes::carry::Bytes;

/// How often the declaration is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// After a controller could not be closed or opened.
const AGAIN: Duration = Duration::from_secs(5);

/// A node that offers to run controllers.
pub(in crate::daemon::nodes) struct Offer {
    /// Those that have its certificate.
    pub(in crate::daemon::nodes) numbers: Vec<u16>,
    pub(in crate::daemon::nodes) hello: Hello,
    pub(in crate::daemon::nodes) stream: Box<dyn Bytes>,
    /// Its place among the connections of the node port.
    pub(in crate::daemon::nodes) place: OwnedSemaphorePermit,
}

/// What the owner knows.
pub(in crate::daemon::nodes) struct Own {
    pub(in crate::daemon::nodes) name: String,
    pub(in crate::daemon::nodes) ownership: Ownership,
    pub(in crate::daemon::nodes) state: watch::Receiver<State>,
    /// As controllers are told of them.
    pub(in crate::daemon::nodes) nodes: watch::Receiver<Arc<Nodes>>,
    /// The first controller that runs at each node, by the number of the node.
    pub(in crate::daemon::nodes) runs: watch::Sender<BTreeMap<u16, usize>>,
    /// The controllers that run here.
    pub(in crate::daemon::nodes) own_runs: watch::Sender<Vec<u16>>,
}

/// What the running array has.
pub(in crate::daemon) struct Served {
    pub(in crate::daemon) owner: ArrayOwner,
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
        let lender = Arc::new(Lender { own, served, stop: stop.clone(), lent: Mutex::default() });
        lender.list_own();
        let mut stop = stop;
        let task = tokio::spawn(async move {
            let mut nodes = JoinSet::new();
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
}

/// A node, as far as it runs controllers.
enum Place {
    /// It runs none.
    Idle,
    /// They are closed here, to begin there.
    Closing(JoinHandle<Result<Config>>),
    /// They are closed here, and do not begin there.
    Closed,
    /// It runs them.
    There { exchange: Arc<Exchange>, carries: Carries, opens: JoinHandle<()> },
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
    /// It gets none before.
    not_before: Instant,
}

impl Lender {
    fn lent(&self) -> MutexGuard<'_, BTreeMap<usize, u16>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The controllers that a node is to run now.
    async fn wanted(&self, name: &str) -> (BTreeSet<usize>, Config) {
        let config = self.served.owner.config().await;
        let home = home(&config.controller_nodes, config.controllers, &self.own.name);
        (of_node(&config.controller_nodes, home, name), config)
    }

    /// The life of a connection.
    async fn take(self: Arc<Lender>, offer: Offer) {
        let Offer { numbers, hello, stream, place: _place } = offer;
        let Some((number, name)) = self.name_of(&numbers) else { return };
        if hello != Hello::own() {
            return tracing::warn!(
                "node {name} runs no controllers: it is of version {}, and this one of {}",
                hello.version,
                Hello::own().version
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
            not_before: boot_now(),
        };
        self.serve(&mut peer).await;
        self.take_back(peer).await;
    }

    /// Until the connection ends, or the node has stopped what it ran.
    async fn serve(self: &Arc<Lender>, peer: &mut Peer) {
        let (mut look, mut nodes, mut stop) = (interval(LOOK), self.own.nodes.clone(), self.stop.clone());
        let mut looks: Option<JoinHandle<(BTreeSet<usize>, Config)>> = None;
        nodes.mark_changed();
        loop {
            let is_idle = matches!(peer.place, Place::Idle);
            tokio::select! {
                frame = peer.wire.next() => match frame {
                    Some(Frame::AskTerm(number)) => {
                        let granted = self.grant(peer);
                        let granted_ms = u32::try_from(granted.as_millis()).unwrap_or(0);
                        peer.wire.send(Frame::Term { number, granted_ms }).await;
                    }
                    Some(Frame::Message(message)) => {
                        let Place::There { exchange, .. } = &peer.place else { return };
                        if let Err(error) = exchange.incoming(&message).await {
                            let text = format!("the messages of node {} cannot be read: {error}", peer.name);
                            self.served.events.tell(Event::error("array", text));
                            return;
                        }
                    }
                    Some(Frame::Ended) => {
                        peer.ended = true;
                        return;
                    }
                    _ => return,
                },
                Ok(()) = nodes.changed() => {
                    let paths = Path::all(&nodes.borrow_and_update());
                    peer.wire.send(Frame::Paths(paths)).await;
                }
                _ = look.tick(), if looks.is_none() => {
                    let (lender, name) = (self.clone(), peer.name.clone());
                    looks = Some(tokio::spawn(async move { lender.wanted(&name).await }));
                }
                Some((wanted, config)) = finished(&mut looks) => {
                    let may_lend = is_idle && peer.over.is_some() && !self.stops() && boot_now() >= peer.not_before;
                    if may_lend && !wanted.is_empty() {
                        self.close_here(peer, &wanted, config);
                    } else if matches!(peer.place, Place::There { .. }) && wanted != peer.controllers {
                        self.recall(peer);
                    }
                }
                closed = closed(&mut peer.place) => match closed {
                    Ok(_) if self.stops() => {
                        peer.place = Place::Closed;
                        return;
                    }
                    Ok(config) => self.begin_there(peer, config).await,
                    Err(error) => {
                        tracing::warn!("controllers stay here: {error:#}");
                        self.stay(peer).await;
                    }
                },
                // It has nothing of the array.
                () = told(&mut stop), if is_idle => return,
            }
        }
    }

    /// A term within the own one.
    fn grant(&self, peer: &mut Peer) -> Duration {
        let until = match self.own.state.borrow().standing {
            Standing::Owner { until, .. } => until,
            _ => Instant(0),
        };
        let now = boot_now();
        let granted = term::grant(now, until);
        peer.over = peer.over.max(Some(term::over(now, granted)));
        granted
    }

    /// Closes controllers here, so that they can begin at a node.
    fn close_here(self: &Arc<Lender>, peer: &mut Peer, wanted: &BTreeSet<usize>, config: Config) {
        {
            let mut lent = self.lent();
            if wanted.iter().any(|index| lent.contains_key(index)) {
                return;
            }
            lent.extend(wanted.iter().map(|index| (*index, peer.number)));
        }
        self.list_own();
        peer.controllers = wanted.clone();
        let (lender, wanted) = (self.clone(), wanted.clone());
        peer.place = Place::Closing(tokio::spawn(async move { lender.close(&wanted, config).await }));
    }

    /// Gives the declaration back: whoever changes it may wait for these controllers now.
    async fn close(&self, wanted: &BTreeSet<usize>, config: Config) -> Result<Config> {
        let threads = &self.served.threads;
        // Destaged while hosts go on; what cannot move now is refused before anything is closed.
        for index in wanted {
            let handle = &threads.handles()[*index];
            let missing = match handle.ask(Control::Overview).await? {
                Reply::Status(status) => !status.missing.is_empty(),
                _ => false,
            };
            if missing {
                bail!("controller {index} misses a pool or a group");
            }
            for pool in config.pools.iter().filter(|pool| pool.controller == *index) {
                handle.ask(Control::MakeReady(pool.name.clone())).await?;
            }
        }
        for index in wanted {
            threads.is_to_end(*index);
            let closed = threads.handles()[*index].ask(Control::Stop { grace: Duration::ZERO }).await;
            threads.ended(*index).await?;
            // What it could not close in order is repaired when it is opened again.
            if let Err(error) = closed {
                tracing::warn!("{error}");
            }
        }
        Ok(config)
    }

    /// The controllers are closed here.
    async fn begin_there(self: &Arc<Lender>, peer: &mut Peer, config: Config) {
        let threads = &self.served.threads;
        let controllers: Vec<usize> = peer.controllers.iter().copied().collect();
        let away = controllers.iter().map(|index| threads.mailbox(*index).clone()).collect();
        let here = threads.handles().iter().filter(|handle| !peer.controllers.contains(&handle.index));
        let told = Told::Owner {
            events: self.served.events.clone(),
            moves: self.served.moves.clone(),
            refused: self.own.nodes.borrow().refused.clone().unwrap_or_else(nobody),
        };
        let exchange = Arc::new(Exchange::new(away, here.cloned().collect(), told));
        let Ownership { epoch, owner } = self.own.ownership;
        let assignment = Assignment { controllers: controllers.clone(), config, epoch, owner };
        peer.wire.send(Frame::Assign(Box::new(assignment))).await;
        let carries = peer.wire.carry(exchange.clone());
        self.own.runs.send_modify(|runs| _ = runs.insert(peer.number, controllers[0]));
        let (lender, name) = (self.clone(), peer.name.clone());
        let opens = tokio::spawn(async move {
            for index in controllers {
                match lender.served.owner.bring_up(index).await {
                    Ok(_) => {
                        let text = format!("controller {index} runs at node {name}");
                        lender.served.events.tell(Event::info("array", text));
                    }
                    // The connection has ended, or ends: it is taken back then.
                    Err(error) => tracing::warn!("controller {index} at node {name}: {error}"),
                }
            }
        });
        peer.place = Place::There { exchange, carries, opens };
    }

    /// The declaration has changed: the node is to stop what it runs.
    fn recall(&self, peer: &Peer) {
        for index in &peer.controllers {
            self.served.threads.handles()[*index].tell(Control::Stop { grace: Duration::ZERO });
        }
    }

    /// They could not be closed: those that have ended begin here again.
    async fn stay(&self, peer: &mut Peer) {
        peer.place = Place::Idle;
        let controllers = std::mem::take(&mut peer.controllers);
        for index in controllers.iter().filter(|index| !self.served.threads.runs(**index)) {
            self.begin_here(*index).await;
        }
        self.lent().retain(|index, _| !controllers.contains(index));
        self.list_own();
        // A rebuild, for example, goes on for hours.
        peer.not_before = boot_now() + AGAIN;
    }

    /// The node is gone, or has stopped: its controllers run here.
    async fn take_back(&self, peer: Peer) {
        let Peer { name, number, wire, place, controllers, over, ended, .. } = peer;
        match place {
            Place::Idle => return wire.end().await,
            Place::Closed => {}
            Place::Closing(closing) => {
                let _ = closing.await;
            }
            Place::There { carries, opens, exchange } => {
                carries.end().await;
                drop(exchange);
                wire.end().await;
                self.own.runs.send_modify(|runs| _ = runs.remove(&number));
                let all: Vec<String> = controllers.iter().map(ToString::to_string).collect();
                let all = all.join(", ");
                let why = if ended { "has stopped" } else { "does not answer" };
                let text = format!("node {name} {why}; controller {all} is taken over by this node");
                let event = if ended { Event::info("array", text) } else { Event::warning("array", text) };
                if !self.stops() {
                    self.served.events.tell(event);
                    self.claim(&controllers, (&name, over, ended)).await;
                }
                opens.abort();
                let _ = opens.await;
                if self.stops() {
                    // They were told to stop with all others, or their node has gone before.
                    controllers
                        .iter()
                        .for_each(|index| self.served.threads.mailbox(*index).clone().discard());
                    return;
                }
            }
        }
        for index in controllers.iter().filter(|index| !self.served.threads.runs(**index)) {
            self.begin_here(*index).await;
        }
        self.lent().retain(|index, _| !controllers.contains(index));
        self.list_own();
    }

    /// Waits until a node that does not answer cannot serve any more. Meanwhile hosts hear that its logical
    /// units are busy.
    async fn claim(&self, controllers: &BTreeSet<usize>, (name, over, ended): (&str, Option<Instant>, bool)) {
        let cause = format!("node {name} is gone, and its drives are not free yet");
        let answering = |config: Arc<Config>| {
            let mut absent = JoinSet::new();
            for index in controllers {
                let (mailbox, config) = (self.served.threads.mailbox(*index).clone(), config.clone());
                let (index, cause) = (*index, cause.clone());
                absent.spawn(async move { answer_for_absent(&mailbox, index, &config, &cause).await });
            }
            absent
        };
        // Whoever changes the array may wait for one of them.
        let mut absent = answering(Arc::new(Config::empty("")));
        let config = self.served.owner.config().await;
        absent.shutdown().await;
        let mut absent = answering(Arc::new(config.clone()));
        let controllers: Vec<usize> = controllers.iter().copied().collect();
        let part = config.of_controllers(&controllers);
        let claimed = async {
            // On one machine the locks of the drives say when it has ended.
            while self.served.spans_machines && !ended && over.is_some_and(|over| boot_now() < over) {
                sleep(Duration::from_millis(10)).await;
            }
            let tell = |why: String| {
                let text = format!("waits for the drives of controllers that node {name} ran: {why}");
                self.served.events.tell(Event::error("array", text));
            };
            claim(&part, tell).await;
        };
        let mut stop = self.stop.clone();
        tokio::select! {
            () = claimed => {}
            () = told(&mut stop) => {}
        }
        absent.shutdown().await;
    }

    async fn begin_here(&self, index: usize) {
        // The first in its mailbox that it needs before it opens anything.
        let nodes = self.own.nodes.borrow().clone();
        self.served.threads.handles()[index].tell(Control::Nodes(nodes));
        if let Err(error) = self.served.threads.start(index) {
            return tracing::error!("{error:#}");
        }
        while let Err(error) = self.served.owner.bring_up(index).await {
            if self.stops() {
                return;
            }
            tracing::error!("controller {index}: {error}; it is tried again");
            sleep(AGAIN).await;
        }
        self.served.events.tell(Event::info("array", format!("controller {index} runs at this node")));
    }
}

/// A channel that nobody listens at.
fn nobody() -> async_channel::Sender<u64> {
    async_channel::bounded(1).0
}

/// The result of a task when it has ended; waits for ever without one.
async fn finished<T>(task: &mut Option<JoinHandle<T>>) -> Option<T> {
    let ended = match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    };
    *task = None;
    ended.ok()
}

async fn closed(place: &mut Place) -> Result<Config> {
    match place {
        Place::Closing(closing) => closing.await?,
        Place::Idle | Place::Closed | Place::There { .. } => std::future::pending().await,
    }
}
