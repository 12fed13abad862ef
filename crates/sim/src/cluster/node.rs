//! A node: a machine whose process stands by, owns the array, serves, and begins anew when it has ended, as a
//! service manager does it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use array::Config;
use array::config::Made;
use cluster::{Clock, Standing, State};
use registry::{Faulty, Link, Memory, Registry};
use world::sync::Signal;
use world::{Instant, World};
use world_model::Machine;

use super::bed::Bed;
use super::shape::Shape;
use crate::actors::workload::Shared;
use crate::stacks::array::start;

/// Nodes of a history, at most.
pub(super) const NODES_MAX: u16 = 5;
/// Until a process that has ended is started again.
const RESTART: Duration = Duration::from_secs(1);

/// A node, over all lives of its process.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(super) at: Ipv4Addr,
    /// Permille that its clock is fast.
    drift: i64,
    pub(crate) link: Rc<Link>,
    pub(super) registry: Rc<dyn Registry>,
    pub(super) shape: Shape,
    pub(super) shared: Shared,
    machine: RefCell<Option<Machine>>,
    /// The epoch in which it serves hosts, as long as its process lives.
    pub(super) serves: Cell<Option<u64>>,
    /// It is asked to hand over.
    moves: Cell<bool>,
    /// It is asked to end.
    leaves: Cell<bool>,
    asked: Signal,
    /// Its connection to an owner that has it run controllers, and whether it may have one.
    pub(crate) way_to_owner: Cell<Option<SocketAddr>>,
    pub(crate) is_cut_off: Cell<bool>,
    /// The controllers that its process runs.
    runs: RefCell<BTreeSet<usize>>,
    /// Whether the term of its process holds.
    pub(super) term: RefCell<Option<Rc<dyn Fn() -> bool>>>,
    /// On its own disk.
    pub(super) epoch_seen: Cell<u64>,
    pub(super) served: Cell<u64>,
    /// Controllers that it had another node run, and that it has run itself again.
    pub(super) lent: Cell<u64>,
    pub(super) taken_back: Cell<u64>,
    /// Whether another process on its machine holds drives that it is to claim.
    pub(crate) cannot_claim: Cell<bool>,
    /// Controllers that came back at once, since a node could not claim their drives.
    pub(super) given_back: Cell<u64>,
    /// Drives that it could not fence, and did without.
    pub(super) left_out: Cell<u64>,
    /// Groups that waited for their drives while it served the others.
    pub(super) withheld: Cell<u64>,
    /// Pools that went to another controller.
    pub(super) pools_moved: Cell<u64>,
    /// Lives that ended before the array served: its drives could not be opened.
    pub(super) failed: Cell<u64>,
}

/// Where the node of this number listens.
pub(super) fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number as u8 + 1)
}

impl Node {
    pub(super) fn new(bed: &Bed, number: usize, drift: i64) -> Rc<Node> {
        let client = Faulty::new(&bed.world, Rc::new(Memory::new(&bed.world, &bed.registry)));
        client.link().delay.set(Duration::from_millis(2));
        Rc::new(Node {
            name: format!("n{}", number + 1),
            at: address(number),
            drift,
            link: client.link(),
            registry: Rc::new(client),
            shape: bed.shape.clone(),
            shared: bed.shared.clone(),
            machine: RefCell::default(),
            serves: Cell::new(None),
            moves: Cell::new(false),
            leaves: Cell::new(false),
            way_to_owner: Cell::new(None),
            is_cut_off: Cell::new(false),
            runs: RefCell::default(),
            lent: Cell::new(0),
            taken_back: Cell::new(0),
            cannot_claim: Cell::new(false),
            given_back: Cell::new(0),
            left_out: Cell::new(0),
            withheld: Cell::new(0),
            asked: Signal::default(),
            term: RefCell::default(),
            epoch_seen: Cell::new(0),
            served: Cell::new(0),
            pools_moved: Cell::new(0),
            failed: Cell::new(0),
        })
    }

