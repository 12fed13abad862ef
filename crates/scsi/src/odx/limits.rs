//! The limits of tokens, as reported by VPD page 8Fh.

use crate::extended_copy::{PIECE_BYTES_MAX, PIECES_IN_FLIGHT, Pieced};
use crate::sense::Asc;

/// 0Dh/04h COPY TARGET DEVICE DATA UNDERRUN: the ranges are longer than the data of the token.
pub(super) const DATA_UNDERRUN: Asc = Asc(0x0D04);

/// Range descriptors in one list.
pub(crate) const RANGES_MAX: usize = 64;
/// Bytes represented by one token: more than hosts request at once.
pub(crate) const TOKEN_BYTES_MAX: u64 = 4 << 30;
/// The optimal request of a host: 256 MiB move between two pools at 64 MiB/s within the four seconds that
/// hosts expect at most; within a pool it is a metadata operation.
pub(crate) const TOKEN_BYTES_OPTIMAL: u64 = 256 << 20;
const _: () = assert!(TOKEN_BYTES_OPTIMAL <= TOKEN_BYTES_MAX);
/// Default inactivity time-out of a token, in seconds.
pub(crate) const INACTIVITY_S_DEFAULT: u32 = 60;
/// Longest inactivity time-out. A token holds the pages that it represents.
pub(crate) const INACTIVITY_S_MAX: u32 = 600;
/// Tokens of one controller. A host that copies 1 GiB/s in steps of 256 MiB and never deletes a token has 240
/// alive.
pub(super) const TOKENS_MAX: usize = 1024;
/// Tokens of one host: its oldest is deleted for its next one, so that it cannot displace those of others.
pub(super) const TOKENS_PER_HOST_MAX: usize = 256;
/// The steps of a copy from a token: as those of EXTENDED COPY.
pub(super) const PIECES: Pieced = Pieced { bytes_max: PIECE_BYTES_MAX, in_flight: PIECES_IN_FLIGHT };
/// The steps of zeroing, which is metadata.
pub(super) const ZERO_PIECES: Pieced = Pieced { bytes_max: 1 << 30, in_flight: 1 };
