//! The scheduler of a pool, and the operations that wait for it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures::future::{Either, select};
use qos::{ClientId, FlowId, Next, Policy, RequestId, Scheduler, Settings};
use world::sync::Signal;
use world::{Instant, World};

use super::gate::Gate;
use crate::controller::Watch;

/// An operation that waits, or may begin. A place is used again.
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

/// What operations of a pool wait for.
pub(crate) struct Service {
    pub(crate) world: World,
    pub(super) on: Cell<bool>,
    pub(super) scheduler: RefCell<Scheduler>,
    /// Flows of aggregated policies, by their names.
    pub(super) shared: RefCell<BTreeMap<String, FlowId>>,
    /// Who asks, by name.
    pub(super) names: RefCell<BTreeMap<ClientId, String>>,
    pub(super) scaled: Cell<bool>,
    places: RefCell<Places>,
    /// When the scheduler is to be asked again, if nothing happens before.
    wake_at: Cell<Option<u64>>,
    rearmed: Signal,
}

/// What a pool has for its promises.
pub(crate) struct PoolService {
    pub(crate) service: Rc<Service>,
    /// Of rebuilds, evacuations and their like.
    pub(crate) background: Rc<Gate>,
}

impl PoolService {
    /// The gate of work in the background, while somebody is promised something.
    pub(crate) fn background_if_closed(&self) -> Option<Rc<Gate>> {
        Some(self.background.clone()).filter(|gate| !gate.is_open())
    }
}

impl Service {
    /// One in which nothing is promised. Its clock runs until `watch` ends.
    pub(super) fn new(world: World, settings: Settings, watch: Watch) -> Rc<Service> {
        let service = Rc::new(Service {
            world: world.clone(),
            on: Cell::new(false),
            scheduler: RefCell::new(Scheduler::new(settings)),
            shared: RefCell::default(),
            names: RefCell::default(),
            scaled: Cell::new(false),
            places: RefCell::default(),
            wake_at: Cell::new(None),
            rearmed: Signal::default(),
        });
        world.spawn(clock_task(service.clone(), watch));
        service
    }

    pub(super) fn now(&self) -> u64 {
        self.world.now().0
    }

    /// A new client with nothing promised.
    pub(crate) fn gate(self: &Rc<Service>, name: &str) -> Rc<Gate> {
        let now = self.now();
        let mut scheduler = self.scheduler.borrow_mut();
        let flow = scheduler.add_flow(now, Policy::none());
        let client = scheduler.add_client(now, flow);
        drop(scheduler);
        self.names.borrow_mut().insert(client, name.to_owned());
        Rc::new(Gate::new(self.clone(), client))
    }

    /// Whether a policy is in force.
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Forgets a client, of which nothing waits or runs, and its flow unless others have it.
    pub(super) fn forget(&self, client: ClientId) {
        self.names.borrow_mut().remove(&client);
        let mut scheduler = self.scheduler.borrow_mut();
        let flow = scheduler.flow_of(client);
        if scheduler.remove_client(self.now(), client) {
            self.forget_flow(&mut scheduler, flow);
        }
    }

    pub(super) fn forget_flow(&self, scheduler: &mut Scheduler, flow: FlowId) {
        if scheduler.clients_of(flow) == 0 {
            scheduler.remove_flow(flow);
            self.shared.borrow_mut().retain(|_, shared| *shared != flow);
        }
    }

    /// An operation begins to wait; its place.
    pub(super) fn submit(&self, client: ClientId, bytes: u64) -> usize {
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

    /// Whether the operation may begin: its request, and the place is free again.
    pub(super) fn poll(&self, index: usize, waker: &Waker) -> Poll<RequestId> {
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

    /// The operation in this place is not wanted any more.
    pub(super) fn cancel(&self, index: usize) {
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
    pub(super) fn complete(&self, request: RequestId) {
        self.scheduler.borrow_mut().complete(self.now(), request);
        self.pump();
    }

    /// Lets all begin whose turn it is.
    pub(super) fn pump(&self) {
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

/// Asks the scheduler when it is time, until the pool is let go.
async fn clock_task(service: Rc<Service>, watch: Watch) {
    let mut ended = pin!(watch.ended());
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
