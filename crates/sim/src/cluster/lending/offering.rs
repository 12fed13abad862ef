//! A standby that runs controllers for the owner.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::config::PortalConfig;
use array::{
    Config, Control, ControllerHandle, Exchange, Nodes, OtherPortal, Told, event_channel, move_channel,
};
use cluster::lending::{CLAIM_MAX, EVERY, Terms};
use cluster::{Standing, Waits, portal_group};
use futures::channel::oneshot;
use futures::future::{Fuse, LocalBoxFuture};
use futures::{FutureExt, select_biased};
use world::sync::Signal;
use world::{StreamOptions, World};

use super::frames::Frame;
use super::process::{Process, node_port, within};
use super::taking_back::{fence, tell_nodes};
use super::threads::Threads;
use super::wire::{Carries, Wire};
use crate::stacks::array::portal;

/// Between two attempts to reach the owner.
const AGAIN: Duration = Duration::from_secs(1);
/// A node that is to end waits so long for the owner to take its controllers back.
const LEAVE_TIME: Duration = Duration::from_secs(5);
const REFUSALS_MAX: usize = 64;

/// The task of a standby.
pub(in crate::cluster) struct Offering {
    ends: Rc<(Cell<bool>, Signal)>,
    ended: oneshot::Receiver<()>,
}

impl Offering {
    pub(in crate::cluster) fn start(process: &Rc<Process>) -> Offering {
        let (ends, (tell, ended)) = (Rc::<(Cell<bool>, Signal)>::default(), oneshot::channel());
        let (standby, world) =
            (Standby { process: process.clone(), ends: ends.clone() }, process.world.clone());
        world.clone().spawn(async move {
            while standby.until_owner().await {
                select_biased! {
                    () = standby.told().boxed_local().fuse() => break,
                    () = world.sleep(AGAIN).boxed_local().fuse() => {}
                }
                standby.offer().await;
            }
            let _ = tell.send(());
        });
        Offering { ends, ended }
    }

    /// Stops the controllers in order.
    pub(in crate::cluster) async fn end(self) {
        self.ends.0.set(true);
        self.ends.1.wake_all();
        let _ = self.ended.await;
    }
}

struct Standby {
    process: Rc<Process>,
    ends: Rc<(Cell<bool>, Signal)>,
}

/// What the connection waits for.
enum Next {
    Ask,
    Frame(Option<Frame>),
    /// Whether the drives are this node's.
    Claimed(bool),
    AllEnded,
    Leave,
    Patience,
}

impl Standby {
    async fn told(&self) {
        self.ends.1.wait_for(|| self.ends.0.get().then_some(())).await;
    }

    /// Returns when there is an owner; false: the node does not offer anything any more.
    async fn until_owner(&self) -> bool {
        let told = &self.process.told;
        select_biased! {
            () = self.told().boxed_local().fuse() => false,
            _ = told.changed.wait_for(|| self.owner()).boxed_local().fuse() => true,
        }
    }

    /// The owner's node port and the number of this node.
    fn owner(&self) -> Option<(SocketAddr, u16)> {
        let state = self.process.told.state.borrow();
        let state = state.as_ref()?;
        let Standing::Standby(Waits::Owner { .. }) = &state.standing else { return None };
        let owner = state.owner.as_ref().filter(|_| !state.owner_leaves)?;
        let portal: SocketAddr = owner.portals.first()?.parse().ok()?;
        let SocketAddr::V4(portal) = portal else { return None };
        Some((node_port(*portal.ip()), state.number?))
    }

    /// Runs what the owner assigns, until one of them leaves.
    async fn offer(&self) {
        let Process { node, world, .. } = &*self.process;
        let Some((owner, number)) = self.owner() else { return };
        if node.is_cut_off.get() {
            return;
        }
        let connected = within(world, AGAIN, world.connect(owner, StreamOptions::default())).await;
        let Some(Ok(stream)) = connected else { return };
        node.way_to_owner.set(Some(stream.local()));
        let wire = Wire::over(world, stream);
        wire.send(Frame::Hello(u64::from(number))).await;
        let running = self.serve(&wire, number).await;
        if let Some(running) = running {
            self.process.tell(|| format!("stops {:?}: the owner is gone", running.own));
            self.stop(running, false).await;
            // An owner that hears it need not wait for the end of the term.
            wire.send(Frame::Ended).await;
        }
        node.way_to_owner.set(None);
        wire.end().await;
    }

