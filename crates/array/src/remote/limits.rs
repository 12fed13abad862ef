//! What both sides must agree on.

/// The version of the protocol: both sides must have the same.
pub const PROTOCOL: u32 = 4;

/// The longest frame without its length field. The longest transfer of a command is 32 MiB; the status of
/// ten thousand volumes, with their latency histograms, is the longest header.
pub const FRAME_MAX: usize = 128 << 20;
