//! Selects the next request, and processes completions.

use crate::coordinate::Elsewhere;
use crate::members::ClientId;
use crate::queue::Phase;
use crate::queue::{Place, RequestId};
use crate::scheduler::{Dispatch, Next, Scheduler};
use crate::tag::share_of;

/// Minimum time for which a slot is reserved: less is lost between two calls of one program.
const AWAIT_NS_MIN: u64 = 100_000;
/// Maximum time: a quarter of a drive's service time of 4 ms.
const AWAIT_NS_MAX: u64 = 1_000_000;
/// Time that a share of a common array may catch up.
const PART_LATE_NS: u64 = 25_000_000;

impl Scheduler {
    /// The next action. Call it again until it returns no dispatch.
    pub fn next(&mut self, now: u64) -> Next {
        self.meter.elapse(now);
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
        if let Some((due, number)) = self.due.first()
            && due <= self.clock(now)
        {
            return Next::Dispatch(self.dispatch(now, number, Phase::Minimum));
        }
        let limited = self.limited.first().map(|(free_at, _)| free_at);
        let Some((_, number)) = self.turns.first() else {
            return limited.map_or(Next::Idle, Next::WaitUntil);
        };
        match self.kept_until(now) {
            Some(until) => Next::WaitUntil(limited.map_or(until, |at| at.min(until))),
            None => Next::Dispatch(self.dispatch(now, number, Phase::Weight)),
        }
    }

    /// Until when the last free slot is reserved for a flow whose minimum is due and which is about to send
    /// its next request.
    fn kept_until(&mut self, now: u64) -> Option<u64> {
        while let Some((due, number)) = self.awaited.first() {
            if due > self.clock(now) {
                return None;
            }
            let until = self.flows[number as usize].awaited_until;
            if until > now {
                return Some(until).filter(|_| self.below + 1 == self.depth.now());
            }
            self.awaited.remove(number);
        }
        None
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
        (request.place, request.since, request.phase) = (Place::Below, now, phase);
        self.below += 1;
        let clock = self.clock(now);
        let flow = &mut self.flows[number as usize];
        flow.below += 1;
        match phase {
            Phase::Minimum => {
                flow.reserve(cost);
                flow.charge(now, bytes, cost);
                flow.bound_lead(self.turn);
            }
            // Its minimum is due again as if this had been served for it, and no later: a flow above its
            // minimum does not also go ahead of the others for that.
            Phase::Weight => {
                // A flow far ahead is served only when no other may be: virtual time advances by this
                // request, and does not jump to the flow. Otherwise all other flows would be as far behind as
                // a flow can be, and their differences would be lost.
                let on = self.turn.saturating_add(share_of(cost, flow.policy.weight));
                self.turn = self.turn.max(flow.share.at.min(on));
                flow.postpone(clock, cost);
                flow.charge(now, bytes, cost);
            }
        }
        flow.pressure.dispatched(self.below, flow.waiting + flow.below);
        if let Some((rate, allowed)) = &mut self.part {
            allowed.raise_to(now.saturating_sub(PART_LATE_NS));
            allowed.spend(cost, *rate);
        }
        let known = &mut self.clients[client as usize];
        known.below += 1;
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

    /// Ends a dispatched request, successful or not. To be called exactly once for each.
    pub fn complete(&mut self, now: u64, request: RequestId) {
        self.meter.elapse(now);
        let ended = self.requests.end(request);
        assert!(ended.place == Place::Below, "a request is completed that was not dispatched");
        let cost = ended.bytes.max(self.settings.unit_bytes);
        let known = &mut self.clients[ended.client as usize];
        known.below -= 1;
        self.below -= 1;
        self.meter.served_bytes += cost;
        let number = known.flow;
        let clock = self.clock(now);
        let flow = &mut self.flows[number as usize];
        flow.below -= 1;
        flow.answered(now);
        flow.window.served_bytes += cost;
        flow.window.changed(now, flow.outstanding());
        flow.pressure.answered(now.saturating_sub(ended.since), cost);
        let may_be_awaited = self.settings.anticipates
            && flow.minimum > 0
            && flow.waiting == 0
            && flow.think_ns <= AWAIT_NS_MAX
            && !flow.pressure.is_hopeless(now);
        if may_be_awaited {
            flow.awaited_until = now + (2 * flow.think_ns).clamp(AWAIT_NS_MIN, AWAIT_NS_MAX);
            self.awaited.set(number, flow.reserve.at.max(clock.saturating_sub(crate::flow::SLACK_NS)));
        }
    }

    /// Charges a client for more work than it submitted: its next requests wait for that.
    pub fn charge(&mut self, now: u64, client: ClientId, bytes: u64) {
        let known = &mut self.clients[client.0 as usize];
        known.counts.charged_bytes += bytes;
        let number = known.flow;
        let flow = &mut self.flows[number as usize];
        flow.charge(now, bytes, bytes);
        flow.reserve(bytes);
        flow.window.served_bytes += bytes;
        self.meter.served_bytes += bytes;
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
        flow.charge(now, service.all_bytes, service.all_bytes);
        flow.reserve(service.minimum_bytes);
        self.place(now, number);
    }
}