    /// Until the connection ends. What it still runs then.
    async fn serve(&self, wire: &Wire, number: u16) -> Option<Running> {
        let Process { world, told, .. } = &*self.process;
        let (mut terms, mut paths) = (Terms::default(), Vec::new());
        let mut running: Option<Running> = None;
        let (mut ask_at, mut leaves, mut patience) = (world.now(), false, None);
        loop {
            let next = select_biased! {
                frame = wire.next().boxed_local().fuse() => Next::Frame(frame),
                () = world.sleep_until(ask_at).boxed_local().fuse() => Next::Ask,
                next = becomes(&mut running).boxed_local().fuse() => next,
                () = self.leave(leaves).boxed_local().fuse() => Next::Leave,
                () = until(world, patience).boxed_local().fuse() => Next::Patience,
            };
            match next {
                Next::Ask => {
                    ask_at = world.now() + EVERY;
                    wire.send(Frame::AskTerm(terms.ask(self.process.now()))).await;
                }
                Next::Frame(Some(Frame::Term { number, granted_ms })) => {
                    terms.granted(number, Duration::from_millis(granted_ms));
                    if running.is_some() {
                        told.set_lent_until(terms.until());
                    }
                }
                Next::Frame(Some(Frame::Paths(at))) => {
                    paths = self.process.bed.paths_at(at);
                    running.iter().for_each(|running| running.hear_of(world, paths.clone()));
                }
                Next::Frame(Some(Frame::Assign { controllers, config, epoch, owner }))
                    if running.is_none() && terms.holds(self.process.now()) =>
                {
                    told.set_lent_until(terms.until());
                    let config = self.process.bed.config_at(config);
                    let (of, ownership) = ((controllers, config), array::Ownership { epoch, owner });
                    let mut begun = Running::prepare(&self.process, of, ownership, (number, &paths));
                    begun.claim(&self.process);
                    running = Some(begun);
                }
                Next::Frame(Some(Frame::Message(message))) if running.is_some() => {
                    let exchange = &running.as_ref().expect("it runs").exchange;
                    exchange.incoming(&message).await.unwrap_or_else(|e| panic!("messages of an owner: {e}"));
                }
                Next::Frame(_) => return running,
                Next::Claimed(true) => {
                    let begun = running.as_mut().expect("it claims");
                    self.process.tell(|| format!("runs {:?}", begun.own));
                    let nodes = begun.nodes.borrow().clone();
                    begun.own.iter().for_each(|index| begun.threads.start(*index, nodes.clone()));
                    wire.send(Frame::Begins).await;
                    begun.carries = Some(wire.carry(begun.exchange.clone(), |_| {}));
                }
                Next::Claimed(false) => {
                    self.stop(running.take().expect("it claimed"), true).await;
                    wire.send(Frame::CannotBegin).await;
                }
                Next::AllEnded => {
                    self.stop(running.take().expect("it ran"), true).await;
                    wire.send(Frame::Ended).await;
                    return None;
                }
                Next::Leave => {
                    leaves = true;
                    running.as_ref().filter(|running| running.carries.is_some())?;
                    wire.send(Frame::Leaves).await;
                    patience = Some(world.now() + LEAVE_TIME);
                }
                Next::Patience => return running,
            }
        }
    }

    async fn leave(&self, leaves: bool) {
        match leaves {
            true => std::future::pending().await,
            false => self.told().await,
        }
    }

    async fn stop(&self, running: Running, in_order: bool) {
        running.stop(in_order).await;
        self.process.told.set_lent_until(None);
    }
}

