//! Copies with an end at another controller: the bytes pass through memory, some pieces in flight.

use block::Pieces;

use super::pieces::Pieced;
use crate::error::CommandError;
use crate::host_view::{CopyAnswer, CopyRequest, Owner};
use crate::sense::Asc;
use crate::turns::Turns;

/// A piece is in memory between its read and its write. While some are written, others are read.
const PIECES: Pieced = Pieced { bytes_max: 1 << 20, in_flight: 4 };
const _: () = assert!(PIECES.bytes_max <= world::BUF_LEN_MAX as u64);

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

/// Moves `len` bytes. `read` gets the offset and the length of a piece, `write` its offset and data, `done`
/// its length. `go_on` is called before every read and every write.
pub(crate) async fn move_across(
    len: u64,
    turns: &Turns,
    read: impl AsyncFn(u64, u64) -> Result<Pieces, CommandError>,
    write: impl AsyncFn(u64, Pieces) -> Result<(), CommandError>,
    go_on: impl Fn() -> Result<(), CommandError>,
    done: impl Fn(u64),
) -> Result<(), CommandError> {
    let piece = async |offset, piece_len| {
        go_on()?;
        let data = read(offset, piece_len).await?;
        go_on()?;
        write(offset, data).await
    };
    PIECES.run(len, turns, piece, done).await
}
