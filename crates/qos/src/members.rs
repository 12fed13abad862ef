//! Clients: who asks. The clients of one flow take turns.

use crate::queue::Queue;

/// No client.
const NONE: u32 = u32::MAX;
/// What a client gets in a turn: as much as the longest request that hosts usually make.
const TURN_BYTES: i64 = 1 << 20;
/// A longer request is not held against a client: whole turns would be spent on counting it down.
const DEBT_BYTES_MAX: i64 = 64 << 20;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u32);

/// What was done for a client since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Requests served because a minimum was due.
    pub minimum_requests: u64,
    /// Requests served by weight.
    pub weight_requests: u64,
    /// What they were charged, in bytes.
    pub charged_bytes: u64,
    /// What they were.
    pub bytes: u64,
    /// How long all of them waited here.
    pub waited_ns: u64,
    /// Requests that waited at all.
    pub waited_requests: u64,
}

/// A client.
#[derive(Default)]
pub(crate) struct Client {
    pub(crate) in_use: bool,
    pub(crate) flow: u32,
    pub(crate) queue: Queue,
    pub(crate) waiting: u32,
    pub(crate) below: u32,
    pub(crate) counts: ClientCounts,
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

/// The clients of a flow that have requests waiting, in the order of their turns.
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
    /// A client joins at the end.
    pub(crate) fn push(&mut self, clients: &mut [Client], number: u32) {
        (clients[number as usize].next, clients[number as usize].before) = (NONE, self.last);
        match self.last {
            NONE => self.first = number,
            last => clients[last as usize].next = number,
        }
        self.last = number;
    }

    /// A client leaves.
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

    /// Whose turn it is. Somebody is in it.
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

    /// The client whose turn it is was served; it has more requests.
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
