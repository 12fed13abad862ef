//! Controllers of a node that is gone, or has stopped them, begin at the owner.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::{
    Config, Control, ControllerHandle, Exchange, Nodes, Told, Unclaimed, Withheld, answer_for_absent,
};
use futures::channel::oneshot;
use futures::{FutureExt, select_biased};
use world::sync::Signal;
use world::{Instant, World};

use super::lender::{AGAIN, Lender};
use super::peer::{Changing, Peer, Place};
use super::process::within;
use crate::cluster::node::Node;
use crate::faults::Fault;

/// Between two attempts to fence a drive.
const FENCE_PAUSE: Duration = Duration::from_secs(1);
/// So long a drive that cannot be fenced is tried again, before groups do without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tasks that answer for controllers that run nowhere.
pub(super) struct Absent {
    ends: Rc<(Cell<bool>, Signal)>,
    ended: Vec<oneshot::Receiver<()>>,
}

impl Absent {
    pub(super) async fn shutdown(self) {
        self.ends.0.set(true);
        self.ends.1.wake_all();
        for ended in self.ended {
            let _ = ended.await;
        }
    }
}

/// How controllers come back that a node does not run any more.
enum Back {
    /// Nobody has closed them there.
    Lost,
    /// They were to begin there.
    Beginning(oneshot::Sender<()>),
    /// They are being closed there: who says when they are, and takes when they are to begin here.
    Closing(oneshot::Receiver<oneshot::Sender<()>>),
}

impl Lender {
    /// The node is gone, or has stopped: its controllers run here.
    pub(super) async fn take_back(&self, mut peer: Peer) {
        match std::mem::replace(&mut peer.place, Place::Idle) {
            Place::Idle => {}
            Place::Closing { changing, closed } => {
                // They begin here again, or have not been closed.
                drop(closed);
                let _ = changing.end().await;
            }
            Place::Beginning { changing, begins, .. } => {
                self.replace(&peer, changing, Back::Beginning(begins)).await;
            }
            Place::There { exchange, carries, changing, closed } => {
                self.process
                    .tell(|| format!("{:?} are to begin here, in order: {}", peer.controllers, peer.ended));
                carries.end().await;
                // Who waits for an answer of the node learns that there is none.
                drop(exchange);
                self.runs.borrow_mut().remove(&peer.number);
                self.changed.wake_all();
                self.replace(&peer, changing, closed.map_or(Back::Lost, Back::Closing)).await;
            }
        }
        self.forget(&mut peer);
        peer.wire.end().await;
    }

    /// Runs the controllers of a node that does not run them any more.
    async fn replace(&self, peer: &Peer, changing: Changing, back: Back) {
        let Peer { controllers, over, ended, .. } = peer;
        if !*ended {
            self.pauses.borrow_mut().lost(peer.number, self.process.now());
        }
        // What it has stopped in order it does not hold any more.
        if !self.stops.get() && !*ended {
            self.claim(controllers, *over).await;
        }
        match back {
            Back::Lost => {}
            Back::Beginning(begins) => {
                drop(begins);
                let _ = changing.end().await;
            }
            Back::Closing(closed) => {
                let begins = self.until_closed(controllers, closed).await;
                // An array that stops leaves them closed: a node that is gone may hold their drives yet.
                if let Some(begins) = begins.filter(|_| !self.stops.get()) {
                    let _ = begins.send(());
                }
                let _ = changing.end().await;
            }
        }
        let run_nowhere: BTreeSet<usize> =
            controllers.iter().copied().filter(|index| !self.threads.runs(*index)).collect();
        if self.stops.get() && !run_nowhere.is_empty() {
            drop(self.answer_for(&run_nowhere, "its node is gone"));
            return;
        }
        self.begin_here(controllers).await;
        if self.process.bed.fault == Fault::OldMessages && !*ended {
            self.deliver_again(peer).await;
        }
    }

    /// Waits until a node that does not answer cannot serve any more.
    async fn claim(&self, controllers: &BTreeSet<usize>, over: Option<Instant>) {
        let absent = self.answer_for(controllers, "its node is gone, and its drives are not free yet");
        let controllers: Vec<usize> = controllers.iter().copied().collect();
        let claimed = async {
            if self.process.bed.fault == Fault::NoLendingFence {
                return;
            }
            while over.is_some_and(|over| self.process.now() < over) {
                self.process.world.sleep(Duration::from_millis(10)).await;
            }
            // A pool may be on its way to them, or from them.
            fence(&self.process.world, &self.process.node, &self.openers.part(&controllers)).await;
        };
        select_biased! {
            () = claimed.boxed_local().fuse() => {}
            () = self.until_stop().boxed_local().fuse() => {}
        }
        absent.shutdown().await;
    }

    /// Who brings them back asks them and all others before it has them begin; others who change the array
    /// ask them, too. None: it has given up.
    async fn until_closed(
        &self,
        controllers: &BTreeSet<usize>,
        closed: oneshot::Receiver<oneshot::Sender<()>>,
    ) -> Option<oneshot::Sender<()>> {
        let absent = self.answer_for(controllers, "its node is gone");
        let begins = closed.await.ok();
        absent.shutdown().await;
        begins
    }

    /// Answers for controllers that run nowhere.
    pub(super) fn answer_for(&self, controllers: &BTreeSet<usize>, cause: &str) -> Absent {
        let ends = Rc::<(Cell<bool>, Signal)>::default();
        let mut all = vec![];
        for index in controllers.iter().copied() {
            let (mailbox, config, cause) =
                (self.threads.mailbox(index).clone(), self.config(), cause.to_owned());
            let ((tell, ended), end) = (oneshot::channel::<()>(), ends.clone());
            self.process.world.spawn(async move {
                select_biased! {
                    () = answer_for_absent(&mailbox, index, &config, &cause).boxed_local().fuse() => {}
                    () = end.1.wait_for(|| end.0.get().then_some(())).boxed_local().fuse() => {}
                }
                drop(tell);
            });
            all.push(ended);
        }
        Absent { ends, ended: all }
    }

