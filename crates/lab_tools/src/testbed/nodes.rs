//! An array whose controllers run at nodes of their own, in the model world: each on a machine that can die,
//! reached by the exchange of two processes over a network that takes its time. The first node owns the
//! array. It takes over the controller of a node that is lost.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use array::{
    Array, Config, ControllerHandle, Exchange, LocalPort, Mailbox, Told, answer_for_absent, event_channel,
    move_channel, run_with_local_port,
};
use futures::future::{AbortHandle, abortable, try_join_all};
use world::World;
use world_model::{Machine, Model};

/// Frames that are on their way in one direction.
const ON_THEIR_WAY: usize = 64;

/// The nodes, until they are dropped. Controller *n* runs at node *n*, both counted from 0.
pub struct Nodes {
    world: World,
    /// Its control plane, at the first node.
    pub array: Array,
    handles: Vec<ControllerHandle>,
    mailboxes: Vec<Mailbox>,
    machines: Vec<Machine>,
    ports: Vec<LocalPort>,
    /// What carries the frames of each node, or answers for it when it is lost.
    links: Vec<Link>,
}

/// Tasks that end with it.
#[derive(Default)]
struct Link(RefCell<Vec<AbortHandle>>);

impl Link {
    fn spawn(&self, world: &World, task: impl Future<Output = ()> + 'static) {
        let (task, handle) = abortable(task);
        self.0.borrow_mut().push(handle);
        world.spawn(async move {
            // Aborted: the node is lost, or found.
            let _ = task.await;
        });
    }

    fn end(&self) {
        self.0.take().iter().for_each(AbortHandle::abort);
    }
}

impl Nodes {
    /// Starts an array as it was made, with a node for each of its controllers. A frame takes `latency` from
    /// one node to another.
    ///
    /// # Errors
    /// The array cannot be started.
    pub async fn start(model: &Model, world: &World, config: &Config, latency: Duration) -> Result<Nodes> {
        let count = config.controllers;
        let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..count).map(ControllerHandle::new).unzip();
        let mut nodes = Nodes {
            world: world.clone(),
            array: Array::new(handles.clone(), &config.target),
            handles,
            mailboxes: mailboxes.into_iter().map(Mailbox::lasting).collect(),
            machines: (0..count).map(|node| model.machine(&name(node))).collect(),
            ports: Vec::new(),
            links: (0..count).map(|_| Link::default()).collect(),
        };
        for node in 0..count {
            let (mailbox, handles) = match node {
                0 => (nodes.mailboxes[0].clone(), nodes.handles.clone()),
                _ => nodes.connect(node, latency),
            };
            let port = run(&nodes.machines[node], (node, mailbox), handles);
            nodes.ports.push(port);
        }
        nodes.array.apply(config.clone()).await?;
        Ok(nodes)
    }

    /// Connects a node with the first one: the mailbox of its controller there, and the handles that this
    /// has of all.
    fn connect(&self, node: usize, latency: Duration) -> (Mailbox, Vec<ControllerHandle>) {
        let (handles, mut mailboxes): (Vec<_>, Vec<_>) =
            (0..self.handles.len()).map(ControllerHandle::new).unzip();
        let own = mailboxes.remove(node);
        let others = self.handles.iter().filter(|handle| handle.index != node).cloned().collect();
        // Nobody hears events, and hosts ask for no moves.
        let (events, _) = event_channel();
        let (moves, _) = move_channel();
        let (refused, _) = async_channel::bounded(1);
        let told = Told::Owner { events, moves, refused };
        let owner = Rc::new(Exchange::in_one_process(vec![self.mailboxes[node].clone()], others, told));
        let (_, events) = event_channel();
        let (_, moves) = move_channel();
        let (_, refused) = async_channel::bounded(1);
        let told = Told::Node { events, moves, refused };
        let there = Rc::new(Exchange::in_one_process(mailboxes, vec![handles[node].clone()], told));
        self.carry(node, (owner.clone(), there.clone()), latency);
        self.carry(node, (there, owner), latency);
        (own, handles)
    }

    /// Carries frames from one exchange to the other, in order.
    fn carry(&self, node: usize, (from, to): (Rc<Exchange>, Rc<Exchange>), latency: Duration) {
        let (sender, sent) = async_channel::bounded(ON_THEIR_WAY);
        let world = self.world.clone();
        self.links[node].spawn(&self.world, async move {
            while let Some(frame) = from.outgoing().await {
                if sender.send((world.now() + latency, frame)).await.is_err() {
                    return;
                }
            }
        });
        let world = self.world.clone();
        self.links[node].spawn(&self.world, async move {
            while let Ok((arrives, frame)) = sent.recv().await {
                world.sleep_until(arrives).await;
                // Behind its length field.
                to.incoming(&frame[4..]).await.expect("exchanges of one version understand each other");
            }
        });
    }

    /// The port of the controller of a node, wherever that runs now.
    pub fn port(&self, node: usize) -> &LocalPort {
        &self.ports[node]
    }

    /// The machine of a node.
    pub fn machine(&self, node: usize) -> &Machine {
        &self.machines[node]
    }

    /// A node dies, not the first one. Until its controller is taken over, hosts that ask for its LUs hear
    /// BUSY.
    pub fn lose(&self, node: usize) {
        self.machines[node].kill();
        self.links[node].end();
        let mailbox = self.mailboxes[node].clone();
        let (config, cause) = (Arc::new(self.array.config().clone()), format!("{} is gone", name(node)));
        self.links[node].spawn(&self.world, async move {
            answer_for_absent(&mailbox, node, &config, &cause).await;
        });
    }

    /// The first node fences the drives of one that is lost, and runs its controller.
    ///
    /// # Errors
    /// A drive cannot be fenced, or the controller cannot open it.
    pub async fn take_over(&mut self, node: usize) -> Result<()> {
        let owner = &self.machines[0];
        // All at once, as masu does.
        let drives = self.array.config().of_controllers(&[node]).drives;
        let world = owner.world();
        try_join_all(drives.iter().map(|drive| world.fence(&drive.spec))).await?;
        self.links[node].end();
        self.ports[node] = run(owner, (node, self.mailboxes[node].clone()), self.handles.clone());
        self.array.bring_up(node).await.with_context(|| format!("the controller of {}", name(node)))
    }
}

/// As messages name it.
fn name(node: usize) -> String {
    format!("node n{}", node + 1)
}

/// Runs a controller on a machine.
fn run(machine: &Machine, (index, mailbox): (usize, Mailbox), handles: Vec<ControllerHandle>) -> LocalPort {
    let (port, controller) = run_with_local_port(machine.world(), index, mailbox, handles);
    machine.world().spawn(controller);
    port
}
