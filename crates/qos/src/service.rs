//! Who is served next, and what follows from an answer.

use crate::coordinate::Elsewhere;
use crate::queue::{Place, RequestId};
use crate::scheduler::{ClientId, Dispatch, Next, Phase, Scheduler};

/// What a part of a shared array may catch up.
const PART_LATE_NS: u64 = 25_000_000;

impl Scheduler {
    /// What is to be done now. To be asked again until it is no dispatch.
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
        if self.waiting == 0 {
            return Next::Idle;
        }
        if let Some((_, allowed)) = self.part.filter(|(_, allowed)| allowed.at > now) {
            return Next::WaitUntil(allowed.at);
        }
        if let Some(number) = self.due_now(now) {
            return Next::Dispatch(self.dispatch(now, number, Phase::Minimum));
        }
        if let Some((_, number)) = self.turns.first()
            && self.has_place_for_others(now)
        {
            return Next::Dispatch(self.dispatch(now, number, Phase::Weight));
        }
        // Whose maximum lets it be served, or whose minimum is due although there is no place for others.
        let allowed = self.limited.first().map(|(free_at, _)| free_at);
        let due = self.due_alone.first().map(|(due, _)| due.saturating_add(self.held_ns));
        let due = due.filter(|_| self.has_place_for_one());
        allowed.into_iter().chain(due).min().map_or(Next::Idle, Next::WaitUntil)
    }

    /// The flow whose minimum has been due for longest, of those that may go below.
    fn due_now(&mut self, now: u64) -> Option<u32> {
        let alone = self.due_alone.first().filter(|_| self.has_place_for_one());
        let more = self.due.first().filter(|_| self.has_place());
        let (due, number) = alone.into_iter().chain(more).min()?;
        (due <= self.clock(now)).then_some(number)
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
            // Its minimum stays due when it was: service by weight does not count for it.
            Phase::Weight => {
                self.turn = self.turn.max(flow.share.at);
                flow.charge(now, bytes, cost);
            }
        }
        flow.keep(clock, cost);
        flow.pressure.dispatched(self.below, flow.below, flow.outstanding());
        if flow.minimum > 0 {
            self.owed.set(number, flow.kept.at);
        }
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

    /// A dispatched request has ended, well or not. Exactly once for each.
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
        let flow = &mut self.flows[number as usize];
        flow.below -= 1;
        flow.answered(now);
        flow.window.served_bytes += cost;
        flow.window.changed(now, flow.outstanding());
        flow.pressure.answered(now.saturating_sub(ended.since), cost);
        if flow.below == 0 && flow.waiting > 0 {
            self.place(now, number);
        }
    }

    /// Work of a client turned out to be more than it was submitted as: its next requests wait for that.
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

    /// What other schedulers did for a client since its last request here (dmClock): said before the next one is submitted.
    pub fn elsewhere(&mut self, now: u64, client: ClientId, service: Elsewhere) {
        let number = self.clients[client.0 as usize].flow;
        let flow = &mut self.flows[number as usize];
        flow.charge(now, service.all_bytes, service.all_bytes);
        flow.reserve(service.minimum_bytes);
        self.place(now, number);
    }
}
