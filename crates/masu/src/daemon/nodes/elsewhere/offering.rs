//! A standby that runs controllers for the owner.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use admin::NodeTls;
use anyhow::Result;
use array::{Control, ControllerHandle, Exchange, Nodes, OtherPortal, Told, event_channel, move_channel};
use cluster::lending::{EVERY, Terms};
use cluster::{Standing, State, Waits, portal_group};
use config::{Config, PortalConfig};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, timeout};
use world_real::{boot_now, set_term};

use super::claim::claim;
use super::frames::{Assignment, Frame, Hello, Path};
use super::told;
use super::wire::{Carries, Wire};
use super::{numbers, text_of};
use crate::daemon::controllers::{Controllers, Ends, Footing};
use crate::daemon::nodes::link;
use crate::daemon::nodes::owner::way_to;
use crate::daemon::nodes::paths::keep_telling;
use crate::daemon::nodes::relay::Way;

/// Between two attempts to reach the owner.
const AGAIN: Duration = Duration::from_secs(1);
/// A node that is to end waits so long for the owner to take its controllers back.
const LEAVE_TIME: Duration = Duration::from_secs(5);
/// Groups that were refused and are not yet told to the owner; more say nothing new.
const REFUSALS_MAX: usize = 64;

/// What happens to the portals of this node.
pub(in crate::daemon::nodes) enum Turn {
    /// These controllers open them when this is answered.
    Opens(Vec<u16>, oneshot::Sender<()>),
    /// They are closed again.
    Closed,
}

/// What is known of this node.
pub(in crate::daemon::nodes) struct About {
    pub(in crate::daemon::nodes) tls: Arc<NodeTls>,
    pub(in crate::daemon::nodes) portals: Vec<SocketAddr>,
    pub(in crate::daemon::nodes) spans_machines: bool,
    pub(in crate::daemon::nodes) footing: Footing,
}

/// The task of a standby.
pub(in crate::daemon::nodes) struct Offering {
    turns: mpsc::Receiver<Turn>,
    ends: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Offering {
    pub(in crate::daemon::nodes) fn start(about: About, state: watch::Receiver<State>) -> Offering {
        let (tell, turns) = mpsc::channel(1);
        let (ends, end) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut node = Node { about, state, tell, ends: end };
            while node.until_owner().await {
                // An owner that has just begun, or has not seen this node yet, refuses it.
                tokio::select! {
                    () = sleep(AGAIN) => {}
                    () = told(&mut node.ends) => return,
                }
                if let Err(error) = node.offer().await {
                    tracing::debug!("the owner runs all controllers itself: {error}");
                }
            }
        });
        Offering { turns, ends, task }
    }

    /// What happens next; waits for ever when nothing does.
    pub(in crate::daemon::nodes) async fn turn(&mut self) -> Turn {
        match self.turns.recv().await {
            Some(turn) => turn,
            None => std::future::pending().await,
        }
    }

    /// Stops the controllers in order. The portals are closed then.
    pub(in crate::daemon::nodes) async fn end(mut self) {
        self.ends.send_replace(true);
        self.turns.close();
        let _ = self.task.await;
    }
}

struct Node {
    about: About,
    state: watch::Receiver<State>,
    tell: mpsc::Sender<Turn>,
    ends: watch::Receiver<bool>,
}

/// The owner, and the number of this node, if it can run controllers for that owner.
fn owner_in(state: &State) -> Option<(link::Peer, u16)> {
    let Standing::Standby(Waits::Owner { .. }) = &state.standing else { return None };
    let owner = state.owner.as_ref().filter(|_| !state.owner_leaves)?;
    let own = Hello::own();
    if owner.controllers_protocol != Some(own.protocol) || owner.version != own.version {
        return None;
    }
    match way_to(owner) {
        Way::Tls(peer) => Some((peer, state.number?)),
        Way::Plain(_) | Way::Nowhere => None,
    }
}

impl Node {
    /// Returns when there is an owner; false: the node does not offer anything any more.
    async fn until_owner(&mut self) -> bool {
        let mut state = self.state.clone();
        tokio::select! {
            found = state.wait_for(|state| owner_in(state).is_some()) => found.is_ok(),
            () = told(&mut self.ends) => false,
        }
    }

