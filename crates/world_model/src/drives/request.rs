//! What is asked of a drive, and what it did.

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
    /// Asks whether the drive is there.
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
pub struct Completion {
    /// Its name.
    pub token: u64,
    /// When.
    pub at_ns: u64,
}

/// What a drive did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How long the mechanism, or the flash units on average, worked for requests. Reading ahead does not count: it hinders nobody.
    pub busy_ns: u64,
    /// Requests that the mechanism or a unit served.
    pub served: u64,
    /// Reads that the cache on the drive served, and writes that it took.
    pub hits: u64,
    /// Cylinders that the arm crossed for requests.
    pub cylinders: u64,
    /// How long requests were in the drive, added up: of so many nanoseconds, this many were in it on average. Kept by the disk that the
    /// drive is in.
    pub held_ns: u64,
}
