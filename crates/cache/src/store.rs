//! What a unit caches.

use block::Device;

/// A device below a cache: a handle, cheap to clone.
pub trait Store: Device + Clone + 'static {
    /// Whether a write of the range needs nothing but the drives' time: no page to be taken that may be lacking. What this
    /// is not true of is written at once, so that the answer to the host is the store's.
    fn takes_in_place(&self, at: u64, len: u64) -> bool;

    /// Bytes of a full row of the groups below: destages keep to it where they can.
    fn row_bytes(&self) -> u64;

    /// Data drives of such a row; 1 where there is no parity, and writing part of a row costs nothing besides.
    fn row_drives(&self) -> u32;
}
