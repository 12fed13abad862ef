//! What tokens are bounded by; VPD page 8Fh tells the hosts.

/// Range descriptors in one list.
pub(crate) const RANGES_MAX: usize = 64;
/// Bytes that one token stands for: more than hosts ask for at once.
pub(crate) const TOKEN_BYTES_MAX: u64 = 4 << 30;
/// What a host had best ask for: 256 MiB move between two pools within the four seconds that hosts take a copy command to need at most,
/// at 64 MiB/s; within a pool it is metadata.
pub(crate) const TOKEN_BYTES_OPTIMAL: u64 = 256 << 20;
const _: () = assert!(TOKEN_BYTES_OPTIMAL <= TOKEN_BYTES_MAX);
/// How long a token lives unused when the host does not say, in seconds.
pub(crate) const INACTIVITY_S_DEFAULT: u32 = 60;
/// How long it lives unused at most. A token keeps the pages that it stands for.
pub(crate) const INACTIVITY_S_MAX: u32 = 600;
/// Tokens of one controller. A host that copies with 1 GiB/s in steps of 256 MiB and never deletes a token has 240 alive.
pub(super) const TOKENS_MAX: usize = 1024;
/// Tokens of one host: its oldest makes room for its next, so that it cannot push out those of others.
pub(super) const TOKENS_PER_HOST_MAX: usize = 256;
/// Bytes of one step of a copy from a token; see the limit of EXTENDED COPY.
pub(super) const PIECE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of one step of zeroing, which is metadata.
pub(super) const ZERO_PIECE_BYTES_MAX: u64 = 1 << 30;
