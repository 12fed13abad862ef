//! A node in front of the array: a scheduler of its own for the VMs that are on it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ::qos::{ClientId, Dispatch, FlowId, Health, Next, Policy, RequestId, Scheduler, Settings};
use futures::channel::oneshot;
use world::{Instant, World};

/// A scheduler and those who wait for it.
pub(super) struct Node {
    world: World,
    pub(super) scheduler: RefCell<Scheduler>,
    flows: Vec<(FlowId, ClientId)>,
    /// By cookie.
    gates: RefCell<Vec<Option<oneshot::Sender<Dispatch>>>>,
    free: RefCell<Vec<usize>>,
    /// For when a look is armed.
    armed: Cell<Option<u64>>,
}

impl Node {
    /// For so many VMs, without policies.
    pub(super) fn new(world: &World, settings: Settings, vms: usize) -> Rc<Node> {
        let mut scheduler = Scheduler::new(settings);
        let now = world.now().0;
        let flow = |_| {
            let flow = scheduler.add_flow(now, Policy::none());
            (flow, scheduler.add_client(now, flow))
        };
        let flows = (0..vms).map(flow).collect();
        Rc::new(Node {
            world: world.clone(),
            scheduler: RefCell::new(scheduler),
            flows,
            gates: RefCell::default(),
            free: RefCell::default(),
            armed: Cell::default(),
        })
    }

    /// Another policy for a VM, from now on.
    pub(super) fn set_policy(self: &Rc<Node>, vm: usize, policy: Policy) {
        self.scheduler.borrow_mut().set_policy(self.world.now().0, self.flows[vm].0, policy);
        self.pump();
    }

    /// Waits until a request of a VM may go below; [`Node::done`] ends it.
    pub(super) async fn admit(self: &Rc<Node>, vm: usize, bytes: u64) -> RequestId {
        let (gate, opened) = oneshot::channel();
        let cookie = match self.free.borrow_mut().pop() {
            Some(cookie) => {
                self.gates.borrow_mut()[cookie] = Some(gate);
                cookie
            }
            None => {
                self.gates.borrow_mut().push(Some(gate));
                self.gates.borrow().len() - 1
            }
        };
        self.scheduler.borrow_mut().submit(self.world.now().0, self.flows[vm].1, bytes, cookie as u64);
        self.pump();
        opened.await.expect("a node outlives its requests").request
    }

    /// A request has ended below.
    pub(super) fn done(self: &Rc<Node>, request: RequestId) {
        self.scheduler.borrow_mut().complete(self.world.now().0, request);
        self.pump();
    }

    /// How many VMs are on it.
    pub(super) fn vms(&self) -> usize {
        self.flows.len()
    }

    /// Windows that have ended: news of VMs' minimums, by their number on this node.
    pub(super) fn news(&self) -> Vec<(usize, Health)> {
        let mut changed = Vec::new();
        self.scheduler.borrow_mut().close_window(self.world.now().0, &mut changed);
        let own = |flow: FlowId| self.flows.iter().position(|(own, _)| *own == flow);
        changed.into_iter().filter_map(|(flow, health)| Some((own(flow)?, health))).collect()
    }

    fn pump(self: &Rc<Node>) {
        loop {
            let now = self.world.now().0;
            let next = self.scheduler.borrow_mut().next(now);
            match next {
                Next::Dispatch(dispatch) => {
                    let cookie = dispatch.cookie as usize;
                    let gate = self.gates.borrow_mut()[cookie].take();
                    self.free.borrow_mut().push(cookie);
                    if let Some(gate) = gate {
                        let _ = gate.send(dispatch);
                    }
                }
                Next::WaitUntil(at) => return self.look_at(at),
                Next::Idle => return,
            }
        }
    }

    fn look_at(self: &Rc<Node>, at: u64) {
        if self.armed.get().is_some_and(|armed| armed <= at) {
            return;
        }
        self.armed.set(Some(at));
        let node = self.clone();
        self.world.spawn(async move {
            node.world.sleep_until(Instant(at)).await;
            // An earlier look was armed since: it has looked, and armed the next one.
            if node.armed.get() == Some(at) {
                node.armed.set(None);
                node.pump();
            }
        });
    }
}
