//! A request to a drive, and the counters of a drive.

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Makes blocks zero; no data crosses the bus.
    Zero,
    /// Makes every write that was acknowledged durable.
    Flush,
    /// Probes the drive.
    Probe,
}

/// A request to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it.
    pub token: u64,
    /// What it does.
    pub kind: Kind,
    /// The first block.
    pub block: u64,
    /// How many.
    pub blocks: u64,
}

impl Request {
    pub(super) fn is_read(&self) -> bool {
        self.kind == Kind::Read
    }

    pub(super) fn end(&self) -> u64 {
        self.block + self.blocks
    }
}

/// A request is done at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Completion {
    /// Its name.
    pub token: u64,
    pub at_ns: u64,
}

/// The counters of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Busy time of the mechanism, or of the flash units on average. Read-ahead does not count, because it
    /// delays no request.
    pub busy_ns: u64,
    /// Requests served by the mechanism or a unit.
    pub served: u64,
    /// Reads served by the cache on the drive, and writes that it took.
    pub hits: u64,
    /// Cylinders crossed for requests.
    pub cylinders: u64,
    /// How long requests were in the drive, added up: of so many nanoseconds, this many were in it on
    /// average. Kept by the disk that the drive is in.
    pub held_ns: u64,
}
