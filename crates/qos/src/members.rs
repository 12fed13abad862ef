//! Clients. The clients of one flow take turns.

use crate::queue::Queue;

/// No client.
const NONE: u32 = u32::MAX;
/// Work of a client per turn: the longest request that hosts usually send.
const TURN_BYTES: i64 = 1 << 20;
/// A longer request is not fully charged to the turns of a client: it would take whole turns to count down.
const DEBT_BYTES_MAX: i64 = 64 << 20;

/// A client: who sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u32);

/// Service of a client since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct ClientCounts {
    /// Requests served because a minimum was due.
    pub minimum_requests: u64,
    /// Requests served by weight.
    pub weight_requests: u64,
    pub charged_bytes: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// Total waiting time in the scheduler.
    pub waited_ns: u64,
    /// Requests that waited at all.
    pub waited_requests: u64,
}

/// Work: bytes, and what is charged for them, at least a unit for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) bytes: u64,
    pub(crate) cost: u64,
}

#[derive(Default)]
pub(crate) struct Client {
    pub(crate) in_use: bool,
    pub(crate) flow: u32,
    pub(crate) queue: Queue,
    pub(crate) waiting: u32,
    pub(crate) below: u32,
    pub(crate) work_below: Work,
    pub(crate) counts: ClientCounts,
    /// What it was charged when it was asked for last.
    pub(crate) told_bytes: u64,
    credit: i64,
    next: u32,
    before: u32,
}

impl Client {
    /// A new client of a flow.
    pub(crate) fn of(flow: u32) -> Client {
        Client { in_use: true, flow, ..Client::default() }
    }
}

/// The clients of a flow with waiting requests, in the order of their turns.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    first: u32,
    last: u32,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { first: NONE, last: NONE }
    }
}

impl Ring {
    /// Adds a client at the end.
    pub(crate) fn push(&mut self, clients: &mut [Client], number: u32) {
        (clients[number as usize].next, clients[number as usize].before) = (NONE, self.last);
        match self.last {
            NONE => self.first = number,
            last => clients[last as usize].next = number,
        }
        self.last = number;
    }

    /// Removes a client.
    pub(crate) fn remove(&mut self, clients: &mut [Client], number: u32) {
        let (next, before) = (clients[number as usize].next, clients[number as usize].before);
        match before {
            NONE => self.first = next,
            before => clients[before as usize].next = next,
        }
        match next {
            NONE => self.last = before,
            next => clients[next as usize].before = before,
        }
    }

    /// The client whose turn it is. There must be one.
    pub(crate) fn turn(&mut self, clients: &mut [Client]) -> u32 {
        if self.first == self.last {
            clients[self.first as usize].credit = 0;
            return self.first;
        }
        while clients[self.first as usize].credit < 0 {
            clients[self.first as usize].credit += TURN_BYTES;
            self.rotate(clients);
        }
        self.first
    }

    /// Records service of the client whose turn it is; it has more requests.
    pub(crate) fn served(&mut self, clients: &mut [Client], cost: u64) {
        let client = &mut clients[self.first as usize];
        client.credit = (client.credit - cost.min(i64::MAX as u64) as i64).max(-DEBT_BYTES_MAX);
        if client.credit < 0 {
            self.rotate(clients);
        }
    }

    fn rotate(&mut self, clients: &mut [Client]) {
        let first = self.first;
        self.remove(clients, first);
        self.push(clients, first);
    }
}
