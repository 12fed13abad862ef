//! A node: a machine whose process stands by, owns the array, serves, and begins anew when it has ended, as a
//! service manager does it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::{Array, Config, Control, Nodes, OtherPortal, Ownership};
use cluster::{Clock, Member, NodeRecord, Standing, State, portal_group, run};
use futures::future::{Either, select};
use registry::{Faulty, Link, Memory, Registry};
use scsi::Events;
use world::sync::Signal;
use world::{Instant, Rng, World};
use world_model::Machine;

use super::bed::Bed;
use super::lending::{self, Offering, Process};
use super::shape::Shape;
use crate::actors::workload::Shared;
use crate::faults::Fault;
use crate::stacks::array::{CONTROLLERS, portal, start};

/// Nodes of a history, at most.
pub(super) const NODES_MAX: u16 = 5;
/// Until a process that has ended is started again.
const RESTART: Duration = Duration::from_secs(1);
/// Between two moves of pools between the controllers of an owner, at most.
const MOVES_PAUSE_MAX: Duration = Duration::from_secs(3);
/// Between two attempts to fence a drive.
const FENCE_PAUSE: Duration = Duration::from_secs(1);

/// A node, over all lives of its process.
pub(crate) struct Node {
    pub(crate) name: String,
    at: Ipv4Addr,
    /// Permille that its clock is fast.
    drift: i64,
    pub(crate) link: Rc<Link>,
    registry: Rc<dyn Registry>,
    shape: Shape,
    shared: Shared,
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
    term: RefCell<Option<Rc<dyn Fn() -> bool>>>,
    /// On its own disk.
    epoch_seen: Cell<u64>,
    pub(super) served: Cell<u64>,
    /// Controllers that it had another node run, and that it has run itself again.
    pub(super) lent: Cell<u64>,
    pub(super) taken_back: Cell<u64>,
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

