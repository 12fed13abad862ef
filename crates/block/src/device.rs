//! The trait of everything that stores blocks.

use world::Trace;

use crate::{BlockError, Pieces};

/// The immutable properties of a device. (A volume that grows has a new geometry; ask again after growing.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size in bytes.
    pub len_bytes: u64,
    /// Addresses and lengths are multiples of this.
    pub block_bytes: u32,
}

impl Geometry {
    /// # Errors
    /// [`BlockError::OutOfRange`] unless `at..at + len` is within the device.
    pub fn check(&self, at: u64, len: u64) -> Result<(), BlockError> {
        match at.checked_add(len) {
            Some(end) if end <= self.len_bytes => Ok(()),
            _ => Err(BlockError::OutOfRange { at, len, end: self.len_bytes }),
        }
    }
}

/// A block device of the data path: a RAID group, a volume.
///
/// Addresses are bytes. The caller uses whole blocks (asserted); a range past the end is an error. Concurrent
/// operations on overlapping ranges have no order: whoever needs one (COMPARE AND WRITE) locks ranges above.
/// Every later read sees a completed write; the write is durable after a `flush` that began when it had
/// completed. A failed operation may have written part of its range.
pub trait Device {
    /// Size and block size.
    fn geometry(&self) -> Geometry;

    /// Reads `len` bytes at `at` and appends them to `out` (whose content is unspecified after an error).
    fn read(&self, at: u64, len: usize, out: &mut Pieces) -> impl Future<Output = Result<(), BlockError>>;

    /// Writes `data` at `at`.
    fn write(&self, at: u64, data: &Pieces) -> impl Future<Output = Result<(), BlockError>>;

    /// The same read, as part of a command whose stages are recorded. A device without stages records none.
    fn read_traced(
        &self,
        _: Option<&Trace>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> impl Future<Output = Result<(), BlockError>> {
        self.read(at, len, out)
    }

    /// The same write, as part of a command whose stages are recorded.
    fn write_traced(
        &self,
        _: Option<&Trace>,
        at: u64,
        data: &Pieces,
    ) -> impl Future<Output = Result<(), BlockError>> {
        self.write(at, data)
    }

    /// Makes `len` bytes at `at` read as zeros, and releases space where possible.
    fn zero(&self, at: u64, len: u64) -> impl Future<Output = Result<(), BlockError>>;

    /// Makes everything that completed before this call durable.
    fn flush(&self) -> impl Future<Output = Result<(), BlockError>>;

    /// How many mirrors each block has that can be read one by one.
    fn mirrors(&self) -> usize {
        1
    }

    /// Reads from one mirror alone; `None` if that cannot be read. For structures with checksums of their
    /// own, which tell which mirror is right.
    fn read_mirror(&self, _mirror: usize, _at: u64, _len: usize) -> impl Future<Output = Option<Pieces>> {
        std::future::ready(None)
    }
}
