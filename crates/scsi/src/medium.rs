//! What a logical unit needs from the array below it: blocks, and the offloads that make sense of thin pages.

use block::{BlockError, Geometry, Pieces};

/// What is mapped at an address, and how far that state goes (GET LBA STATUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the asked address on that share the state; never 0 within the medium.
    pub len_bytes: u64,
    /// Whether the blocks occupy space; otherwise they read as zeros.
    pub mapped: bool,
}

/// How a copy inside the array was done (proof of offload).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that are now shared pages: no payload moved.
    pub shared_bytes: u64,
    /// Bytes read and written inside the array.
    pub moved_bytes: u64,
}

/// The space below a medium: one answer for log pages, VPD pages and the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this medium occupies alone or shares.
    pub used_bytes: u64,
    /// Bytes that are free in the pool.
    pub pool_free_bytes: u64,
    /// Size of the pool.
    pub pool_bytes: u64,
    /// The pool's soft threshold: used share in percent at which a warning is raised.
    pub soft_threshold_percent: u8,
}

/// The storage of one logical unit: a handle, cheap to clone. Addresses and lengths in bytes, whole blocks, checked
/// against the geometry by the caller.
///
/// A completed write is seen by every later read and durable after a `flush` that began after it. Overlapping
/// operations in flight have no order: the logical unit locks ranges where a command needs one.
pub trait Medium: Clone + 'static {
    /// Point-in-time data behind an ODX token: it keeps what it refers to until it is dropped.
    type Rod: 'static;

    /// Size and logical block length; may have grown since the last call.
    fn geometry(&self) -> Geometry;
    /// The unit in which space is taken and given back, in bytes; `None` for a fully provisioned (thick) medium.
    fn page_bytes(&self) -> Option<u64>;
    /// Used and free space.
    fn space(&self) -> Space;
    /// What is mapped at byte `at`.
    fn extent(&self, at: u64) -> Extent;

    /// Reads `len` bytes at `at`, appended to `out`.
    fn read(&self, at: u64, len: usize, out: &mut Pieces) -> impl Future<Output = Result<(), BlockError>>;
    /// Writes `data` at `at`.
    fn write(&self, at: u64, data: &Pieces) -> impl Future<Output = Result<(), BlockError>>;
    /// Makes a range read as zeros. On a thin medium whole pages are released, which costs no drive I/O.
    fn zero(&self, at: u64, len: u64) -> impl Future<Output = Result<(), BlockError>>;
    /// Gives back the space of every whole page in the range; every byte of the range reads as zero afterwards. Returns
    /// the bytes reclaimed.
    fn unmap(&self, at: u64, len: u64) -> impl Future<Output = Result<u64, BlockError>>;
    /// Makes everything that completed before this call durable.
    fn flush(&self) -> impl Future<Output = Result<(), BlockError>>;
    /// Makes what completed of a range before this call durable: what FUA asks for.
    fn sync(&self, _at: u64, _len: u64) -> impl Future<Output = Result<(), BlockError>> {
        self.flush()
    }
    /// Whether a write that is not followed by a `flush` may be lost for the sake of speed, unless a host says otherwise: WCE of the
    /// caching mode page after power on. `false` where flushes are cheap.
    fn volatile_cache(&self) -> bool {
        true
    }
    /// Copies `len` bytes from `source` at `from` to `at`: by sharing pages where both lie in one pool and the
    /// addresses agree modulo the page, by moving bytes elsewhere.
    fn copy_from(
        &self,
        source: &Self,
        from: u64,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<Copied, BlockError>>;
    /// Freezes a range: later writes to the medium do not change what the ROD holds.
    fn take_rod(&self, at: u64, len: u64) -> impl Future<Output = Result<Self::Rod, BlockError>>;
    /// Copies `len` bytes from offset `from` of a ROD to `at`.
    fn copy_from_rod(
        &self,
        rod: &Self::Rod,
        from: u64,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<Copied, BlockError>>;
    /// Commands were aborted: operations that wait to begin are to be polled again, each with [`Medium::polled_for`] said before.
    fn look_again(&self) {}
    /// What is polled from now on is part of a command that was aborted, or no more: an operation of it that has not begun ends with an
    /// error instead.
    fn polled_for(&self, _aborted: bool) {}
    /// Whether records and frozen ranges are kept. Where not, [`Medium::save_record`], [`Medium::take_rod`] and
    /// [`Medium::copy_from_rod`] are errors, nothing is loaded, and the commands that need them are not there.
    fn keeps_records(&self) -> bool;
    /// Stores a small record durably with the medium (persistent reservations over a power loss); at most 64 KiB.
    fn save_record(&self, name: &str, bytes: &[u8]) -> impl Future<Output = Result<(), BlockError>>;
    /// The record of that name, as it was last saved.
    fn load_record(&self, name: &str) -> Option<Vec<u8>>;
}