    /// Runs what the owner assigns, until one of them leaves.
    ///
    /// # Errors
    /// The owner cannot be reached.
    async fn offer(&mut self) -> io::Result<()> {
        let Some((owner, number)) = owner_in(&self.state.borrow()) else { return Ok(()) };
        let mut stream = timeout(AGAIN, link::connect(&self.about.tls, &owner)).await??;
        Hello::own().write(&mut stream).await?;
        let mut wire = Wire::over(stream);
        let (mut terms, mut ask) = (Terms::default(), interval(EVERY));
        let (mut running, mut paths): (Option<Running>, Vec<OtherPortal>) = (None, Vec::new());
        let (mut ends, mut leaves) = (self.ends.clone(), false);
        let mut patience = Box::pin(sleep(LEAVE_TIME));
        loop {
            tokio::select! {
                _ = ask.tick() => wire.send(Frame::AskTerm(terms.ask(boot_now()))).await,
                frame = wire.next() => match (frame, &mut running) {
                    (Some(Frame::Term { number, granted_ms }), running) => {
                        terms.granted(number, Duration::from_millis(u64::from(granted_ms)));
                        if running.is_some() {
                            set_term(terms.until());
                        }
                    }
                    (Some(Frame::Paths(told)), running) => {
                        paths = told.iter().map(Path::portal).collect();
                        if let Some(running) = running {
                            running.hear_of(&paths);
                        }
                    }
                    (Some(Frame::Assign(assignment)), None) if terms.holds(boot_now()) => {
                        // From here on this process ends when the owner grants no more.
                        set_term(terms.until());
                        running = Some(self.begin(*assignment, (number, &paths), &wire).await);
                    }
                    (Some(Frame::Message(message)), Some(running)) => {
                        if let Err(error) = running.exchange.incoming(&message).await {
                            tracing::error!("the owner's messages cannot be read: {error}");
                            break;
                        }
                    }
                    _ => break,
                },
                () = all_ended(&mut running) => {
                    self.stop(running.take(), true).await;
                    wire.send(Frame::Ended).await;
                    break;
                }
                // The owner closes them, and hosts notice little.
                () = told(&mut ends), if !leaves => {
                    leaves = true;
                    if running.is_none() {
                        break;
                    }
                    wire.send(Frame::Leaves).await;
                    patience.as_mut().reset(Instant::now() + LEAVE_TIME);
                }
                () = &mut patience, if leaves => break,
            }
        }
        if let Some(running) = running.take() {
            tracing::warn!("this node {} no more: it stops them", running.text);
            self.stop(Some(running), false).await;
            // An owner that hears it need not wait for the end of the term.
            wire.send(Frame::Ended).await;
        }
        wire.end().await;
        Ok(())
    }

    /// Begins to run controllers: at once with their mailboxes, where what the owner sends waits for them.
    async fn begin(
        &self,
        assignment: Assignment,
        (number, paths): (u16, &[OtherPortal]),
        wire: &Wire,
    ) -> Running {
        let mut running = Running::prepare(&self.about, assignment, (number, paths));
        running.carries = Some(wire.carry(running.exchange.clone()));
        let (lent, is_lent) = oneshot::channel();
        if self.tell.send(Turn::Opens(numbers(&running.own), lent)).await.is_ok() {
            let _ = is_lent.await;
        }
        running.begin();
        running
    }

    async fn stop(&self, running: Option<Running>, in_order: bool) {
        let Some(running) = running else { return };
        running.stop(in_order).await;
        set_term(None);
        let _ = self.tell.send(Turn::Closed).await;
    }
}

/// Controllers that this node runs.
struct Running {
    text: String,
    own: Vec<usize>,
    controllers: Controllers,
    exchange: Arc<Exchange>,
    /// What its controllers are told.
    nodes: watch::Sender<Arc<Nodes>>,
    part: Config,
    carries: Option<Carries>,
    /// Waits for their drives, and starts them.
    begins: Option<JoinHandle<Result<()>>>,
    ended: BTreeSet<usize>,
}

/// Returns when all controllers of this node have ended, or could not begin.
async fn all_ended(running: &mut Option<Running>) {
    match running {
        None => std::future::pending().await,
        Some(running) => running.all_ended().await,
    }
}

