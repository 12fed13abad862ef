//! The seam to the storage below a cache.

use crate::device::Device;

/// A device below a cache: a handle, cheap to clone.
pub trait BackingStore: Device + Clone + 'static {
    /// Whether a write of the range needs no allocation, which could fail. Other writes bypass the cache, so
    /// that the host gets the store's result.
    fn takes_in_place(&self, at: u64, len: u64) -> bool;

    /// Bytes of a full row of the groups below: destage aligns to it where possible.
    fn row_bytes(&self) -> u64;

    /// Data drives of a row; 1 without parity, where a partial row costs nothing extra.
    fn row_drives(&self) -> u32;
}
