//! The bytes of a command, behind a header.

use block::Pieces;
use world::Data;

/// Bytes of a payload in one buffer: one step of the data path.
const PIECE_BYTES: usize = 1 << 20;
const _: () = assert!(PIECE_BYTES <= world::BUF_LEN_MAX);

/// A message and its payload.
pub(super) type Loaded<T> = (T, Pieces);

/// A payload in buffers of this thread.
pub(super) fn pieces(payload: &[u8]) -> Pieces {
    let mut pieces = Pieces::new();
    payload.chunks(PIECE_BYTES).for_each(|part| pieces.push(Data::copy_of(part)));
    pieces
}
