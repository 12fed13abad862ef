//! Selects the next request, and processes completions.

use crate::coordinate::Elsewhere;
use crate::flow::{Flow, LENIENT_NS, remembered_peak};
use crate::heap::Heap;
use crate::members::{ClientId, Work};
use crate::queue::Phase;
use crate::queue::{Place, RequestId};
use crate::scheduler::{Dispatch, Next, Scheduler};

/// Minimum time for which a slot is reserved: less is lost between two calls of one program.
const AWAIT_NS_MIN: u64 = 100_000;
/// Maximum time: a quarter of a drive's service time of 4 ms.
const AWAIT_NS_MAX: u64 = 1_000_000;
/// A slot is reserved by weight only for a client that returns within this part of the time below: it is idle
/// meanwhile.
const AWAIT_PART: u64 = 8;
/// A longer request counts as this one for the floor.
const COST_BYTES_MAX: u64 = 64 << 20;
/// Time that a share of a common array may catch up.
const PART_LATE_NS: u64 = 25_000_000;

/// The largest weight of the flows that have requests.
fn largest_weight(flows: &[Flow]) -> u32 {
    let at_work = flows.iter().filter(|flow| flow.outstanding() > 0);
    at_work.map(|flow| flow.policy.weight).max().unwrap_or(1)
}

impl Scheduler {
    /// The next action. Call it again until it returns no dispatch.
    pub fn next(&mut self, now: u64) -> Next {
        self.meter.elapse(now);
        let flows = &self.flows;
        self.turn.look(now, || largest_weight(flows));
        self.adapt_depth(now);
        self.let_in(now);
        self.hold_clock(now);
        let next = self.choose(now);
        self.meter.blocked = !matches!(next, Next::Dispatch(_)) && !self.turns.is_empty();
        next
    }

    fn choose(&mut self, now: u64) -> Next {
        if self.waiting == 0 || self.below >= self.depth.now() {
            return Next::Idle;
        }
        if let Some((_, allowed)) = self.part.filter(|(_, allowed)| allowed.at > now) {
            return Next::WaitUntil(allowed.at);
        }
        if self.floor_due > 0
            && let Some((turn, number)) = self.free_turns.first()
            && self.floor_due > self.kept_of_floor(now, turn, number)
        {
            return Next::Dispatch(self.dispatch(now, number, Phase::Weight));
        }
        let clock = self.clock(now);
        let limited = self.limited.first().map_or(u64::MAX, |(free_at, _)| free_at);
        let Some((turn, by_turn)) = self.turns.first() else {
            return if limited == u64::MAX { Next::Idle } else { Next::WaitUntil(limited) };
        };
        let Some((due, by_minimum)) = self.due.first().filter(|(due, _)| *due <= clock) else {
            return match self.kept_until(now, clock, |_, key| key < turn) {
                Some(until) => Next::WaitUntil(until.min(limited)),
                None => {
                    let dispatch = self.dispatch(now, by_turn, Phase::Weight);
                    self.depth.spared(dispatch.bytes.max(self.settings.unit_bytes));
                    Next::Dispatch(dispatch)
                }
            };
        };
        let (served, lenient) = (self.turn.at, due.saturating_add(LENIENT_NS) > clock);
        if let Some(until) = self.kept_until(now, due, |flow, _| lenient && flow.is_far_behind(served)) {
            return Next::WaitUntil(until.min(limited));
        }
        let flow = &self.flows[by_turn as usize];
        if lenient && flow.is_far_behind(served) {
            let is_due = flow.minimum > 0 && flow.reserve.at <= clock;
            let phase = if is_due { Phase::Minimum } else { Phase::Weight };
            return Next::Dispatch(self.dispatch(now, by_turn, phase));
        }
        Next::Dispatch(self.dispatch(now, by_minimum, Phase::Minimum))
    }

