//! The scheduler: flows, clients and their requests. `service` selects the next one.

use crate::capacity::{Capacity, Meter, Told};
use crate::depth::{Depth, DepthLimit};
use crate::expected::FLOOR_PERCENT_DEFAULT;
use crate::flow::Flow;
use crate::heap::Heap;
use crate::judge::Judge;
use crate::members::{Client, ClientCounts, ClientId, Work};
use crate::part::Part;
use crate::policy::{FlowId, Policy};
use crate::queue::{Phase, Place, RequestId, Requests};
use crate::tag::Tag;
use crate::turn::Turn;

/// The unit that Windows and Hyper-V use for normalised IOPS.
pub const UNIT_BYTES_DEFAULT: u64 = 8192;
/// Two requests for each of 32 drives: more does not make a pool faster, fewer leave some drives idle.
pub const DEPTH_MAX_DEFAULT: u32 = 64;

/// Settings for all flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Minimum charge of a request; rates are in these units.
    pub unit_bytes: u64,
    /// Maximum number of requests below the scheduler.
    pub depth_max: u32,
    /// Whether the depth is found: what throughput needs, and minimums allow.
    pub depth_adapts: bool,
    /// Percent of the capacity that the flows without a minimum share at least.
    pub floor_percent: u32,
    /// Whether a slot is reserved briefly for a client that is about to send its next request.
    pub anticipates: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            unit_bytes: UNIT_BYTES_DEFAULT,
            depth_max: DEPTH_MAX_DEFAULT,
            depth_adapts: true,
            floor_percent: FLOOR_PERCENT_DEFAULT,
            anticipates: true,
        }
    }
}

/// A request to dispatch now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Dispatch {
    /// To be passed to [`Scheduler::complete`].
    pub request: RequestId,
    pub client: ClientId,
    /// The value submitted with it.
    pub cookie: u64,
    /// Its length.
    pub bytes: u64,
    /// Why it is dispatched.
    pub phase: Phase,
    /// How long it waited.
    pub waited_ns: u64,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Dispatch this request.
    Dispatch(Dispatch),
    /// Nothing before this time, unless a request is submitted, completed or cancelled.
    WaitUntil(u64),
    /// Nothing until a request is submitted, completed or cancelled.
    Idle,
}

/// Scheduler of everything that shares drives.
pub struct Scheduler {
    pub(crate) settings: Settings,
    pub(crate) flows: Vec<Flow>,
    pub(crate) clients: Vec<Client>,
    free_flows: Vec<u32>,
    free_clients: Vec<u32>,
    pub(crate) requests: Requests,
    pub(crate) waiting: u32,
    pub(crate) below: u32,
    /// Waiting flows that may be served: by the time when their minimum is due, and by their turn.
    pub(crate) due: Heap,
    pub(crate) turns: Heap,
    /// Those of `turns` without a minimum.
    pub(crate) free_turns: Heap,
    /// Flows without a minimum whose requests are all below, by their turn.
    pub(crate) away_turns: Heap,
    /// Flows that wait for their maximum, by the time that it allows.
    pub(crate) limited: Heap,
    /// Flows with a minimum that got a response a moment ago and have no waiting request, by the time when
    /// their minimum is due.
    pub(crate) awaited: Heap,
    /// The same, of all flows, by their turn.
    pub(crate) awaited_turns: Heap,
    /// What the flows without a minimum lack of the floor, in percent of bytes.
    pub(crate) floor_due: i64,
    /// Lag of the reservation clock.
    pub(crate) held_ns: u64,
    /// Whether some capacity was left while no minimum was due, at the last look.
    pub(crate) has_spare: bool,
    /// The turn that was served last.
    pub(crate) turn: Turn,
    /// This scheduler's share of a common array: bytes per second, and when the next request is allowed.
    pub(crate) part: Option<(u64, Tag)>,
    /// Whether a part of a maximum made a request wait since the last look at the depth.
    pub(crate) part_held: bool,
    pub(crate) depth: Depth,
    pub(crate) meter: Meter,
    pub(crate) judge: Judge,
    pub(crate) told: Told,
}

impl Scheduler {
    /// A scheduler without flows.
    pub fn new(settings: Settings) -> Scheduler {
        Scheduler {
            settings,
            flows: Vec::new(),
            clients: Vec::new(),
            free_flows: Vec::new(),
            free_clients: Vec::new(),
            requests: Requests::default(),
            waiting: 0,
            below: 0,
            due: Heap::default(),
            turns: Heap::default(),
            away_turns: Heap::default(),
            limited: Heap::default(),
            free_turns: Heap::default(),
            awaited: Heap::default(),
            awaited_turns: Heap::default(),
            floor_due: 0,
            held_ns: 0,
            has_spare: false,
            turn: Turn::default(),
            part: None,
            part_held: false,
            depth: Depth::new(settings.depth_max),
            meter: Meter::default(),
            judge: Judge::default(),
            told: Told::default(),
        }
    }

