//! A segment with an end at another controller: read at one owner, written at the other, some pieces in
//! flight.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::Pieces;
use futures::future::join_all;
use lu::{CommandContext, LogicalDisk};

use super::copy::{read_piece, write_piece};
use crate::error::CommandError;
use crate::host_view::{CopyAnswer, CopyEnd, CopyRequest, Owner};
use crate::sense::Asc;
use crate::view::Seat;

/// A piece is in memory between its read and its write.
const PIECE_BYTES: u64 = 1 << 20;
/// Pieces in flight: while some are written, others are read.
const PIECES_MAX: usize = 4;
const _: () = assert!(PIECE_BYTES <= world::BUF_LEN_MAX as u64);

/// 08h/00h LOGICAL UNIT COMMUNICATION FAILURE: the owner has stopped.
const COMMUNICATION_FAILURE: Asc = Asc(0x0800);

/// One end of a segment.
pub(super) enum End<D: LogicalDisk> {
    Here(Rc<Seat<D>>),
    There(Rc<dyn Owner>, CopyEnd),
}

impl<D: LogicalDisk> End<D> {
    pub(super) fn block_bytes(&self) -> u32 {
        match self {
            End::Here(seat) => seat.lu.block_bytes(),
            End::There(_, end) => end.block_bytes,
        }
    }

    pub(super) fn len_bytes(&self) -> u64 {
        match self {
            End::Here(seat) => seat.lu.blocks() * u64::from(seat.lu.block_bytes()),
            End::There(_, end) => end.len_bytes,
        }
    }

    async fn read(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<Pieces, CommandError> {
        match self {
            End::Here(seat) => read_piece(&seat.lu, command, (at, len), || Ok(())).await,
            End::There(owner, end) => ask(owner, CopyRequest::Read { lun: end.lun, at, len }).await,
        }
    }

    async fn write(&self, command: CommandContext<'_>, at: u64, data: Pieces) -> Result<(), CommandError> {
        match self {
            End::Here(seat) => write_piece(&seat.lu, command, (at, &data), || Ok(())).await,
            End::There(owner, end) => {
                ask(owner, CopyRequest::Write { lun: end.lun, at, data }).await.map(drop)
            }
        }
    }
}

async fn ask(owner: &Rc<dyn Owner>, request: CopyRequest) -> Result<Pieces, CommandError> {
    match owner.copy(request).await {
        Some(CopyAnswer::Done(data)) => Ok(data),
        Some(CopyAnswer::Refused(asc)) => Err(CommandError::CopyAborted { asc, segment: 0 }),
        Some(CopyAnswer::End(_)) | None => {
            Err(CommandError::CopyAborted { asc: COMMUNICATION_FAILURE, segment: 0 })
        }
    }
}

/// A range to copy, in bytes, within both ends.
pub(super) struct Across<'a, D: LogicalDisk> {
    pub(super) command: CommandContext<'a>,
    pub(super) source: &'a End<D>,
    pub(super) from: u64,
    pub(super) destination: &'a End<D>,
    pub(super) at: u64,
    pub(super) len: u64,
}

impl<D: LogicalDisk> Across<'_, D> {
    /// Copies the range. `go_on` is called before every piece, `done` gets the bytes of every piece. After a
    /// failure no piece begins, and those in flight end.
    pub(super) async fn run(
        &self,
        go_on: impl Fn() -> Result<(), CommandError>,
        done: impl Fn(u64),
    ) -> Result<(), CommandError> {
        let (next, failed) = (Cell::new(0), RefCell::new(None));
        let worker = async || {
            while next.get() < self.len && failed.borrow().is_none() {
                let offset = next.get();
                let len = PIECE_BYTES.min(self.len - offset);
                next.set(offset + len);
                match self.piece(offset, len, &go_on).await {
                    Ok(()) => done(len),
                    Err(error) => _ = failed.borrow_mut().get_or_insert(error),
                }
            }
        };
        join_all((0..PIECES_MAX).map(|_| worker())).await;
        failed.into_inner().map_or(Ok(()), Err)
    }

    async fn piece(
        &self,
        offset: u64,
        len: u64,
        go_on: &impl Fn() -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        go_on()?;
        let data = self.source.read(self.command, self.from + offset, len).await?;
        go_on()?;
        self.destination.write(self.command, self.at + offset, data).await
    }
}