    /// Where hosts reach it.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.at
    }

    /// Its process, if there is one.
    pub(crate) fn machine(&self) -> Option<Machine> {
        self.machine.borrow().clone().filter(|machine| !machine.is_dead())
    }

    /// Whether it is an owner whose term has not ended, by its own clock.
    pub(super) fn is_within_term(&self) -> bool {
        self.term.borrow().as_ref().is_some_and(|within| within())
    }

    /// The epoch in which it serves hosts.
    pub(crate) fn serves(&self) -> Option<u64> {
        self.serves.get().filter(|_| self.machine().is_some())
    }

    /// The controllers that its process runs.
    pub(crate) fn running(&self) -> BTreeSet<usize> {
        self.machine().map_or_else(BTreeSet::new, |_| self.runs.borrow().clone())
    }

    /// Whether its process takes steps, within its term.
    pub(super) fn acts(&self) -> bool {
        self.machine().is_some_and(|machine| !machine.is_paused()) && self.is_within_term()
    }

    /// Whether it runs controllers for another node.
    pub(crate) fn runs_for_owner(&self) -> bool {
        self.serves().is_none() && !self.running().is_empty()
    }

    pub(super) fn runs(&self, index: usize) {
        self.runs.borrow_mut().insert(index);
    }

    pub(super) fn runs_no_more(&self, index: usize) {
        self.runs.borrow_mut().remove(&index);
    }

    /// Asks its process to end in order.
    pub(crate) fn leave(&self) {
        self.leaves.set(true);
        self.asked.wake_all();
    }

    pub(super) async fn until_told_to_end(&self) {
        self.asked.wait_for(|| self.leaves.get().then_some(())).await;
    }

    /// Asks it to hand over, if it serves.
    pub(crate) fn move_away(&self) {
        self.moves.set(true);
        self.asked.wake_all();
    }

    pub(super) async fn until_asked(&self) {
        self.asked.wait_for(|| (self.moves.get() || self.leaves.get()).then_some(())).await;
    }

    /// The service manager: starts the process whenever there is none.
    pub(super) async fn keep_running<F: Future<Output = ()> + 'static>(
        self: Rc<Node>,
        bed: Rc<Bed>,
        life: impl Fn(Rc<Node>, Machine, Rc<Bed>) -> F,
    ) {
        loop {
            let machine = bed.model.machine(&self.name);
            *self.machine.borrow_mut() = Some(machine.clone());
            self.serves.set(None);
            self.moves.set(false);
            self.leaves.set(false);
            self.way_to_owner.set(None);
            self.runs.borrow_mut().clear();
            machine.world().spawn(life(self.clone(), machine.clone(), bed.clone()));
            machine.dead().await;
            bed.world.sleep(RESTART).await;
        }
    }

    /// Never set and never stopped: it goes on while the machine stands still.
    pub(super) fn clock(&self, world: &World) -> Clock {
        let (world, drift) = (world.clone(), self.drift);
        let steady = move || Instant((86_400_000_000_000 + world.now().0) / 1000 * (1000 + drift) as u64);
        Clock { steady: Rc::new(steady), wall_ms: Rc::new(|| 0) }
    }
}

/// How the member stands, for the rest of its process.
#[derive(Default)]
pub(super) struct Told {
    pub(super) state: RefCell<Option<State>>,
    pub(super) changed: Signal,
    /// The end of the term as the owner, by the node's own clock.
    pub(super) until: Cell<Option<Instant>>,
    /// The end of the term that an owner has given, as long as controllers run for it.
    pub(super) lent_until: Cell<Option<Instant>>,
}

impl Told {
    pub(super) fn set_lent_until(&self, until: Option<Instant>) {
        self.lent_until.set(until);
    }

    pub(super) async fn until_owner(&self) -> u64 {
        let epoch = || match self.state.borrow().as_ref()?.standing {
            Standing::Owner { epoch, .. } => Some(epoch),
            _ => None,
        };
        self.changed.wait_for(epoch).await
    }

    pub(super) async fn until_left(&self) {
        let left = || {
            self.state.borrow().as_ref().is_some_and(|state| state.standing == Standing::Left).then_some(())
        };
        self.changed.wait_for(left).await;
    }
}

/// One process, alone, makes the array, and closes it.
pub(super) async fn make(world: &World, shape: &Shape) -> Made {
    let declared = Config { controller_nodes: vec![], ..shape.declaration(address(0)) };
    let mut array = start(world, declared.controllers);
    array.apply(declared).await.unwrap_or_else(|e| panic!("apply: {e}"));
    array.stop().await.unwrap_or_else(|e| panic!("stop: {e}"));
    array.made().clone()
}

/// The options of sessions to the ports of this node. The host is one initiator port at all of them, so that
/// one registration holds for all.
pub(super) fn paths(node: &Node) -> impl Iterator<Item = iscsi::initiator::Options> {
    let (at, isid) = (node.address(), crate::stacks::array::options(node.address(), 0).isid);
    node.shape.ports().map(move |controller| {
        let options = crate::stacks::array::options(at, controller);
        iscsi::initiator::Options { isid, ..options }
    })
}