    /// What of the floor is kept from a flow with this turn: a request of the flow that precedes it and has
    /// all its requests below. Those with many outstanding would take all of the floor meanwhile, and one
    /// with few would wait for the next of it each time that it comes back. What it does not need stays, and
    /// is kept once.
    fn kept_of_floor(&mut self, now: u64, turn: u64, number: u32) -> i64 {
        while let Some((_, away)) = self.away_turns.first().filter(|(key, _)| *key < turn) {
            let flow = &self.flows[away as usize];
            if flow.below > 0 || flow.awaited_until > now {
                let both = flow.peak_bytes.saturating_add(self.flows[number as usize].peak_bytes);
                return 100 * both.min(COST_BYTES_MAX / 2) as i64;
            }
            self.away_turns.remove(away);
        }
        0
    }

    /// Until when the free slots are reserved for flows which are about to send their next request, and which
    /// precede the candidate: their minimum is due by `due`, or their turn precedes it.
    fn kept_until(&mut self, now: u64, due: u64, precedes: impl Fn(&Flow, u64) -> bool) -> Option<u64> {
        let free = (self.depth.now() - self.below) as usize;
        let flows = &self.flows;
        let first = |awaited: &mut Heap, precedes: &dyn Fn(&Flow, u64) -> bool| {
            while let Some((key, number)) = awaited.first() {
                let flow = &flows[number as usize];
                if !precedes(flow, key) {
                    return None;
                }
                if flow.awaited_until > now {
                    return Some(flow.awaited_until);
                }
                awaited.remove(number);
            }
            None
        };
        let by_minimum = first(&mut self.awaited, &|_, key| key <= due);
        if by_minimum.is_some() && free <= self.awaited.len() {
            return by_minimum;
        }
        first(&mut self.awaited_turns, &precedes).filter(|_| free <= self.awaited_turns.len())
    }

    fn dispatch(&mut self, now: u64, number: u32, phase: Phase) -> Dispatch {
        let flow = &mut self.flows[number as usize];
        let client = flow.ring.turn(&mut self.clients);
        let queue = &self.clients[client as usize].queue;
        let (id, request) = self.requests.first(queue).expect("a client in the ring has requests");
        let (bytes, cookie, waited_ns) = (request.bytes, request.cookie, now.saturating_sub(request.since));
        let cost = bytes.max(self.settings.unit_bytes);
        flow.ring.served(&mut self.clients, cost);
        self.take_out(id, client);
        let request = self.requests.get(id);
        (request.place, request.since, request.phase, request.cost) = (Place::Below, now, phase, cost);
        self.below += 1;
        self.turn.peak_bytes = remembered_peak(self.turn.peak_bytes, cost);
        self.count_floor(number, cost);
        let clock = self.clock(now);
        let flow = &mut self.flows[number as usize];
        flow.below += 1;
        match phase {
            Phase::Minimum => {
                flow.reserve(cost);
                flow.start(now, Work { bytes, cost });
                flow.bound_lead(&self.turn);
            }
            // Its minimum is due again as if this had been served for it, and no later: a flow above its
            // minimum does not also go ahead of the others for that.
            Phase::Weight => {
                let charged = flow.since_its_turn().saturating_add(cost);
                self.turn.serve(flow.share.at, charged, flow.policy.weight);
                flow.postpone(clock, cost);
                flow.start(now, Work { bytes, cost });
            }
        }
        flow.pressure.dispatched(self.below, flow.waiting + flow.below, waited_ns);
        flow.window.waited_ns = flow.window.waited_ns.saturating_add(waited_ns);
        if let Some((rate, allowed)) = &mut self.part {
            allowed.raise_to(now.saturating_sub(PART_LATE_NS));
            allowed.spend(cost, *rate);
        }
        let known = &mut self.clients[client as usize];
        known.below += 1;
        known.work_below.bytes += bytes;
        known.work_below.cost += cost;
        let counts = &mut known.counts;
        match phase {
            Phase::Minimum => counts.minimum_requests += 1,
            Phase::Weight => counts.weight_requests += 1,
        }
        counts.bytes += bytes;
        counts.charged_bytes += cost;
        counts.waited_ns += waited_ns;
        counts.waited_requests += u64::from(waited_ns > 0);
        self.place(now, number);
        Dispatch { request: id, client: ClientId(client), cookie, bytes, phase, waited_ns }
    }