    /// Runs controllers here, those that do not run already.
    async fn begin_here(&self, controllers: &BTreeSet<usize>) {
        let new: Vec<usize> =
            controllers.iter().copied().filter(|index| !self.threads.runs(*index)).collect();
        new.iter().for_each(|index| self.start(*index));
        for index in new {
            while let Err(error) = async { self.array.lock().await.bring_up(index).await }.await {
                if self.stops.get() {
                    return;
                }
                self.process.tell(|| format!("controller {index}: {error}; it is tried again"));
                self.process.world.sleep(AGAIN).await;
            }
        }
        self.process.tell(|| format!("runs {controllers:?} again"));
        let taken = &self.process.node.taken_back;
        taken.set(taken.get() + 1);
    }

    /// A fault: what was on its way to the node reaches those who run now.
    async fn deliver_again(&self, peer: &Peer) {
        let here = self.threads.handles.iter().filter(|handle| peer.controllers.contains(&handle.index));
        let (events, moves, refused) = (self.events.clone(), self.moves.clone(), self.refused.clone());
        let exchange = Exchange::new(vec![], here.cloned().collect(), Told::Owner { events, moves, refused });
        // Hosts have written something newer meanwhile.
        self.process.world.sleep(Duration::from_secs(1)).await;
        for message in peer.sent.take() {
            let _ = exchange.incoming(&message).await;
        }
        let answers = async { while exchange.outgoing().await.is_some() {} };
        within(&self.process.world, Duration::from_secs(1), answers).await;
    }
}

/// Fences all drives of a part of the declaration, until that has succeeded, or its groups can do without
/// those that cannot be fenced.
pub(in crate::cluster) async fn fence(world: &World, node: &Node, part: &array::Config) {
    let (begun, mut done) = (world.now(), BTreeSet::new());
    loop {
        let failed = try_fence(world, part, &mut done).await;
        if failed.is_empty() || world.now() - begun >= PATIENCE && failed.can_be_spared(part) {
            node.left_out.set(node.left_out.get() + failed.unfenced.len() as u64);
            return;
        }
        world.sleep(FENCE_PAUSE).await;
    }
}

/// The same of all drives, for the owner: it withholds what it cannot fence, if it can serve something else.
pub(super) async fn fence_all(world: &World, node: &Node, declared: &array::Config) -> Withheld {
    let (begun, mut done) = (world.now(), BTreeSet::new());
    loop {
        let failed = try_fence(world, declared, &mut done).await;
        let may_begin = failed.is_empty() || world.now() - begun >= PATIENCE;
        if let Some(withheld) = Withheld::to_begin(declared, |_| true, &failed).filter(|_| may_begin) {
            let left_out = failed.unfenced.len() - withheld.drives.len();
            node.left_out.set(node.left_out.get() + left_out as u64);
            node.withheld.set(node.withheld.get() + withheld.groups.len() as u64);
            return withheld;
        }
        world.sleep(FENCE_PAUSE).await;
    }
}

/// What is `done` is not fenced again: a pool that was on its way may have been opened here since.
async fn try_fence(world: &World, part: &array::Config, done: &mut BTreeSet<String>) -> Unclaimed {
    let mut failed = Unclaimed::default();
    for drive in part.drives.iter().filter(|drive| !done.contains(&drive.name)).collect::<Vec<_>>() {
        match world.fence(&drive.spec).await {
            Ok(_) => _ = done.insert(drive.name.clone()),
            Err(error) => _ = failed.unfenced.insert(drive.name.clone(), error.to_string()),
        }
    }
    failed
}

/// Fences what the owner began without, and opens it, until it has all of it or stops.
pub(super) async fn claim_withheld(lender: Rc<Lender>) {
    lender.peers.set(lender.peers.get() + 1);
    let mut done = BTreeSet::new();
    loop {
        let nodes = lender.nodes.borrow().clone();
        if nodes.withheld.is_empty() || lender.stops.get() {
            break;
        }
        let (config, world) = (lender.config(), &lender.process.world);
        let failed = try_fence(world, &nodes.withheld.part(&config), &mut done).await;
        let still = nodes.withheld.still(&config, &failed);
        if still != *nodes.withheld {
            let next = Nodes { withheld: Arc::new(still), ..Nodes::clone(&lender.nodes.borrow()) };
            lender.process.tell(|| format!("claims what it began without; left: {:?}", next.withheld));
            *lender.nodes.borrow_mut() = Arc::new(next);
            tell_nodes(world, &lender.threads.handles, &lender.nodes.borrow());
        }
        // As masu does every few seconds: what is missing is opened when it can be.
        let mut array = lender.array.lock().await;
        let opened = array.apply(Config::clone(&config)).await;
        drop(array);
        lender.process.tell(|| format!("opens what it began without: {opened:?}"));
        world.sleep(FENCE_PAUSE).await;
    }
    lender.peers.set(lender.peers.get() - 1);
    lender.stop.wake_all();
}

/// Tells controllers of the nodes that there are now, in the order of the changes.
pub(super) fn tell_nodes(world: &World, handles: &[ControllerHandle], nodes: &Arc<Nodes>) {
    for handle in handles {
        let (handle, nodes) = (handle.clone(), nodes.clone());
        world.spawn(async move {
            // One that has stopped gets them with its next start.
            let _ = handle.ask(Control::Nodes(nodes)).await;
        });
    }
}
