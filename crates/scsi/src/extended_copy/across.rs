//! Copies with an end at another controller: the bytes pass through memory, some pieces in flight.

use std::cell::{Cell, RefCell};

use block::Pieces;
use futures::future::join_all;

use crate::error::CommandError;
use crate::host_view::{CopyAnswer, CopyRequest, Owner};
use crate::sense::Asc;

/// A piece is in memory between its read and its write.
const PIECE_BYTES: u64 = 1 << 20;
/// Pieces in flight: while some are written, others are read.
const PIECES_MAX: usize = 4;
const _: () = assert!(PIECE_BYTES <= world::BUF_LEN_MAX as u64);

/// 08h/00h LOGICAL UNIT COMMUNICATION FAILURE: the owner has stopped.
const COMMUNICATION_FAILURE: Asc = Asc(0x0800);

/// Has the owner of an end do its part.
pub(crate) async fn ask(owner: &dyn Owner, request: CopyRequest) -> Result<Pieces, CommandError> {
    match owner.copy(request).await {
        Some(CopyAnswer::Done(data)) => Ok(data),
        Some(CopyAnswer::Refused(asc)) => Err(CommandError::CopyAborted { asc, segment: 0 }),
        Some(CopyAnswer::End(_) | CopyAnswer::Token(_)) | None => {
            Err(CommandError::CopyAborted { asc: COMMUNICATION_FAILURE, segment: 0 })
        }
    }
}

/// Moves `len` bytes. `read` gets the offset and the length of a piece, `write` its offset and data, `done` its
/// length. `go_on` is called before every read and every write. After a failure no piece begins, and those in
/// flight end.
pub(crate) async fn move_across(
    len: u64,
    read: impl AsyncFn(u64, u64) -> Result<Pieces, CommandError>,
    write: impl AsyncFn(u64, Pieces) -> Result<(), CommandError>,
    go_on: impl Fn() -> Result<(), CommandError>,
    done: impl Fn(u64),
) -> Result<(), CommandError> {
    let (next, failed) = (Cell::new(0), RefCell::new(None));
    let piece = async |offset: u64, piece_len: u64| {
        go_on()?;
        let data = read(offset, piece_len).await?;
        go_on()?;
        write(offset, data).await
    };
    let worker = async || {
        while next.get() < len && failed.borrow().is_none() {
            let offset = next.get();
            let piece_len = PIECE_BYTES.min(len - offset);
            next.set(offset + piece_len);
            match piece(offset, piece_len).await {
                Ok(()) => done(piece_len),
                Err(error) => _ = failed.borrow_mut().get_or_insert(error),
            }
        }
    };
    join_all((0..PIECES_MAX).map(|_| worker())).await;
    failed.into_inner().map_or(Ok(()), Err)
}
