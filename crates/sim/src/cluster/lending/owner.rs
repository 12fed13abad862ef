//! A process that owns the array, with controllers at other nodes.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::config::PortalConfig;
use array::{Array, ControllerHandle, Nodes, OtherPortal, Ownership, Withheld, event_channel, move_channel};
use cluster::lending::home;
use cluster::portal_group;
use futures::future::{Either, select};
use futures::lock::Mutex;
use world::Rng;

use super::lender::Lender;
use super::process::{Process, node_port};
use super::taking_back::{claim_withheld, fence_all, tell_nodes};
use super::threads::Threads;
use crate::cluster::bed::KeepsNothing;
use crate::stacks::array::TARGET;

/// Between two looks at the other nodes.
const LOOK: Duration = Duration::from_millis(500);
/// Between two moves of pools, at most.
const MOVES_PAUSE_MAX: Duration = Duration::from_secs(3);
const REFUSALS_MAX: usize = 64;

/// All portals of the array, those of the owner first.
pub(super) fn all_portals(nodes: &Nodes) -> Vec<OtherPortal> {
    let own = nodes.portals.iter().flatten().zip(nodes.first_group..);
    let own = own.map(|(portal, portal_group)| OtherPortal {
        listen: portal.listen,
        portal_group,
        is_up: true,
        controller: Some(portal.controller),
    });
    own.chain(nodes.others.iter().cloned()).collect()
}

/// Fences the drives, starts the array, and serves until the node is asked to hand over.
pub(in crate::cluster) async fn serve(process: &Rc<Process>, epoch: u64) -> Result<(), String> {
    let Process { node, bed, world, .. } = &**process;
    let declared = bed.shape.declaration(node.address());
    let withheld = fence_all(world, node, &declared).await;
    let waits = !withheld.is_empty();
    let (lender, array) = begin(process, epoch, &declared, withheld);
    array.lock().await.apply(declared).await.map_err(|e| e.to_string())?;
    process.tell(|| format!("serves in epoch {epoch}"));
    node.serves.set(Some(epoch));
    node.served.set(node.served.get() + 1);
    world.spawn(follow_others(lender.clone()));
    world.spawn(accept(lender.clone()));
    if waits {
        world.spawn(claim_withheld(lender.clone()));
    }
    let mut rng = world.random(&format!("{} {epoch} moves pools", node.name));
    match rng.bool() {
        true => move_pools_until_asked(&lender, &mut rng).await,
        false => node.until_asked().await,
    }
    node.serves.set(None);
    lender.stop();
    process.tell(|| "stops".into());
    let stopped = array.lock().await.stop().await.map_err(|e| e.to_string());
    lender.ended().await;
    lender.threads.join().await;
    stopped
}

/// The controllers, all here.
fn begin(
    process: &Rc<Process>,
    epoch: u64,
    declared: &array::Config,
    withheld: Withheld,
) -> (Rc<Lender>, Rc<Mutex<Array>>) {
    let Process { node, world, .. } = &**process;
    let ((events, heard), (moves, asked)) = (event_channel(), move_channel());
    let said = process.clone();
    world.spawn(async move {
        while let Some(event) = heard.next().await {
            said.tell(|| format!("  {event}"));
        }
    });
    let all = (0..declared.controllers).map(ControllerHandle::new);
    let all = all
        .map(|(handle, mailbox)| (handle, mailbox.lasting().telling(events.clone()).moving(moves.clone())));
    let threads = Threads::of(process, all.collect());
    let home = home(&declared.controller_nodes, declared.controllers, &node.name);
    let number = process.number().unwrap_or(0);
    let ownership = Ownership { epoch, owner: world.random(&format!("{} {epoch}", node.name)).u64(1..) };
    let (refused, _) = async_channel::bounded(REFUSALS_MAX);
    let at_home = |portal: &PortalConfig| PortalConfig { controller: home, ..portal.clone() };
    let nodes = Arc::new(Nodes {
        first_group: portal_group(number, 0),
        portals: Some(declared.portals.iter().map(at_home).collect()),
        ownership: Some(ownership),
        refused: Some(refused.clone()),
        keeps_spares: Some(home),
        withheld: Arc::new(withheld),
        ..Nodes::default()
    });
    (0..declared.controllers).for_each(|index| threads.start(index, nodes.clone()));
    let mut array = Array::new(threads.handles.clone(), TARGET);
    if !nodes.withheld.is_empty() {
        // What was made may be missing.
        let made = process.bed.made.clone();
        array = array.kept_by(Box::new(KeepsNothing), Some((declared.clone(), made)));
    }
    let openers = array.openers();
    let array = Rc::new(Mutex::new(array));
    let lender = Rc::new(Lender {
        process: process.clone(),
        threads,
        array: array.clone(),
        events,
        moves,
        refused,
        ownership,
        home,
        nodes: RefCell::new(nodes),
        changed: Default::default(),
        runs: RefCell::default(),
        lent: RefCell::default(),
        pauses: RefCell::default(),
        openers,
        stops: Cell::new(false),
        stop: Default::default(),
        peers: Cell::new(0),
    });
    let asks = lender.clone();
    world.spawn(async move {
        while let Some(request) = asked.next().await {
            let moved = asks.array.lock().await.move_pool(&request.pool, request.controller).await;
            asks.process.tell(|| format!("a host moves {}: {moved:?}", request.pool));
        }
    });
    (lender, array)
}

