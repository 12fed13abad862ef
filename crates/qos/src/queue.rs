//! Requests: a slab of reusable nodes, linked into one queue per client.

/// No node.
const NONE: u32 = u32::MAX;

/// A submitted request that has not ended. Using one that has ended is a bug of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    node: u32,
    turn: u32,
}

/// Why a request is dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The minimum of its flow is due (the constraint phase).
    Minimum,
    /// It is its flow's turn (the weight phase).
    Weight,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Free,
    Waits,
    Below,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) client: u32,
    pub(crate) bytes: u64,
    /// Below the scheduler: what was charged for it, by the unit of that time.
    pub(crate) cost: u64,
    pub(crate) cookie: u64,
    pub(crate) place: Place,
    /// Time of submission; below the scheduler: time of dispatch.
    pub(crate) since: u64,
    pub(crate) phase: Phase,
    turn: u32,
    next: u32,
    before: u32,
}

/// All requests.
#[derive(Default)]
pub(crate) struct Requests {
    nodes: Vec<Request>,
    free: Vec<u32>,
}

/// The waiting requests of one client, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { first: NONE, last: NONE }
    }
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

impl Requests {
    /// Appends a new request to a queue.
    pub(crate) fn push(
        &mut self,
        queue: &mut Queue,
        (client, bytes, cookie): (u32, u64, u64),
        now: u64,
    ) -> RequestId {
        let node = self.free.pop().unwrap_or(self.nodes.len() as u32);
        let turn = self.nodes.get(node as usize).map_or(0, |r| r.turn);
        let request = Request {
            client,
            bytes,
            cost: 0,
            cookie,
            place: Place::Waits,
            since: now,
            phase: Phase::Weight,
            turn,
            next: NONE,
            before: queue.last,
        };
        match self.nodes.get_mut(node as usize) {
            Some(free) => *free = request,
            None => self.nodes.push(request),
        }
        match queue.last {
            NONE => queue.first = node,
            last => self.nodes[last as usize].next = node,
        }
        queue.last = node;
        RequestId { node, turn }
    }

    /// The request; it must not have ended.
    pub(crate) fn get(&mut self, id: RequestId) -> &mut Request {
        let request = &mut self.nodes[id.node as usize];
        assert!(request.turn == id.turn && request.place != Place::Free, "a request is used after its end");
        request
    }

    /// The oldest request of a queue.
    pub(crate) fn first(&self, queue: &Queue) -> Option<(RequestId, &Request)> {
        let request = self.nodes.get(queue.first as usize)?;
        Some((RequestId { node: queue.first, turn: request.turn }, request))
    }

    /// Removes a request from its queue.
    pub(crate) fn unlink(&mut self, queue: &mut Queue, id: RequestId) {
        let Request { next, before, .. } = *self.get(id);
        match before {
            NONE => queue.first = next,
            before => self.nodes[before as usize].next = next,
        }
        match next {
            NONE => queue.last = before,
            next => self.nodes[next as usize].before = before,
        }
    }

    /// Ends a request; its node is reused.
    pub(crate) fn end(&mut self, id: RequestId) -> Request {
        let request = self.get(id);
        let ended = *request;
        request.place = Place::Free;
        request.turn = request.turn.wrapping_add(1);
        self.free.push(id.node);
        ended
    }
}
