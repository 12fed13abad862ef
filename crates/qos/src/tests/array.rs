//! An array of a known capacity, clients that keep a number of requests out, and schedulers between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::*;
use crate::{ClientId, FlowId, Next, RequestId};

/// A client that asks again as soon as it is answered, or after a pause.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) scheduler: usize,
    pub(super) policy: Policy,
    pub(super) bytes: u64,
    pub(super) outstanding: u32,
    pub(super) pause_ns: u64,
}

impl Load {
    /// One request of 512 KiB at a time.
    pub(super) fn of(policy: Policy) -> Load {
        Load { scheduler: 0, policy, bytes: 512 << 10, outstanding: 1, pause_ns: 0 }
    }
}

/// A request that was answered.
#[derive(Clone, Copy)]
pub(super) struct Done {
    pub(super) at: u64,
    pub(super) load: usize,
    pub(super) bytes: u64,
    pub(super) took_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Answer(usize),
    Look(usize),
}

struct Below {
    scheduler: usize,
    request: RequestId,
    load: usize,
    cost: u64,
    bytes: u64,
}

/// The array: `places` requests are served at once, each at its part of the capacity, others wait in their
/// order.
pub(super) struct Array {
    pub(super) schedulers: Vec<Scheduler>,
    pub(super) loads: Vec<Load>,
    pub(super) clients: Vec<(FlowId, ClientId)>,
    pub(super) done: Vec<Done>,
    pub(super) now: u64,
    bytes_per_s: u64,
    free_places: u64,
    places: u64,
    /// Places to take away.
    taken: u64,
    /// Instead of places: how long a request is below, by how many are.
    below_ns: Option<fn(u64) -> u64>,
    queue: VecDeque<usize>,
    below: BTreeMap<usize, Below>,
    asked_at: BTreeMap<u64, u64>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    looks: Vec<u64>,
    /// Requests that each load has out.
    out: Vec<u32>,
}

impl Array {
    pub(super) fn new(bytes_per_s: u64, places: u64, schedulers: usize, loads: &[Load]) -> Array {
        Array::with(Settings::default(), bytes_per_s, places, schedulers, loads)
    }

    pub(super) fn with(
        settings: Settings,
        bytes_per_s: u64,
        places: u64,
        schedulers: usize,
        loads: &[Load],
    ) -> Array {
        let mut array = Array {
            schedulers: (0..schedulers).map(|_| Scheduler::new(settings)).collect(),
            loads: loads.to_vec(),
            clients: vec![],
            done: vec![],
            now: 0,
            bytes_per_s,
            free_places: places,
            places,
            taken: 0,
            below_ns: None,
            queue: VecDeque::new(),
            below: BTreeMap::new(),
            asked_at: BTreeMap::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            looks: vec![u64::MAX; schedulers],
            out: loads.iter().map(|load| load.outstanding).collect(),
        };
        for (i, load) in loads.iter().enumerate() {
            let scheduler = &mut array.schedulers[load.scheduler];
            let flow = scheduler.add_flow(0, load.policy);
            let client = scheduler.add_client(0, flow);
            array.clients.push((flow, client));
            (0..load.outstanding).for_each(|_| array.plan(0, Event::Ask(i)));
        }
        array
    }

    pub(super) fn set_capacity(&mut self, bytes_per_s: u64) {
        self.bytes_per_s = bytes_per_s;
    }

    /// From now on it has other places.
    pub(super) fn set_places(&mut self, places: u64, bytes_per_s: u64) {
        let served = self.places - self.free_places;
        // Places that serve a request go when it ends.
        self.taken = served.saturating_sub(places);
        (self.free_places, self.places) = (places.saturating_sub(served), places);
        self.bytes_per_s = bytes_per_s;
        self.serve();
    }

    /// From now on a request is below for a time that depends on how many are.
    pub(super) fn set_below_ns(&mut self, below_ns: fn(u64) -> u64) {
        self.below_ns = Some(below_ns);
    }

    pub(super) fn set_policy(&mut self, load: usize, policy: Policy) {
        let scheduler = self.loads[load].scheduler;
        self.schedulers[scheduler].set_policy(self.now, self.clients[load].0, policy);
        self.loads[load].policy = policy;
        self.look(scheduler);
    }

    /// The second load shares the flow of the first one from now on.
    pub(super) fn join(&mut self, first: usize, second: usize) {
        let (flow, client) = (self.clients[first].0, self.clients[second].1);
        let scheduler = &mut self.schedulers[self.loads[second].scheduler];
        scheduler.move_client(self.now, client, flow);
        scheduler.remove_flow(std::mem::replace(&mut self.clients[second].0, flow));
    }

