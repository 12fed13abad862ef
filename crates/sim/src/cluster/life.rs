//! One life of a node's process: it stands by, owns the array, serves.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::{Array, Control, Nodes, OtherPortal, Ownership};
use cluster::{Clock, Member, NodeRecord, Standing, portal_group, run};
use futures::future::{Either, select};
use scsi::Events;
use world::{Rng, World};
use world_model::Machine;

use super::bed::Bed;
use super::lending::{self, Offering, Process, fence};
use super::node::{NODES_MAX, Node, Told, address};
use crate::faults::Fault;
use crate::stacks::array::{CONTROLLERS, portal, start};

/// Between two moves of pools between the controllers of an owner, at most.
const MOVES_PAUSE_MAX: Duration = Duration::from_secs(3);

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
pub(super) async fn life(node: Rc<Node>, machine: Machine, bed: Rc<Bed>) {
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
                machine: machine.clone(),
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
    fence(world, node, &declared).await;
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
