//! The scheduler of a pool, and the operations that wait for it.

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures::future::{Either, select};
use qos::{
    ClientId, FlowId, Found, Health, Next, Part, PartUse, Parts, Policy, RequestId, Room, Scheduler, Settings,
};
use world::sync::Signal;
use world::{Instant, LatencyCounts, Stage, World};

use crate::gate::Gate;

/// An operation that waits, or may begin. Slots are reused.
struct Place {
    request: Option<RequestId>,
    begins: bool,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Places {
    all: Vec<Place>,
    free: Vec<usize>,
}

/// The wait queue of a pool's operations.
pub struct Service {
    pub(crate) world: World,
    on: Cell<bool>,
    pub(crate) scheduler: RefCell<Scheduler>,
    /// Flows of aggregated policies, by policy name.
    shared: RefCell<BTreeMap<String, FlowId>>,
    /// The clients, by name.
    names: RefCell<BTreeMap<ClientId, String>>,
    places: RefCell<Places>,
    /// When to ask the scheduler again, unless something happens before.
    wake_at: Cell<Option<u64>>,
    rearmed: Signal,
    /// How long reads and writes waited for their turns, while a policy was in force.
    pub(crate) waits: Stage,
    /// How long they took behind the gates: in the cache, or in what is below it.
    pub(crate) served: Stage,
}

impl Service {
    /// A service without a policy. Its clock runs until `ended` is ready.
    pub fn new(world: World, settings: Settings, ended: impl Future<Output = ()> + 'static) -> Rc<Service> {
        let service = Rc::new(Service {
            world: world.clone(),
            on: Cell::new(false),
            scheduler: RefCell::new(Scheduler::new(settings)),
            shared: RefCell::default(),
            names: RefCell::default(),
            places: RefCell::default(),
            wake_at: Cell::new(None),
            rearmed: Signal::default(),
            waits: Stage::default(),
            served: Stage::default(),
        });
        world.spawn(clock_task(service.clone(), ended));
        service
    }

    /// How long reads and writes waited at the gates, of one in sixteen.
    pub fn waits(&self) -> (LatencyCounts, LatencyCounts) {
        self.waits.counts()
    }

    /// How long reads and writes took behind the gates, of one in sixteen.
    pub fn served(&self) -> (LatencyCounts, LatencyCounts) {
        self.served.counts()
    }

    pub(crate) fn now(&self) -> u64 {
        self.world.now().0
    }

    /// A new client without a policy.
    pub fn gate(self: &Rc<Service>, name: &str) -> Rc<Gate> {
        let now = self.now();
        let mut scheduler = self.scheduler.borrow_mut();
        let flow = scheduler.add_flow(now, Policy::none());
        let client = scheduler.add_client(now, flow);
        drop(scheduler);
        self.names.borrow_mut().insert(client, name.to_owned());
        Rc::new(Gate::new(self.clone(), client))
    }

    /// Whether a policy is in force.
    pub fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Borrows the scheduler for reading.
    pub fn scheduler(&self) -> Ref<'_, Scheduler> {
        self.scheduler.borrow()
    }

    /// Gives the scheduler other settings.
    pub fn set_settings(&self, settings: Settings) {
        if self.scheduler.borrow().settings() != settings {
            self.scheduler.borrow_mut().set_settings(self.now(), settings);
        }
    }

    /// What its scheduler has found out about the pool; none: nothing yet.
    pub fn found(&self) -> Option<Found> {
        self.scheduler.borrow().found()
    }

    /// Begins with what another scheduler has found out about the pool.
    pub fn begin_with(&self, found: &Found) {
        self.scheduler.borrow_mut().begin_with(self.now(), found);
    }

    /// Opens or closes the gates.
    pub fn set_on(&self, on: bool) {
        self.on.set(on);
        self.pump();
    }

    /// Sets the policy of a client: its own instance, or the one shared by all clients that name it, with the
    /// part that this scheduler has of that; none: all of it. A client of another scheduler is left alone:
    /// its logical unit is one of an earlier life of the pool, for which a declaration that came late was
    /// meant.
    pub fn set_policy(&self, gate: &Gate, shared: Option<(&String, Option<Part>)>, policy: Policy) {
        if !gate.is_of(self) {
            return;
        }
        let now = self.now();
        let mut scheduler = self.scheduler.borrow_mut();
        let current = scheduler.flow_of(gate.client);
        let is_shared = self.shared.borrow().values().any(|flow| *flow == current);
        let wanted = match shared {
            None if !is_shared => current,
            None => scheduler.add_flow(now, policy),
            Some((name, _)) => {
                let known = self.shared.borrow().get(name).copied();
                let flow = known.unwrap_or_else(|| scheduler.add_flow(now, policy));
                self.shared.borrow_mut().insert(name.clone(), flow);
                flow
            }
        };
        scheduler.set_policy(now, wanted, policy);
        scheduler.set_part(now, wanted, shared.and_then(|(_, part)| part));
        if wanted != current {
            scheduler.move_client(now, gate.client, wanted);
            self.forget_flow(&mut scheduler, current);
        }
    }

    /// What it has of a policy that its clients share; none: all of it, or no client has it.
    pub fn part(&self, policy: &str) -> Option<Part> {
        let flow = self.shared.borrow().get(policy).copied()?;
        self.scheduler.borrow().part(flow)
    }