impl Running {
    fn prepare(about: &About, assignment: Assignment, (number, paths): (u16, &[OtherPortal])) -> Running {
        let ownership = Some(assignment.ownership());
        let Assignment { controllers: own, config, .. } = assignment;
        if about.spans_machines {
            world_real::reserve_devices(config.id.0);
        }
        let count = config.controllers;
        let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..count).map(ControllerHandle::new).unzip();
        let ((events, told), (moves, asked)) = (event_channel(), move_channel());
        let (refused, heard) = async_channel::bounded(REFUSALS_MAX);
        let away = (0..count).filter(|index| !own.contains(index));
        let away = away.map(|index| mailboxes[index].clone()).collect();
        let here = own.iter().filter_map(|index| handles.get(*index).cloned()).collect();
        let exchange =
            Arc::new(Exchange::new(away, here, Told::Node { events: told, moves: asked, refused: heard }));
        let ends = Ends { events, traces: None, moves };
        let mailboxes = mailboxes.into_iter().map(|mailbox| ends.told_by(mailbox)).collect();
        let controllers = Controllers::of(handles, mailboxes, about.footing.clone());
        let first = own.first().copied().unwrap_or_default();
        let portal = |listen: &SocketAddr| PortalConfig {
            listen: *listen,
            controller: first,
            segment_bytes_max: None,
        };
        let nodes = Nodes {
            first_group: portal_group(number, 0),
            portals: Some(about.portals.iter().map(portal).collect()),
            relay_keys: vec![],
            others: paths.to_vec(),
            ownership,
            refused: Some(refused),
            keeps_spares: None,
        };
        let nodes = watch::Sender::new(Arc::new(nodes));
        own.iter().for_each(|index| {
            tokio::spawn(keep_telling(controllers.handles[*index].clone(), nodes.subscribe()));
        });
        let text = text_of(&numbers(&own));
        let part = config.of_controllers(&own);
        let (carries, begins, ended) = (None, None, BTreeSet::new());
        Running { text, own, controllers, exchange, nodes, part, carries, begins, ended }
    }

    fn hear_of(&self, paths: &[OtherPortal]) {
        let others = paths.to_vec();
        self.nodes.send_modify(|nodes| *nodes = Arc::new(Nodes { others, ..Nodes::clone(nodes) }));
    }

    fn begin(&mut self) {
        let (part, threads, own) = (self.part.clone(), self.controllers.threads(), self.own.clone());
        let nodes = self.nodes.subscribe();
        self.begins = Some(tokio::spawn(async move {
            claim(&part, |cause| tracing::warn!("controllers wait for their drives: {cause}")).await;
            own.into_iter().try_for_each(|index| threads.start(index, Some(nodes.borrow().clone())))
        }));
    }

    async fn all_ended(&mut self) {
        while self.ended.len() < self.own.len() {
            let begins = async {
                match &mut self.begins {
                    Some(begins) => begins.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                begun = begins => {
                    self.begins = None;
                    match begun {
                        Ok(Ok(())) => tracing::info!("this node {}", self.text),
                        Ok(Err(error)) => return tracing::error!("{error:#}"),
                        Err(error) => return tracing::error!("{error}"),
                    }
                }
                index = self.controllers.one_ended() => { self.ended.insert(index); }
            }
        }
    }

    /// What was acknowledged is durable then, and the drives are closed. If that takes longer than the
    /// term, the process ends. `in_order`: the owner has told them to; otherwise it is gone, and nothing
    /// waits for its answers.
    async fn stop(mut self, in_order: bool) {
        let threads = self.controllers.threads();
        if !in_order {
            if let Some(carries) = self.carries.take() {
                carries.end().await;
            }
            drop(self.exchange);
            let others = (0..self.controllers.handles.len()).filter(|index| !self.own.contains(index));
            others.for_each(|index| threads.mailbox(index).clone().discard());
        }
        if let Some(begins) = self.begins {
            begins.abort();
            let _ = begins.await;
        }
        for index in self.own.into_iter().filter(|index| threads.runs(*index) && !self.ended.contains(index))
        {
            let stop = Control::Stop { grace: Duration::ZERO };
            if let Err(error) = self.controllers.handles[index].ask(stop).await {
                tracing::warn!("{error}");
            }
        }
        if let Err(error) = self.controllers.join() {
            tracing::error!("{error:#}");
        }
        // Their last answers.
        if let Some(carries) = self.carries {
            carries.end().await;
        }
    }
}
