//! A modelled pool: parallel slots with random service times, and clients that keep requests outstanding.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use qos::{ClientId, FlowId, Next, Policy, RequestId, Scheduler, Settings};

use super::bars::SECOND_NS;

pub(crate) const UNIT_BYTES: u64 = 8192;

/// What serves requests: as many at once as it has slots; others wait in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) slots: u64,
    /// Mean time to reach a random place. Half of it is seek and controller, the same for all requests; the
    /// other half is rotation, from none to twice its mean.
    pub(crate) reach_ns: u64,
    /// Transfer of one slot.
    pub(crate) bytes_per_s: u64,
}

impl Pool {
    /// Mean service time of a request.
    pub(crate) fn service_ns(&self, bytes: u64) -> u64 {
        self.reach_ns + bytes * SECOND_NS / self.bytes_per_s
    }

    /// Standard deviation of service times, as a share of their mean: rotation is uniform, from 0 to
    /// `reach_ns`.
    pub(crate) fn deviation(&self, bytes: u64) -> f64 {
        self.reach_ns as f64 / 12_f64.sqrt() / self.service_ns(bytes) as f64
    }
}

/// A client that sends its next request as soon as it gets a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) policy: Policy,
    pub(crate) bytes: u64,
    pub(crate) outstanding: u64,
}

impl Load {
    /// Units that one of its requests counts.
    pub(crate) fn cost_units(&self) -> f64 {
        self.bytes.max(UNIT_BYTES) as f64 / UNIT_BYTES as f64
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Response(usize),
    Look,
}

/// A run of clients on a pool.
pub(crate) struct Run {
    pub(crate) scheduler: Scheduler,
    pub(crate) now: u64,
    /// Times of the responses of each client.
    pub(crate) done: Vec<Vec<u64>>,
    /// Time for which slots were busy.
    pub(crate) busy_ns: u64,
    pool: Pool,
    loads: Vec<Load>,
    clients: Vec<(FlowId, ClientId)>,
    rng: fastrand::Rng,
    free_slots: u64,
    queue: VecDeque<usize>,
    /// Requests below the scheduler; slots are reused.
    below: Vec<(RequestId, usize)>,
    free_below: Vec<usize>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    look_at: u64,
}

impl Run {
    /// Clients without policies.
    pub(crate) fn new(pool: Pool, loads: &[Load], settings: Settings, seed: u64) -> Run {
        let mut run = Run {
            scheduler: Scheduler::new(settings),
            now: 0,
            done: vec![vec![]; loads.len()],
            busy_ns: 0,
            pool,
            loads: loads.to_vec(),
            clients: vec![],
            rng: fastrand::Rng::with_seed(seed),
            free_slots: pool.slots,
            queue: VecDeque::new(),
            below: vec![],
            free_below: vec![],
            events: BinaryHeap::new(),
            sequence: 0,
            look_at: u64::MAX,
        };
        for (load, of) in loads.iter().enumerate() {
            let flow = run.scheduler.add_flow(0, Policy::none());
            let client = run.scheduler.add_client(0, flow);
            run.clients.push((flow, client));
            (0..of.outstanding).for_each(|_| run.submit(load));
        }
        run.pump();
        run
    }

    /// Puts the policies of the loads in force.
    pub(crate) fn set_policies(&mut self) {
        for (load, (flow, _)) in self.loads.iter().zip(&self.clients) {
            self.scheduler.set_policy(self.now, *flow, load.policy);
        }
        self.pump();
    }

    pub(crate) fn run_until(&mut self, end: u64) {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied()
            && at <= end
        {
            self.events.pop();
            self.now = at;
            match event {
                Event::Response(slot) => self.respond(slot),
                Event::Look if self.look_at != at => continue,
                Event::Look => self.look_at = u64::MAX,
            }
            self.pump();
        }
        self.now = end;
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn submit(&mut self, load: usize) {
        let (bytes, client) = (self.loads[load].bytes, self.clients[load].1);
        self.scheduler.submit(self.now, client, bytes, load as u64);
    }

    /// The client sees its response, and the scheduler its next request, before the slot is given away: hosts
    /// take some time for that, and the scheduler waits for it.
    fn respond(&mut self, slot: usize) {
        let (request, load) = self.below[slot];
        self.free_below.push(slot);
        self.free_slots += 1;
        self.scheduler.complete(self.now, request);
        self.pump();
        self.done[load].push(self.now);
        self.submit(load);
    }

    fn pump(&mut self) {
        loop {
            match self.scheduler.next(self.now) {
                Next::Dispatch(dispatch) => {
                    let below = (dispatch.request, dispatch.cookie as usize);
                    let slot = self.free_below.pop().unwrap_or(self.below.len());
                    match self.below.get_mut(slot) {
                        Some(place) => *place = below,
                        None => self.below.push(below),
                    }
                    self.queue.push_back(slot);
                }
                Next::WaitUntil(at) => {
                    assert!(at > self.now, "the scheduler waits for what has passed");
                    if at < self.look_at {
                        self.look_at = at;
                        self.plan(at, Event::Look);
                    }
                    break;
                }
                Next::Idle => break,
            }
        }
        while self.free_slots > 0
            && let Some(slot) = self.queue.pop_front()
        {
            self.free_slots -= 1;
            let bytes = self.loads[self.below[slot].1].bytes;
            let half = self.pool.reach_ns / 2;
            let took_ns = self.pool.service_ns(bytes) - half + self.rng.u64(0..=2 * half);
            self.busy_ns += took_ns;
            self.plan(self.now + took_ns, Event::Response(slot));
        }
    }
}