    /// Takes other parts of policies that its clients share, and says what was asked of it since the last
    /// time.
    pub fn take_parts(&self, parts: &Parts) -> (Room, Vec<(String, Option<PartUse>)>) {
        let now = self.now();
        let flow = |name: &str| self.shared.borrow().get(name).copied();
        let flows: Vec<Option<FlowId>> = parts.iter().map(|(name, _)| flow(name)).collect();
        let mut scheduler = self.scheduler.borrow_mut();
        for (flow, (_, part)) in flows.iter().zip(parts) {
            if let (Some(flow), Some(part)) = (flow, part) {
                scheduler.set_part(now, *flow, Some(*part));
            }
        }
        let (room, uses) = scheduler.tell(now, &flows.iter().flatten().copied().collect::<Vec<_>>());
        drop(scheduler);
        self.pump();
        let mut uses = uses.into_iter();
        let usage = |(flow, (name, _)): (&Option<FlowId>, &(String, Option<Part>))| {
            (name.clone(), flow.and_then(|_| uses.next()))
        };
        (room, flows.iter().zip(parts).map(usage).collect())
    }

    /// Ends the scheduler's window if it is over; returns the flows whose health changed.
    pub fn close_window(&self, news: &mut Vec<(FlowId, Health)>) {
        self.scheduler.borrow_mut().close_window(self.now(), news);
    }

    /// The name of the policy that the clients of a flow share, if any.
    pub fn shared_policy(&self, flow: FlowId) -> Option<String> {
        let shared = self.shared.borrow();
        shared.iter().find(|(_, of)| **of == flow).map(|(name, _)| name.clone())
    }

    /// The name of one client of a flow.
    pub fn client_of(&self, flow: FlowId) -> Option<String> {
        let (names, scheduler) = (self.names.borrow(), self.scheduler.borrow());
        names.iter().find(|(client, _)| scheduler.flow_of(**client) == flow).map(|(_, name)| name.clone())
    }

    /// Removes a client without waiting or running operations, and its flow unless others use it.
    pub(crate) fn forget(&self, client: ClientId) {
        self.names.borrow_mut().remove(&client);
        let mut scheduler = self.scheduler.borrow_mut();
        let flow = scheduler.flow_of(client);
        if scheduler.remove_client(self.now(), client) {
            self.forget_flow(&mut scheduler, flow);
        }
    }

    pub(crate) fn forget_flow(&self, scheduler: &mut Scheduler, flow: FlowId) {
        if scheduler.clients_of(flow) == 0 {
            scheduler.remove_flow(flow);
            self.shared.borrow_mut().retain(|_, shared| *shared != flow);
        }
    }

    /// Queues an operation; returns its slot.
    pub(crate) fn submit(&self, client: ClientId, bytes: u64) -> usize {
        let mut places = self.places.borrow_mut();
        let place = Place { request: None, begins: false, waker: None };
        let index = match places.free.pop() {
            Some(index) => {
                places.all[index] = place;
                index
            }
            None => {
                places.all.push(place);
                let count = places.all.len();
                places.free.reserve(count);
                count - 1
            }
        };
        let request = self.scheduler.borrow_mut().submit(self.now(), client, bytes, index as u64);
        places.all[index].request = Some(request);
        drop(places);
        self.pump();
        index
    }

    /// Whether the operation may begin: returns its request, and frees the slot.
    pub(crate) fn poll(&self, index: usize, waker: &Waker) -> Poll<RequestId> {
        let mut places = self.places.borrow_mut();
        let place = &mut places.all[index];
        if !place.begins {
            if !place.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
                place.waker = Some(waker.clone());
            }
            return Poll::Pending;
        }
        place.waker = None;
        let request = place.request.take().expect("a place has its request until it is freed");
        places.free.push(index);
        Poll::Ready(request)
    }

    /// Withdraws the operation in this slot.
    pub(crate) fn cancel(&self, index: usize) {
        let mut places = self.places.borrow_mut();
        let place = &mut places.all[index];
        let request = place.request.take().expect("a place has its request until it is freed");
        (place.waker, place.begins) = (None, false);
        places.free.push(index);
        drop(places);
        let mut scheduler = self.scheduler.borrow_mut();
        if !scheduler.cancel(self.now(), request) {
            scheduler.complete(self.now(), request);
        }
        drop(scheduler);
        self.pump();
    }

    /// An operation has ended.
    pub(crate) fn complete(&self, request: RequestId) {
        self.scheduler.borrow_mut().complete(self.now(), request);
        self.pump();
    }

    /// Starts all operations whose turn it is.
    pub(crate) fn pump(&self) {
        let mut scheduler = self.scheduler.borrow_mut();
        loop {
            match scheduler.next(self.now()) {
                Next::Dispatch(dispatch) => {
                    let mut places = self.places.borrow_mut();
                    let place = &mut places.all[dispatch.cookie as usize];
                    place.begins = true;
                    if let Some(waker) = place.waker.take() {
                        waker.wake();
                    }
                }
                Next::WaitUntil(at) => {
                    if self.wake_at.get().is_none_or(|armed| at < armed) {
                        self.wake_at.set(Some(at));
                        self.rearmed.wake_all();
                    }
                    return;
                }
                Next::Idle => return,
            }
        }
    }
}

/// Asks the scheduler when it is time, until the pool is released.
async fn clock_task(service: Rc<Service>, ended: impl Future<Output = ()>) {
    let mut ended = pin!(ended);
    loop {
        let armed = service.wake_at.get();
        let due = async {
            match armed {
                Some(at) => service.world.sleep_until(Instant(at)).await,
                None => pending().await,
            }
        };
        let rearmed = service.rearmed.wait_for(|| (service.wake_at.get() != armed).then_some(()));
        match select(ended.as_mut(), select(pin!(due), pin!(rearmed))).await {
            Either::Left(_) => return,
            Either::Right((Either::Left(_), _)) => {
                service.wake_at.set(None);
                service.pump();
            }
            Either::Right((Either::Right(_), _)) => {}
        }
    }
}