    async fn until_told_to_end(&self) {
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
    pub(super) async fn keep_running(self: Rc<Node>, bed: Rc<Bed>) {
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
    fn clock(&self, world: &World) -> Clock {
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
    until: Cell<Option<Instant>>,
    /// The end of the term that an owner has given, as long as controllers run for it.
    lent_until: Cell<Option<Instant>>,
}

impl Told {
    pub(super) fn set_lent_until(&self, until: Option<Instant>) {
        self.lent_until.set(until);
    }

    async fn until_owner(&self) -> u64 {
        let epoch = || match self.state.borrow().as_ref()?.standing {
            Standing::Owner { epoch, .. } => Some(epoch),
            _ => None,
        };
        self.changed.wait_for(epoch).await
    }

    async fn until_left(&self) {
        let left = || {
            self.state.borrow().as_ref().is_some_and(|state| state.standing == Standing::Left).then_some(())
        };
        self.changed.wait_for(left).await;
    }
}

/// The guard that a process has against its own past. None: it has no term.
fn holds(
    node: &Node,
    bed: &Bed,
    world: &World,
    told: &Rc<Told>,
) -> impl Fn() -> Option<bool> + Clone + 'static {
    let (now, term, is_broken) = (node.clock(world).steady, told.clone(), bed.fault == Fault::NoTerm);
    move || {
        let lent_until = term.lent_until.get();
        if is_broken && lent_until.is_some() {
            return Some(true);
        }
        [term.until.get(), lent_until].into_iter().flatten().min().map(|until| now() < until)
    }
}

/// One life of the process.
async fn life(node: Rc<Node>, machine: Machine, bed: Rc<Bed>) {
    let (world, told) = (machine.world(), Rc::new(Told::default()));
    let clock = node.clock(&world);
    let holds = holds(&node, &bed, &world, &told);
    let within = holds.clone();
    *node.term.borrow_mut() = Some(Rc::new(move || within() == Some(true)));
    // Where several processes say to each other what happened, each counts by itself.
    let events = bed.shape.is_spread().then(Arc::<Events>::default);
    machine.dies_unless(move || {
        events.iter().for_each(|events| Events::enter(Some(events.clone())));
        holds() != Some(false)
    });
    let member = member(&node, &machine, (&clock, &told));
    let (task, registry) = (member.clone(), node.registry.clone());
    world.spawn(async move {
        run(task, registry).await.expect("its name is a key");
    });
    let served = match bed.shape.is_spread() {
        true => {
            life_of_several(Process {
                node: node.clone(),
                bed,
                world: world.clone(),
                clock,
                told: told.clone(),
            })
            .await
        }
        false => {
            let epoch = told.until_owner().await;
            serve(&node, &world, &told, epoch).await
        }
    };
    // Another node may do better.
    if let Err(cause) = served {
        node.shared.tell(|| format!("{:?}: {} cannot serve: {cause}", world.now(), node.name));
        node.failed.set(node.failed.get() + 1);
    }
    member.move_away();
    told.until_left().await;
    machine.kill();
}

/// Stands by, runs controllers, owns the array.
async fn life_of_several(process: Process) -> Result<(), String> {
    let process = Rc::new(process);
    let offering = Offering::start(&process);
    let epoch = match select(pin!(process.told.until_owner()), pin!(process.node.until_told_to_end())).await {
        Either::Left((epoch, _)) => Some(epoch),
        Either::Right(_) => None,
    };
    offering.end().await;
    match epoch {
        Some(epoch) => lending::serve(&process, epoch).await,
        None => Ok(()),
    }
}

fn member(node: &Rc<Node>, machine: &Machine, (clock, told): (&Clock, &Rc<Told>)) -> Rc<Member> {
    let world = machine.world();
    let (told, own, machine) = (told.clone(), node.clone(), machine.clone());
    let about = NodeRecord { portals: vec![portal(node.at, 0).to_string()], ..NodeRecord::default() };
    Member::new(&world, clock.clone(), (&node.name.clone(), about), node.epoch_seen.get(), move |state| {
        own.epoch_seen.set(own.epoch_seen.get().max(state.epoch_seen));
        told.until.set(match state.standing {
            Standing::Owner { until, .. } => Some(until),
            _ => None,
        });
        if matches!(state.standing, Standing::Lost(_)) {
            machine.kill();
        }
        *told.state.borrow_mut() = Some(state.clone());
        told.changed.wake_all();
    })
}

/// Fences the drives, starts the array, and serves until the node is asked to hand over.
async fn serve(node: &Node, world: &World, told: &Told, epoch: u64) -> Result<(), String> {
    let declared = node.shape.declaration(node.at);
    for drive in &declared.drives {
        while world.fence(&drive.spec).await.is_err() {
            world.sleep(FENCE_PAUSE).await;
        }
    }
    let mut array = start(world, CONTROLLERS);
    let number = told.state.borrow().as_ref().and_then(|state| state.number).unwrap_or(0);
    let owner = world.random(&format!("{} {epoch}", node.name)).u64(1..);
    let others = (0..NODES_MAX).filter(|other| *other != number).flat_map(ports_of).collect();
    let nodes = Arc::new(Nodes {
        first_group: portal_group(number, 0),
        others,
        ownership: Some(Ownership { epoch, owner }),
        refused: None,
        ..Nodes::default()
    });
    for controller in array.controllers() {
        controller.ask(Control::Nodes(nodes.clone())).await.map_err(|e| e.to_string())?;
    }
    array.apply(declared).await.map_err(|e| e.to_string())?;
    node.shared.tell(|| format!("{:?}: {} serves in epoch {epoch}", world.now(), node.name));
    node.serves.set(Some(epoch));
    node.served.set(node.served.get() + 1);
    let mut rng = world.random(&format!("{} {epoch} moves pools", node.name));
    match rng.bool() {
        true => move_pools_until_asked(node, world, &mut array, &mut rng).await,
        false => node.until_asked().await,
    }
    node.serves.set(None);
    array.stop().await.map_err(|e| e.to_string())
}

/// The ports of the node of this number, as the owner lists them.
fn ports_of(number: u16) -> impl Iterator<Item = OtherPortal> {
    (0..CONTROLLERS).map(move |controller| OtherPortal {
        listen: portal(address(usize::from(number)), controller),
        portal_group: portal_group(number, controller),
        is_up: false,
        controller: None,
    })
}

/// Moves pools between the controllers until the node is asked to hand over. Where drives hang or writes are
/// late, a move is refused or goes back.
async fn move_pools_until_asked(node: &Node, world: &World, array: &mut Array, rng: &mut Rng) {
    loop {
        let pause = world.sleep(Duration::from_nanos(rng.u64(..MOVES_PAUSE_MAX.as_nanos() as u64)));
        if let Either::Left(_) = select(pin!(node.until_asked()), pause).await {
            return;
        }
        let pool = &array.config().pools[rng.usize(..array.config().pools.len())];
        let (name, to) = (pool.name.clone(), (pool.controller + 1) % CONTROLLERS);
        let outcome = array.move_pool(&name, to).await;
        node.shared.tell(|| {
            format!("{:?}: {} moves {name} to controller {to}: {outcome:?}", world.now(), node.name)
        });
        if outcome.is_ok() {
            node.pools_moved.set(node.pools_moved.get() + 1);
        }
    }
}

/// One process, alone, makes the array, and closes it.
pub(super) async fn make(world: &World, shape: &Shape) {
    let declared = Config { controller_nodes: vec![], ..shape.declaration(address(0)) };
    let mut array = start(world, declared.controllers);
    array.apply(declared).await.unwrap_or_else(|e| panic!("apply: {e}"));
    array.stop().await.unwrap_or_else(|e| panic!("stop: {e}"));
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
