//! What a logical unit needs of its storage: blocks, and the offloads that make sense of thin pages.

use block::{BlockError, Geometry, Pieces};

use crate::command::CommandContext;

/// What is mapped at an address, and how far that state goes (GET LBA STATUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the asked address on that share the state; never 0 within the disk.
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

/// The space below a disk: one answer for log pages, VPD pages and the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this disk occupies alone or shares.
    pub used_bytes: u64,
    /// Bytes that are free in the pool.
    pub pool_free_bytes: u64,
    /// Size of the pool.
    pub pool_bytes: u64,
    /// The pool's soft threshold: used share in percent at which a warning is raised.
    pub soft_threshold_percent: u8,
}

/// What a disk can do: the same for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The unit in which space is taken and given back, in bytes; `None` for a fully provisioned (thick) disk.
    pub page_bytes: Option<u64>,
    /// Whether a write may be lost that no `flush` followed, for the sake of speed, unless a host says otherwise: WCE of the caching
    /// mode page after power on. `false` where flushes are cheap.
    pub volatile_cache: bool,
    /// Whether records and frozen ranges are kept. Where not, [`LogicalDisk::save_record`], [`LogicalDisk::take_rod`] and
    /// [`LogicalDisk::copy_from_rod`] are errors, nothing is loaded, and commands that need them are not offered.
    pub keeps_records: bool,
    /// Whether releasing, zeroing and copying whole pages is work on metadata. Where not, these are reads and writes.
    pub offloads: bool,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When every later read sees it.
    Volatile,
    /// When it also survives a loss of power (FUA; WCE = 0).
    Durable,
}

/// The storage of one logical unit: a handle, cheap to clone. Addresses and lengths are in bytes.
///
/// Contract:
///
/// * The caller asks for whole blocks within the geometry; the disk answers anything else with an error, and may do so late.
/// * A completed write is seen by every later read, and is durable after a `flush` that began after it.
/// * Overlapping operations in flight have no order: the logical unit locks ranges where a command needs one.
/// * An operation that waits for its turn ends with an error when its command is aborted. One that has begun goes on: what it changes is
///   undefined within its range until it has ended.
///
/// No method has a default: a disk that stands on another one decides about each.
pub trait LogicalDisk: Clone + 'static {
    /// Point-in-time data behind an ODX token: it keeps what it refers to until it is dropped.
    type Rod: 'static;

    /// Size and logical block length; may have grown since the last call.
    fn geometry(&self) -> Geometry;
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
    /// Used and free space.
    fn space(&self) -> Space;
    /// What is mapped at byte `at`.
    fn extent(&self, at: u64) -> Extent;

    /// Reads `len` bytes at `at`, appended to `out`.
    fn read(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> impl Future<Output = Result<(), BlockError>>;
    /// Writes `data` at `at`.
    fn write(
        &self,
        command: CommandContext<'_>,
        at: u64,
        data: &Pieces,
        durability: Durability,
    ) -> impl Future<Output = Result<(), BlockError>>;
    /// Makes a range read as zeros. On a thin disk whole pages are released, which costs no drive I/O.
    fn zero(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<(), BlockError>>;
    /// Gives back the space of every whole page in the range; every byte of the range reads as zero afterwards. Returns
    /// the bytes reclaimed.
    fn unmap(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<u64, BlockError>>;
    /// Makes everything that completed before this call durable. It takes nobody's turn: others wait for it, too.
    fn flush(&self) -> impl Future<Output = Result<(), BlockError>>;
    /// Makes what completed of a range before this call durable.
    fn sync(&self, at: u64, len: u64) -> impl Future<Output = Result<(), BlockError>>;
    /// Copies `len` bytes from `source` at `from` to `at`: by sharing pages where both lie in one pool and the
    /// addresses agree modulo the page, by moving bytes elsewhere.
    fn copy_from(
        &self,
        command: CommandContext<'_>,
        source: &Self,
        from: u64,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<Copied, BlockError>>;
    /// Freezes a range: later writes to the disk do not change what the ROD holds.
    fn take_rod(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<Self::Rod, BlockError>>;
    /// Copies `len` bytes from offset `from` of a ROD to `at`.
    fn copy_from_rod(
        &self,
        command: CommandContext<'_>,
        rod: &Self::Rod,
        from: u64,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<Copied, BlockError>>;
    /// Stores a small record durably with the disk (persistent reservations over a power loss); at most 64 KiB.
    fn save_record(&self, name: &str, bytes: &[u8]) -> impl Future<Output = Result<(), BlockError>>;
    /// The record of that name, as it was last saved.
    fn load_record(&self, name: &str) -> Option<Vec<u8>>;
}
