//! The requirements of a logical unit on its storage: blocks, and the offloads that use thin pages.

use block::{BlockError, Geometry, Pieces};

use crate::command::CommandContext;

/// Whether a range is mapped, and its length (GET LBA STATUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the given address on in the same state; never 0 within the disk. A disk may end it early,
    /// so that an answer takes no longer than an I/O.
    pub len_bytes: u64,
    /// Whether they are mapped; unmapped blocks read as zeros.
    pub mapped: bool,
}

/// The result of a copy inside the array (proof of offload).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that are now shared pages, without a data transfer.
    pub shared_bytes: u64,
    /// Bytes read and written inside the array.
    pub moved_bytes: u64,
}

/// The space of a disk and its pool: the same values for log pages, VPD pages and the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Space {
    /// Bytes of pages that this disk uses, exclusive or shared.
    pub used_bytes: u64,
    pub pool_free_bytes: u64,
    /// Size of the pool.
    pub pool_bytes: u64,
    /// The pool's soft threshold: used share in percent at which a warning is raised.
    pub soft_threshold_percent: u8,
}

/// The capabilities of a disk; constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The granularity of allocation and release, in bytes; `None` for a fully provisioned (thick) disk.
    pub page_bytes: Option<u64>,
    /// Whether a write without a `flush` may be volatile by default: WCE of the caching mode page after power
    /// on. `false` if flushes are cheap.
    pub volatile_cache: bool,
    /// Whether records and ROD are supported. If not, [`LogicalDisk::save_record`],
    /// [`LogicalDisk::take_rod`], [`LogicalDisk::read_rod`] and [`LogicalDisk::copy_from_rod`] return errors,
    /// nothing is loaded, and commands that need them are not offered.
    pub keeps_records: bool,
    /// Whether releasing, zeroing and copying whole pages are metadata operations; otherwise they read and
    /// write.
    pub offloads: bool,
}

/// When a write is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When every later read sees it.
    Volatile,
    /// When it also survives a power failure (FUA; WCE = 0).
    Durable,
}

/// The storage of one logical unit: a handle, cheap to clone. Addresses and lengths are in bytes.
///
/// Contract:
///
/// * The caller uses whole blocks within the geometry; anything else is an error, which the disk may report
///   late.
/// * Every later read sees a completed write; it is durable after a `flush` that began when it had completed.
/// * Overlapping operations in flight have no order: the logical unit locks ranges where a command needs one.
/// * An operation that waits for its turn ends with an error when its command is aborted. One that has begun
///   continues: the content of its range is undefined until it has ended.
///
/// No method has a default: a disk on top of another one decides about each.
pub trait LogicalDisk: Clone + 'static {
    /// The point-in-time copy behind an ODX token; it holds its pages until it is dropped.
    type Rod: 'static;

    /// Size and logical block length; may have grown since the last call.
    fn geometry(&self) -> Geometry;
    /// What it supports; constant.
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
    /// Makes a range read as zeros. On a thin disk whole pages are released without drive I/O.
    fn zero(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<(), BlockError>>;
    /// Releases every whole page in the range; every byte of the range reads as zero afterwards. Returns the
    /// released bytes.
    fn unmap(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<u64, BlockError>>;
    /// Makes everything that completed before this call durable. It takes no turn at the scheduler, because
    /// others wait for it, too.
    fn flush(&self) -> impl Future<Output = Result<(), BlockError>>;
    /// Makes the completed writes of a range durable.
    fn sync(&self, at: u64, len: u64) -> impl Future<Output = Result<(), BlockError>>;
    /// Copies `len` bytes from `source` at `from` to `at`: by sharing pages if both are in one pool and the
    /// addresses agree modulo the page, otherwise by copying bytes.
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
    /// Reads `len` bytes from offset `from` of a ROD, appended to `out`.
    fn read_rod(
        &self,
        command: CommandContext<'_>,
        rod: &Self::Rod,
        from: u64,
        len: usize,
        out: &mut Pieces,
    ) -> impl Future<Output = Result<(), BlockError>>;
    /// Copies `len` bytes from offset `from` of a ROD to `at`.
    fn copy_from_rod(
        &self,
        command: CommandContext<'_>,
        rod: &Self::Rod,
        from: u64,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<Copied, BlockError>>;
    /// Whether a ROD still has its content: one that holds space gives way to writes.
    fn has_rod(&self, rod: &Self::Rod) -> bool;
    /// A command begins to use a ROD, which gives way to no write until the command ends; or one ends.
    fn keep_rod(rod: &Self::Rod, keep: bool);
    /// Stores a small record durably with the disk (persistent reservations over a power loss); at most 64
    /// KiB.
    fn save_record(&self, name: &str, bytes: &[u8]) -> impl Future<Output = Result<(), BlockError>>;
    /// The record of that name, as last saved.
    fn load_record(&self, name: &str) -> Option<Vec<u8>>;
}