async fn until(world: &world::World, at: Option<world::Instant>) {
    match at {
        Some(at) => world.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Controllers that this node runs.
struct Running {
    own: Vec<usize>,
    threads: Rc<Threads>,
    exchange: Arc<Exchange>,
    /// What its controllers are told.
    nodes: Rc<RefCell<Arc<Nodes>>>,
    part: Config,
    carries: Option<Carries>,
    /// Claims their drives: whether that has succeeded.
    claims: Fuse<LocalBoxFuture<'static, bool>>,
    ended: BTreeSet<usize>,
}

/// What becomes of controllers: their drives are claimed, or all have ended.
async fn becomes(running: &mut Option<Running>) -> Next {
    let Some(running) = running else { return std::future::pending().await };
    while running.ended.len() < running.own.len() {
        select_biased! {
            claimed = &mut running.claims => return Next::Claimed(claimed),
            index = running.threads.ended.recv().boxed_local().fuse() => {
                running.ended.insert(index.expect("the sender is there"));
            }
        }
    }
    Next::AllEnded
}

/// Fences the drives of a part of the declaration. False: the node could not for too long.
async fn claims(process: &Process, part: &Config) -> bool {
    let begun = process.world.now();
    while process.node.cannot_claim.get() {
        if process.world.now() - begun >= CLAIM_MAX {
            return false;
        }
        process.world.sleep(AGAIN).await;
    }
    fence(&process.world, &process.node, part).await;
    true
}

impl Running {
    fn prepare(
        process: &Rc<Process>,
        (own, config): (Vec<usize>, Config),
        ownership: array::Ownership,
        (number, paths): (u16, &[OtherPortal]),
    ) -> Running {
        let count = config.controllers;
        let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..count).map(ControllerHandle::new).unzip();
        let ((events, told), (moves, asked)) = (event_channel(), move_channel());
        let (refused, heard) = async_channel::bounded(REFUSALS_MAX);
        let away =
            (0..count).filter(|index| !own.contains(index)).map(|index| mailboxes[index].clone()).collect();
        let here = own.iter().map(|index| handles[*index].clone()).collect();
        let told = Told::Node { events: told, moves: asked, refused: heard };
        let exchange = Arc::new(Exchange::new(away, here, told));
        let mailboxes = mailboxes.into_iter().map(|m| m.telling(events.clone()).moving(moves.clone()));
        let threads = Threads::of(process, handles.into_iter().zip(mailboxes).collect());
        let controller = own.first().copied().unwrap_or_default();
        let listen = portal(process.node.address(), 0);
        let nodes = Nodes {
            first_group: portal_group(number, 0),
            portals: Some(vec![PortalConfig { listen, controller, segment_bytes_max: None }]),
            relay_keys: vec![],
            others: paths.to_vec(),
            ownership: Some(ownership),
            refused: Some(refused),
            keeps_spares: None,
            withheld: Arc::default(),
        };
        let (part, claims, ended) = (config.of_controllers(&own), Fuse::terminated(), BTreeSet::new());
        let nodes = Rc::new(RefCell::new(Arc::new(nodes)));
        Running { own, threads, exchange, nodes, part, carries: None, claims, ended }
    }

    fn hear_of(&self, world: &World, others: Vec<OtherPortal>) {
        let nodes = Arc::new(Nodes { others, ..Nodes::clone(&self.nodes.borrow()) });
        *self.nodes.borrow_mut() = nodes.clone();
        let own: Vec<_> = self.own.iter().map(|index| self.threads.handles[*index].clone()).collect();
        tell_nodes(world, &own, &nodes);
    }

    fn claim(&mut self, process: &Rc<Process>) {
        let (part, process, (mut tell, claimed)) =
            (self.part.clone(), process.clone(), oneshot::channel::<bool>());
        // It goes on while nobody looks, and ends with who wants to know.
        process.world.clone().spawn(async move {
            let done = select_biased! {
                () = tell.cancellation().boxed_local().fuse() => return,
                done = claims(&process, &part).boxed_local().fuse() => done,
            };
            let _ = tell.send(done);
        });
        self.claims = async move { claimed.await.unwrap_or(false) }.boxed_local().fuse();
    }

    /// What was acknowledged is durable then, and the drives are closed. `in_order`: the owner has told them
    /// to; otherwise it is gone, and nothing waits for its answers.
    async fn stop(mut self, in_order: bool) {
        if !in_order {
            if let Some(carries) = self.carries.take() {
                carries.end().await;
            }
            drop(self.exchange);
            let others = (0..self.threads.handles.len()).filter(|index| !self.own.contains(index));
            others.for_each(|index| self.threads.mailbox(index).clone().discard());
        }
        // What has not begun does not.
        drop(self.claims);
        let runs = |index: &usize| self.threads.runs(*index) && !self.ended.contains(index);
        for index in self.own.iter().copied().filter(runs) {
            let _ = self.threads.handles[index].ask(Control::Stop { grace: Duration::ZERO }).await;
        }
        self.threads.join().await;
        // Their last answers.
        if let Some(carries) = self.carries {
            carries.end().await;
        }
    }
}