/// Tells the controllers of the other nodes, whenever something of them has changed.
async fn follow_others(lender: Rc<Lender>) {
    loop {
        let others: Vec<OtherPortal> = {
            let state = lender.process.told.state.borrow();
            let all = state.iter().flat_map(|state| &state.others);
            let runs = lender.runs.borrow();
            all.filter_map(|other| {
                Some(OtherPortal {
                    listen: other.portals.first()?.parse().ok()?,
                    portal_group: portal_group(other.number, 0),
                    is_up: other.is_up,
                    controller: runs.get(&other.number).copied(),
                })
            })
            .collect()
        };
        let last = lender.nodes.borrow().clone();
        if others != last.others {
            let groups: Vec<u16> = others.iter().map(|other| other.portal_group).collect();
            lender.process.tell(|| format!("the port groups of other nodes are {groups:?}"));
            let nodes = Arc::new(Nodes { others, ..Nodes::clone(&last) });
            *lender.nodes.borrow_mut() = nodes.clone();
            tell_nodes(&lender.process.world, &lender.threads.handles, &nodes);
            lender.changed.wake_all();
        }
        let pause = lender.process.world.sleep(LOOK);
        let runs = lender.runs.borrow().clone();
        let changed = lender.changed.wait_for(|| (*lender.runs.borrow() != runs).then_some(()));
        select(pin!(changed), pause).await;
    }
}

/// The node port: until the array stops.
async fn accept(lender: Rc<Lender>) {
    let world = &lender.process.world;
    let listener = world.listen(node_port(lender.process.node.address())).expect("the port is free");
    loop {
        let accepted = match select(pin!(lender.until_stop()), pin!(listener.accept())).await {
            Either::Left(_) => return,
            Either::Right((accepted, _)) => accepted,
        };
        let Ok(stream) = accepted else { return };
        let own = lender.clone();
        own.peers.set(own.peers.get() + 1);
        world.spawn(async move {
            own.clone().take(stream).await;
            own.peers.set(own.peers.get() - 1);
            own.stop.wake_all();
        });
    }
}

/// Moves pools between the controllers until the node is asked to hand over.
async fn move_pools_until_asked(lender: &Rc<Lender>, rng: &mut Rng) {
    let Process { node, world, .. } = &*lender.process;
    loop {
        let pause = world.sleep(Duration::from_nanos(rng.u64(..MOVES_PAUSE_MAX.as_nanos() as u64)));
        if let Either::Left(_) = select(pin!(node.until_asked()), pause).await {
            return;
        }
        let moves = async {
            let mut array = lender.array.lock().await;
            let (count, pools) = (array.config().controllers, array.config().pools.clone());
            let pool = &pools[rng.usize(..pools.len())];
            let to = (pool.controller + rng.usize(1..count)) % count;
            (pool.name.clone(), to, array.move_pool(&pool.name, to).await)
        };
        // A change that waits for a node does not keep the array from its end.
        let (name, to, outcome) = match select(pin!(node.until_asked()), pin!(moves)).await {
            Either::Left(((), moves)) => {
                let _ = moves.await;
                return;
            }
            Either::Right((moved, _)) => moved,
        };
        lender.process.tell(|| format!("moves {name} to controller {to}: {outcome:?}"));
        if outcome.is_ok() {
            node.pools_moved.set(node.pools_moved.get() + 1);
        }
    }
}