    /// The measured capacity of the array.
    pub fn capacity(&self) -> Capacity {
        self.meter.seen
    }

    /// The settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Changes the settings; rates are in the new unit at once.
    pub fn set_settings(&mut self, now: u64, settings: Settings) {
        self.settings = settings;
        self.depth.set_max(settings.depth_max);
        for number in 0..self.flows.len() as u32 {
            let policy = self.flows[number as usize].policy;
            self.apply_policy(now, number, policy);
        }
    }

    /// The reservation clock.
    pub(crate) fn clock(&self, now: u64) -> u64 {
        now.saturating_sub(self.held_ns)
    }

    /// Adds a flow with this policy and no clients.
    pub fn add_flow(&mut self, now: u64, policy: Policy) -> FlowId {
        let flow = Flow::new(now, self.clock(now), self.turn.at);
        let number = match self.free_flows.pop() {
            Some(number) => {
                self.flows[number as usize] = flow;
                number
            }
            None => {
                self.flows.push(flow);
                self.flows.len() as u32 - 1
            }
        };
        let turns = [&mut self.due, &mut self.turns, &mut self.free_turns, &mut self.limited];
        for heap in
            turns.into_iter().chain([&mut self.away_turns, &mut self.awaited, &mut self.awaited_turns])
        {
            heap.grow(self.flows.len());
        }
        self.apply_policy(now, number, policy);
        FlowId(number)
    }

    /// The policy of a flow.
    pub fn policy(&self, flow: FlowId) -> Policy {
        self.flows[flow.0 as usize].policy
    }

    /// Changes the policy of a flow from now on.
    pub fn set_policy(&mut self, now: u64, flow: FlowId, policy: Policy) {
        let old = self.flows[flow.0 as usize].policy;
        if old == policy {
            return;
        }
        self.apply_policy(now, flow.0, policy);
        if old.weight != policy.weight {
            // As if its last request had been charged by the new weight.
            self.flows[flow.0 as usize].share = Tag::at(u64::MAX);
        }
        // A flow that the old policy favoured is not charged for that, and one that lagged for lack of
        // outstanding requests does not catch up.
        for number in 0..self.flows.len() as u32 {
            self.flows[number as usize].begin_anew(self.turn.at);
            self.place(now, number);
        }
        self.depth.look_soon(now);
    }

    /// Sets what this scheduler has of the policy of a flow, from now on; none: all of it. Nobody is ahead or
    /// behind by that.
    pub fn set_part(&mut self, now: u64, flow: FlowId, part: Option<Part>) {
        let (clock, unit_bytes) = (self.clock(now), self.settings.unit_bytes);
        let known = &mut self.flows[flow.0 as usize];
        if known.part != part {
            known.set_part(part, unit_bytes, now, clock);
            self.place(now, flow.0);
        }
    }

    /// What this scheduler has of the policy of a flow; none: all of it.
    pub fn part(&self, flow: FlowId) -> Option<Part> {
        self.flows[flow.0 as usize].part
    }

    fn apply_policy(&mut self, now: u64, number: u32, policy: Policy) {
        let clock = self.clock(now);
        self.flows[number as usize].set_policy(policy, self.settings.unit_bytes, now, clock);
        self.await_no_more(number);
        self.place(now, number);
    }

    /// Reserves no slot for a flow, and nothing of the floor.
    pub(crate) fn await_no_more(&mut self, number: u32) {
        self.away_turns.remove(number);
        self.awaited.remove(number);
        self.awaited_turns.remove(number);
    }

    /// Removes a flow without clients. Removing another one is a bug of the caller.
    pub fn remove_flow(&mut self, flow: FlowId) {
        let known = &mut self.flows[flow.0 as usize];
        assert!(known.in_use && known.clients == 0, "a flow is removed while it has clients");
        known.in_use = false;
        self.await_no_more(flow.0);
        self.free_flows.push(flow.0);
    }

    /// Adds a client to a flow.
    pub fn add_client(&mut self, _now: u64, flow: FlowId) -> ClientId {
        assert!(self.flows[flow.0 as usize].in_use, "a client is added to a flow that does not exist");
        self.flows[flow.0 as usize].clients += 1;
        let client = Client::of(flow.0);
        match self.free_clients.pop() {
            Some(number) => {
                self.clients[number as usize] = client;
                ClientId(number)
            }
            None => {
                self.clients.push(client);
                ClientId(self.clients.len() as u32 - 1)
            }
        }
    }

    /// Number of clients of a flow.
    pub fn clients_of(&self, flow: FlowId) -> u32 {
        self.flows[flow.0 as usize].clients
    }

    /// The flow of a client.
    pub fn flow_of(&self, client: ClientId) -> FlowId {
        FlowId(self.clients[client.0 as usize].flow)
    }

