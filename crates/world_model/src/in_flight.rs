//! Operations in flight on a disk.

use world::io::Completer;
use world::{Buf, DriveError, FenceError, Filled};

use crate::drives::Kind;
use crate::store::{Content, Doubtful};

/// One operation, and who is told when it has ended.
pub(crate) enum Op {
    Read {
        at: u64,
        buf: Buf,
        done: Completer<Filled>,
    },
    Write {
        at: u64,
        content: Content,
        done: Completer<Result<(), DriveError>>,
    },
    Flush {
        before: u64,
        done: Completer<Result<(), DriveError>>,
    },
    Probe {
        done: Completer<Result<(), DriveError>>,
    },
    /// Takes the disk from whoever has it; see [`crate::machine`].
    Fence {
        done: Completer<Result<Option<String>, FenceError>>,
    },
}

impl Op {
    /// What it asks of the drive: kind, address and length in bytes.
    pub(crate) fn request(&self) -> (Kind, u64, u64) {
        match self {
            Op::Read { at, buf, .. } => (Kind::Read, *at, buf.len() as u64),
            Op::Write { at, content: Content::Bytes(data), .. } => (Kind::Write, *at, data.len() as u64),
            Op::Write { at, content: Content::Zeros(len), .. } => (Kind::Zero, *at, *len),
            Op::Flush { .. } => (Kind::Flush, 0, 0),
            Op::Probe { .. } | Op::Fence { .. } => (Kind::Probe, 0, 0),
        }
    }
}

/// Who has opened a disk: counted from 1; 0: the one process of the run, which cannot be fenced.
pub(crate) type Client = u32;

/// The operations in flight on one disk; an operation's place is its token.
#[derive(Default)]
pub(crate) struct InFlight {
    list: Vec<Option<(Client, Op)>>,
    free: Vec<u64>,
    /// Operations that were due while the disk was hung.
    parked: Vec<u64>,
}

impl InFlight {
    pub(crate) fn insert(&mut self, client: Client, op: Op) -> u64 {
        match self.free.pop() {
            Some(token) => {
                self.list[token as usize] = Some((client, op));
                token
            }
            None => {
                self.list.push(Some((client, op)));
                self.list.len() as u64 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<(Client, Op)> {
        let op = self.list.get_mut(token as usize)?.take()?;
        self.free.push(token);
        Some(op)
    }

    /// Its time has come, and the disk is hung.
    pub(crate) fn park(&mut self, token: u64) {
        self.parked.push(token);
    }

    pub(crate) fn take_parked(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.parked)
    }

    /// The writes that are under way.
    pub(crate) fn writes(&self) -> Vec<Doubtful> {
        let writes = self.list.iter().flatten().filter_map(|(_, op)| match op {
            Op::Write { at, content, .. } => Some(Doubtful { at: *at, content: content.clone() }),
            Op::Read { .. } | Op::Flush { .. } | Op::Probe { .. } | Op::Fence { .. } => None,
        });
        writes.collect()
    }

    /// Drops the waiters; returns the writes in progress.
    pub(crate) fn abandon(&mut self) -> Vec<Doubtful> {
        std::mem::take(self).writes()
    }
}
