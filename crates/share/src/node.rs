//! A node: where the requests of its disks wait, and how it stands with the registry.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use futures::future::select;
use qos::Policy;
use world::sync::{Permits, Signal};
use world::{Instant, World};

use crate::{DiskReport, Limiter, Report, Shares, Yields};

/// How the registry answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// It was not asked yet.
    Unasked,
    /// The last interval went through: policies and shares are those of the registry.
    Answers,
    /// It does not: the last shares stay in force.
    #[expect(missing_docs, reason = "self-explanatory names")]
    Away { since: Instant, cause: String },
}

/// How a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The registry.
    pub store: Store,
    /// Whether this node divides.
    pub is_leader: bool,
    /// The sum that is divided, bytes per second; 0 before the first division.
    pub sum: u64,
    /// Of 1000: what of the minimums is given.
    pub scale_permille: u64,
    /// What is wrong with values in the registry, or with this node's name.
    pub fault: Option<String>,
}

/// A node and its disks.
pub struct Node {
    world: World,
    name: String,
    unit_bytes: u64,
    disks: Vec<String>,
    limiter: RefCell<Limiter>,
    /// Rates of its disks while the registry is away.
    steady: RefCell<Vec<Option<u64>>>,
    /// One request of each disk at a time looks whether it may go.
    turns: Vec<Permits>,
    /// Whether any disk of all nodes has a minimum.
    has_minimums: Cell<bool>,
    changes: Cell<u64>,
    changed: Signal,
    pub(crate) state: RefCell<State>,
    pub(crate) leaves: Cell<bool>,
}

/// A request that may go, until it is dropped.
pub struct Admitted {
    node: Rc<Node>,
    disk: usize,
    bytes: u64,
    /// Nanoseconds; none: it waits.
    went_at: Option<u64>,
}

impl Admitted {
    /// It was served.
    pub fn served(self) {
        self.node.limiter.borrow_mut().served(self.disk, self.bytes);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let gone = self.went_at.map(|at| (self.bytes, at));
        self.node.limiter.borrow_mut().end(self.node.world.now().0, self.disk, gone);
    }
}

impl Node {
    /// A node with disks that have unique names among all nodes. `unit_bytes` is the unit of rates in
    /// policies.
    pub fn new(world: &World, name: &str, unit_bytes: u64, disks: Vec<String>) -> Rc<Node> {
        let scale_permille = 1000;
        Rc::new(Node {
            world: world.clone(),
            name: name.into(),
            unit_bytes,
            limiter: RefCell::new(Limiter::new(world.now().0, unit_bytes, disks.len())),
            steady: RefCell::new(vec![None; disks.len()]),
            turns: disks.iter().map(|_| Permits::new(1)).collect(),
            disks,
            has_minimums: Cell::new(false),
            changes: Cell::new(0),
            changed: Signal::default(),
            state: RefCell::new(State {
                store: Store::Unasked,
                is_leader: false,
                sum: 0,
                scale_permille,
                fault: None,
            }),
            leaves: Cell::new(false),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// The share in force of a disk, bytes per second; none: no limit.
    pub fn share(&self, disk: usize) -> Option<u64> {
        self.limiter.borrow().share(disk)
    }

    /// Ends the node's task, which then gives its lease back.
    pub fn leave(&self) {
        self.leaves.set(true);
        self.changed();
    }

    /// Waits until a request of a disk may go.
    pub async fn admit(self: &Rc<Node>, disk: usize, bytes: u64) -> Admitted {
        self.limiter.borrow_mut().begin(self.world.now().0, disk);
        let mut admitted = Admitted { node: self.clone(), disk, bytes, went_at: None };
        let _turn = self.turns[disk].take(1).await;
        loop {
            let (now, seen) = (self.world.now(), self.changes.get());
            let free = self.limiter.borrow_mut().free_ns(now.0, disk);
            if free <= now.0 {
                break;
            }
            self.until(Instant(free), seen).await;
        }
        let now = self.world.now().0;
        self.limiter.borrow_mut().go(now, disk, bytes);
        admitted.went_at = Some(now);
        admitted
    }

    /// Until then, or until something has changed.
    async fn until(&self, at: Instant, seen: u64) {
        let change = self.changed.wait_for(|| (self.changes.get() != seen).then_some(()));
        select(pin!(change), self.world.sleep_until(at)).await;
    }

    /// Waits; ends early when the node is to leave, or when `early` ends.
    pub(crate) async fn wait(&self, until: Instant, early: impl Future<Output = ()>) {
        let leaves = self.changed.wait_for(|| self.leaves.get().then_some(()));
        select(pin!(select(pin!(leaves), pin!(early))), self.world.sleep_until(until)).await;
    }

    fn changed(&self) {
        self.changes.set(self.changes.get() + 1);
        self.changed.wake_all();
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// Policies by disk; a disk without one has none.
    pub(crate) fn set_policies(&self, policies: &BTreeMap<String, Policy>) {
        let now = self.world.now().0;
        let mut limiter = self.limiter.borrow_mut();
        self.has_minimums.set(policies.values().any(|policy| policy.minimum_iops > 0));
        for (number, disk) in self.disks.iter().enumerate() {
            let policy = policies.get(disk).copied().unwrap_or_else(Policy::none);
            if limiter.policy(number) != policy {
                limiter.set_policy(now, number, policy);
            }
        }
        drop(limiter);
        self.changed();
    }

    /// Takes its disks' shares; those of disks that the leader does not know yet stay.
    pub(crate) fn set_shares(&self, shares: &Shares) {
        let now = self.world.now().0;
        let mut limiter = self.limiter.borrow_mut();
        limiter.set_yields(if self.has_minimums.get() { Yields::Evenly } else { Yields::Never });
        for (number, disk) in self.disks.iter().enumerate() {
            if let Some(grant) = shares.disks.get(disk) {
                limiter.set_share(now, number, Some(grant.rate));
                self.steady.borrow_mut()[number] = Some(grant.steady);
            }
        }
        drop(limiter);
        let mut state = self.state.borrow_mut();
        (state.sum, state.scale_permille) = (shares.sum, shares.scale_permille);
        drop(state);
        self.changed();
    }

    /// The registry is away: nobody corrects the rates of its disks.
    pub(crate) fn hold(&self) {
        let now = self.world.now().0;
        let mut limiter = self.limiter.borrow_mut();
        limiter.set_yields(if self.has_minimums.get() { Yields::Only } else { Yields::Never });
        for (number, steady) in self.steady.borrow().iter().enumerate() {
            if steady.is_some() {
                limiter.set_share(now, number, *steady);
            }
        }
        drop(limiter);
        self.changed();
    }

    /// Ends the interval.
    pub(crate) fn report(&self, lease: u64) -> Report {
        let usages = self.limiter.borrow_mut().close(self.world.now().0);
        let report = |(disk, usage): (&String, crate::Usage)| {
            let report = DiskReport {
                served: usage.served,
                granted: usage.granted,
                largest: usage.largest_bytes,
                hungry: usage.is_hungry,
                held_up: usage.is_held_up,
                demand: usage.demand,
                total: usage.total,
                outstanding: usage.outstanding_milli,
                below: usage.below_milli,
            };
            (disk.clone(), report)
        };
        Report { unit: self.unit_bytes, lease, disks: self.disks.iter().zip(usages).map(report).collect() }
    }
}
