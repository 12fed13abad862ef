//! An end of a segment: a logical unit of this controller, or of another one.

use std::rc::Rc;

use block::Pieces;
use lu::{CommandContext, LogicalDisk};

use super::across::ask;
use super::copy::{read_piece, write_piece};
use crate::arrival::Arrival;
use crate::error::CommandError;
use crate::host_view::{CopyEnd, CopyRequest, Owner};
use crate::view::Seat;

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

    pub(super) async fn read(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: u64,
    ) -> Result<Pieces, CommandError> {
        match self {
            End::Here(seat) => read_piece(&seat.lu, command, (at, len), || Ok(())).await,
            End::There(owner, end) => ask(&**owner, CopyRequest::Read { end: *end, at, len }).await,
        }
    }

    pub(super) async fn write(
        &self,
        command: CommandContext<'_>,
        (at, data): (u64, Pieces),
        arrival: Arrival,
    ) -> Result<(), CommandError> {
        match self {
            End::Here(seat) => write_piece(&seat.lu, command, (at, &data), || Ok(())).await,
            End::There(owner, end) => {
                ask(&**owner, CopyRequest::Write { end: *end, at, data, arrival }).await.map(drop)
            }
        }
    }
}