    /// Moves a client to another flow, with its waiting requests.
    pub fn move_client(&mut self, now: u64, client: ClientId, flow: FlowId) {
        let number = client.0 as usize;
        let Client { flow: from, waiting, below, work_below, .. } = self.clients[number];
        if from == flow.0 {
            return;
        }
        let old = &mut self.flows[from as usize];
        old.clients -= 1;
        old.waiting -= waiting;
        old.below -= below;
        old.moved(Work::default(), work_below);
        if waiting > 0 {
            old.ring.remove(&mut self.clients, client.0);
        }
        old.window.changed(now, old.outstanding());
        self.place(now, from);
        let (clock, turn) = (self.clock(now), self.turn);
        let new = &mut self.flows[flow.0 as usize];
        if waiting > 0 && new.waiting == 0 {
            new.begin(now, clock, turn, self.settings.unit_bytes);
        }
        new.clients += 1;
        new.waiting += waiting;
        new.below += below;
        new.moved(work_below, Work::default());
        if waiting > 0 {
            new.ring.push(&mut self.clients, client.0);
        }
        new.window.changed(now, new.outstanding());
        self.clients[number].flow = flow.0;
        self.await_no_more(flow.0);
        self.place(now, flow.0);
        self.depth.look_soon(now);
    }

    /// Removes a client; returns `false` while it has requests.
    pub fn remove_client(&mut self, _now: u64, client: ClientId) -> bool {
        let known = &mut self.clients[client.0 as usize];
        if known.waiting + known.below > 0 {
            return false;
        }
        assert!(known.in_use, "a client is removed twice");
        known.in_use = false;
        self.flows[known.flow as usize].clients -= 1;
        self.free_clients.push(client.0);
        true
    }

    /// Service of a client since it was added.
    pub fn counts(&self, client: ClientId) -> ClientCounts {
        self.clients[client.0 as usize].counts
    }

    /// Sets this scheduler's share of a common array, in units per second; none: all of it.
    pub fn set_share(&mut self, now: u64, units_per_s: Option<u64>) {
        let bytes_per_s = units_per_s.map(|units| (units * self.settings.unit_bytes).max(1));
        let next = self.part.map_or(Tag::at(now), |(_, tag)| Tag::at(tag.at.min(now)));
        match (self.part, bytes_per_s) {
            (Some((rate, _)), Some(wanted)) if rate == wanted => {}
            _ => self.part = bytes_per_s.map(|rate| (rate, next)),
        }
    }

    /// Current limit of requests below. For a moment now and then, the scheduler tries another one.
    pub fn depth(&self) -> u32 {
        self.depth.found()
    }

    /// What determines the depth.
    pub fn depth_limit(&self) -> DepthLimit {
        self.depth.limit()
    }

    /// Throughput that the depth costs against the deepest, of 1000.
    pub fn depth_cost_permille(&self) -> u32 {
        self.depth.cost_permille()
    }

    /// Requests below.
    pub fn in_flight(&self) -> u32 {
        self.below
    }

    /// Waiting requests.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Submits a request of a client: it waits until it is dispatched.
    pub fn submit(&mut self, now: u64, client: ClientId, bytes: u64, cookie: u64) -> RequestId {
        self.meter.elapse(now);
        let (clock, turn, unit_bytes) = (self.clock(now), self.turn, self.settings.unit_bytes);
        let known = &mut self.clients[client.0 as usize];
        assert!(known.in_use, "a request of a client that does not exist");
        let id = self.requests.push(&mut known.queue, (client.0, bytes, cookie), now);
        known.waiting += 1;
        let (number, is_first) = (known.flow, known.waiting == 1);
        let flow = &mut self.flows[number as usize];
        if is_first {
            flow.ring.push(&mut self.clients, client.0);
        }
        let begins = flow.waiting == 0;
        if begins {
            flow.begin(now, clock, turn, unit_bytes);
        }
        flow.waiting += 1;
        self.waiting += 1;
        flow.window.begun_bytes += bytes.max(unit_bytes);
        flow.window.changed(now, flow.outstanding());
        if begins {
            self.await_no_more(number);
            self.place(now, number);
        }
        id
    }

    /// Cancels a waiting request; returns `false` if it was dispatched.
    pub fn cancel(&mut self, now: u64, request: RequestId) -> bool {
        self.meter.elapse(now);
        let found = *self.requests.get(request);
        if found.place != Place::Waits {
            return false;
        }
        self.take_out(request, found.client);
        self.requests.end(request);
        let number = self.clients[found.client as usize].flow;
        let flow = &mut self.flows[number as usize];
        flow.window.changed(now, flow.outstanding());
        self.place(now, number);
        true
    }

    /// Removes a request from the waiting ones.
    pub(crate) fn take_out(&mut self, request: RequestId, client: u32) {
        let known = &mut self.clients[client as usize];
        self.requests.unlink(&mut known.queue, request);
        known.waiting -= 1;
        debug_assert_eq!(known.waiting == 0, known.queue.is_empty());
        let (number, is_last) = (known.flow, known.waiting == 0);
        let flow = &mut self.flows[number as usize];
        flow.waiting -= 1;
        self.waiting -= 1;
        if is_last {
            flow.ring.remove(&mut self.clients, client);
        }
    }
}