    /// A load keeps so many requests out from now on.
    pub(super) fn set_outstanding(&mut self, load: usize, outstanding: u32) {
        self.loads[load].outstanding = outstanding;
        while self.out[load] < outstanding {
            self.out[load] += 1;
            self.plan(self.now, Event::Ask(load));
        }
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Runs for so long.
    pub(super) fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        while let Some(Reverse((at, _, event))) = self.events.peek().copied()
            && at <= end
        {
            self.events.pop();
            self.now = at;
            match event {
                Event::Ask(load) => self.ask(load),
                Event::Answer(slot) => self.answer(slot),
                // Another one was planned since.
                Event::Look(scheduler) if self.looks[scheduler] != at => {}
                Event::Look(scheduler) => {
                    self.looks[scheduler] = u64::MAX;
                    self.look(scheduler);
                }
            }
        }
        self.now = end;
    }

    fn ask(&mut self, load: usize) {
        let Load { scheduler, bytes, .. } = self.loads[load];
        self.sequence += 1;
        let cookie = self.sequence << 16 | load as u64;
        self.asked_at.insert(cookie, self.now);
        self.schedulers[scheduler].submit(self.now, self.clients[load].1, bytes, cookie);
        self.look(scheduler);
    }

    pub(super) fn look(&mut self, scheduler: usize) {
        loop {
            match self.schedulers[scheduler].next(self.now) {
                Next::Dispatch(d) => {
                    let load = (d.cookie & 0xffff) as usize;
                    assert_eq!(d.client, self.clients[load].1);
                    let slot = d.cookie as usize;
                    let cost = d.bytes.max(UNIT);
                    let below = Below { scheduler, request: d.request, load, cost, bytes: d.bytes };
                    self.below.insert(slot, below);
                    self.queue.push_back(slot);
                }
                Next::WaitUntil(at) => {
                    assert!(at > self.now, "a scheduler waits for what has passed");
                    if at < self.looks[scheduler] {
                        self.looks[scheduler] = at;
                        self.plan(at, Event::Look(scheduler));
                    }
                    break;
                }
                Next::Idle => break,
            }
        }
        self.serve();
    }

    fn serve(&mut self) {
        if let Some(below_ns) = self.below_ns {
            while let Some(slot) = self.queue.pop_front() {
                let crowd = (self.below.len() - self.queue.len()) as u64;
                self.plan(self.now + below_ns(crowd), Event::Answer(slot));
            }
            return;
        }
        while self.free_places > 0
            && let Some(slot) = self.queue.pop_front()
        {
            self.free_places -= 1;
            let cost = u128::from(self.below[&slot].cost);
            let took = cost * u128::from(SECOND_NS) * u128::from(self.places) / u128::from(self.bytes_per_s);
            self.plan(self.now + took as u64, Event::Answer(slot));
        }
    }

    fn answer(&mut self, slot: usize) {
        let below = self.below.remove(&slot).expect("it is below");
        match self.taken {
            0 => self.free_places += 1,
            _ => self.taken -= 1,
        }
        let asked = self.asked_at.remove(&(slot as u64)).expect("it was asked");
        let (load, took_ns) = (below.load, self.now - asked);
        self.done.push(Done { at: self.now, load, bytes: below.bytes, took_ns });
        self.schedulers[below.scheduler].complete(self.now, below.request);
        if self.out[load] > self.loads[load].outstanding {
            self.out[load] -= 1;
        } else {
            self.plan(self.now + self.loads[load].pause_ns, Event::Ask(load));
        }
        self.look(below.scheduler);
    }

    /// Units per second of a load between two times.
    pub(super) fn rate(&self, load: usize, from: u64, to: u64) -> u64 {
        let own = self.done.iter().filter(|d| d.load == load && (from..to).contains(&d.at));
        let cost: u64 = own.map(|d| d.bytes.max(UNIT)).sum();
        (u128::from(cost) * u128::from(SECOND_NS) / u128::from((to - from) * UNIT)) as u64
    }

    /// The units of a load in all 5 s between two times, a window each 50 ms.
    pub(super) fn windows(&self, load: usize, from: u64, to: u64) -> Vec<u64> {
        let mut sum = 0;
        let own = self.done.iter().filter(|d| d.load == load);
        let sums: Vec<(u64, u64)> = own
            .map(|d| {
                sum += d.bytes.max(UNIT) / UNIT;
                (d.at, sum)
            })
            .collect();
        let until = |at: u64| match sums.partition_point(|(done, _)| *done <= at) {
            0 => 0,
            n => sums[n - 1].1,
        };
        let ends = (from + 5 * SECOND_NS..to).step_by(50_000_000);
        ends.map(|end| until(end) - until(end - 5 * SECOND_NS)).collect()
    }

    /// What the claims of the loads of one scheduler are.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let claim = |l: &Load| Claim {
            minimum: l.policy.minimum_iops,
            maximum: l.policy.maximum_iops,
            weight: u64::from(l.policy.weight),
            demand: None,
        };
        self.loads.iter().map(claim).collect()
    }
}