    /// Counts what flows without a minimum lack of the floor: less than it while one of them waits.
    fn count_floor(&mut self, number: u32, cost: u64) {
        let cost = cost.min(COST_BYTES_MAX) as i64;
        if self.flows[number as usize].minimum == 0 {
            // Service beyond the floor does not reduce it later.
            self.floor_due = (self.floor_due - 100 * cost).max(-100 * cost);
        }
        self.floor_due = match self.free_turns.is_empty() {
            true => self.floor_due.min(0),
            false => self.floor_due + i64::from(self.settings.floor_percent) * cost,
        };
        self.floor_due = self.floor_due.min(100 * COST_BYTES_MAX as i64);
    }

    /// Ends a dispatched request, successful or not. To be called exactly once for each.
    pub fn complete(&mut self, now: u64, request: RequestId) {
        self.meter.elapse(now);
        let ended = self.requests.end(request);
        assert!(ended.place == Place::Below, "a request is completed that was not dispatched");
        let cost = ended.cost;
        let known = &mut self.clients[ended.client as usize];
        known.below -= 1;
        known.work_below.bytes -= ended.bytes;
        known.work_below.cost -= cost;
        self.below -= 1;
        self.meter.serve(cost);
        let number = known.flow;
        let clock = self.clock(now);
        let flow = &mut self.flows[number as usize];
        flow.below -= 1;
        flow.end(now, Work { bytes: ended.bytes, cost });
        flow.answered(now);
        flow.window.served(cost);
        flow.window.changed(now, flow.outstanding());
        let below_ns = now.saturating_sub(ended.since);
        flow.window.below_ns = flow.window.below_ns.saturating_add(below_ns);
        flow.pressure.answered(below_ns, cost);
        self.depth.answered(cost, below_ns, ended.phase);
        let may_be_awaited = self.settings.anticipates && flow.waiting == 0 && flow.think_ns <= AWAIT_NS_MAX;
        if !may_be_awaited {
            return;
        }
        flow.awaited_until = now + (2 * flow.think_ns).clamp(AWAIT_NS_MIN, AWAIT_NS_MAX);
        let returns_soon = flow.think_ns <= flow.pressure.below_ns / AWAIT_PART;
        if flow.minimum > 0 && (returns_soon || !flow.pressure.is_hopeless(now)) {
            self.awaited.set(number, flow.reserve.at.max(clock.saturating_sub(flow.slack_ns())));
        }
        if returns_soon {
            self.awaited_turns.set(number, flow.share.at);
        }
    }

    /// Charges a client for more work than it submitted: its next requests wait for that.
    pub fn charge(&mut self, now: u64, client: ClientId, bytes: u64) {
        let known = &mut self.clients[client.0 as usize];
        known.counts.charged_bytes += bytes;
        let number = known.flow;
        let flow = &mut self.flows[number as usize];
        flow.charge(now, Work { bytes, cost: bytes });
        flow.reserve(bytes);
        flow.window.served(bytes);
        self.meter.serve(bytes);
        if let Some((rate, allowed)) = &mut self.part {
            allowed.spend(bytes, *rate);
        }
        self.place(now, number);
    }

    /// Reports the service of a client at other schedulers since its last request here (dmClock); to be
    /// called before it submits the next one.
    pub fn elsewhere(&mut self, now: u64, client: ClientId, service: Elsewhere) {
        let number = self.clients[client.0 as usize].flow;
        let flow = &mut self.flows[number as usize];
        flow.charge(now, Work { bytes: service.all_bytes, cost: service.all_bytes });
        flow.reserve(service.minimum_bytes);
        self.place(now, number);
    }
}
