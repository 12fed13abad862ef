//! Copies whose other end belongs to another controller of the array, or that begin with a token of another
//! one: what the owner does for them.
//!
//! The controller that executes EXTENDED COPY or WRITE USING TOKEN asks the owner for the bytes, or hands
//! them over; the bytes never leave the array. The owner does it in its own view of the same nexus, so a copy
//! reaches there, too, only what is mapped to the host, and has no more rights than the host. Unit attentions
//! stay for the host.

use std::rc::Rc;

use block::Pieces;
use lu::LogicalDisk;

use crate::arrival::Arrival;
use crate::error::CommandError;
use crate::extended_copy::{COPY_TARGET_NOT_REACHABLE, aborted, check_access, read_piece, write_piece};
use crate::host_view::{CopyAnswer, CopyEnd, CopyRequest};
use crate::odx::Token;
use crate::opcode::Access;
use crate::sense::{Asc, failure_of};
use crate::view::{Seat, View};

impl<D: LogicalDisk> View<D> {
    /// Serves a copy that another controller executes for this nexus.
    pub async fn serve_copy(&self, request: CopyRequest) -> CopyAnswer {
        let done = match request {
            CopyRequest::Find(naa) => {
                let end = self.find(|lu| lu.identity.naa == naa).map(|seat| CopyEnd {
                    lun: seat.lun,
                    naa,
                    block_bytes: seat.lu.block_bytes(),
                    len_bytes: seat.lu.blocks() * u64::from(seat.lu.block_bytes()),
                });
                return CopyAnswer::End(end);
            }
            CopyRequest::FindToken(token) => {
                return CopyAnswer::Token(self.take_token(&token).map(|in_use| in_use.rods.bytes));
            }
            CopyRequest::ReadToken { token, at, len } => self.read_token(&token, at, len).await,
            CopyRequest::DeleteToken(token) => {
                // A token that is gone meanwhile is what the host wants.
                let _ = self.take_token(&token).map(|in_use| in_use.delete());
                Ok(Pieces::new())
            }
            CopyRequest::Read { end, at, len } => self.copy_out(end, at, len).await,
            CopyRequest::Write { end, at, data, arrival } => self.copy_in(end, at, data, arrival).await,
        };
        done.map_or_else(|error| CopyAnswer::Refused(asc_of(&error)), CopyAnswer::Done)
    }

    /// The end of a copy, if it is still where it was.
    fn seat_of(&self, end: CopyEnd) -> Result<Rc<Seat<D>>, CommandError> {
        let seat = self.seat(end.lun).filter(|seat| seat.lu.identity.naa == end.naa);
        seat.ok_or(aborted(COPY_TARGET_NOT_REACHABLE))
    }

    async fn copy_out(&self, end: CopyEnd, at: u64, len: u64) -> Result<Pieces, CommandError> {
        let seat = self.seat_of(end)?;
        let task = seat.lu.tasks.enter(self.nexus, u64::MAX).ok_or(CommandError::TaskSetFull)?;
        let arrival = Arrival::now();
        read_piece(&seat.lu, task.context(), (at, len), || check_access(&seat, Access::Read, arrival)).await
    }

    async fn read_token(&self, token: &Token, at: u64, len: u64) -> Result<Pieces, CommandError> {
        let in_use = self.take_token(token).map_err(CommandError::Token)?;
        let seat = self.find(|lu| lu.identity.naa == in_use.naa).ok_or(aborted(COPY_TARGET_NOT_REACHABLE))?;
        let task = seat.lu.tasks.enter(self.nexus, u64::MAX).ok_or(CommandError::TaskSetFull)?;
        in_use.rods.read(&seat.lu.disk, task.context(), at, len).await
    }

    async fn copy_in(
        &self,
        end: CopyEnd,
        at: u64,
        data: Pieces,
        arrival: Arrival,
    ) -> Result<Pieces, CommandError> {
        let seat = self.seat_of(end)?;
        let task = seat.lu.tasks.enter(self.nexus, u64::MAX).ok_or(CommandError::TaskSetFull)?;
        let admit = || check_access(&seat, Access::Write, arrival);
        write_piece(&seat.lu, task.context(), (at, &data), admit).await?;
        Ok(Pieces::new())
    }
}

/// The code of COPY ABORTED for this cause.
fn asc_of(error: &CommandError) -> Asc {
    match error {
        CommandError::CopyAborted { asc, .. } => *asc,
        _ => failure_of(error, 1).sense.map_or(Asc(0x0000), |sense| sense.asc),
    }
}
