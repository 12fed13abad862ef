//! The input of a handler: the command, its nexus, and the logical unit.

use std::ops::Range;

use block::{Data, LockMode, Pieces, RangeGuard};
use lu::{LogicalDisk, Task};
use world::sync::Permit;

use crate::cdb::Cdb;
use crate::error::CommandError;
use crate::opcode::{Command, Needs};
use crate::request::{Request, TaskAttribute};
use crate::unit::LogicalUnit;
use crate::view::{Seat, View};

/// Longest parameter list: the largest value of a 16-bit length, which also fits the longest EXTENDED COPY
/// list.
pub(crate) const LIST_BYTES_MAX: usize = 0xffff;

/// The input of a handler.
pub(crate) struct Context<'a, D: LogicalDisk> {
    /// The view of the requesting host.
    pub view: &'a View<D>,
    /// The seat of the logical unit in the view, with the nexus.
    pub seat: &'a Seat<D>,
    /// The table's entry.
    pub command: &'static Command,
    pub cdb: Cdb,
    pub request: &'a Request,
    /// The command in the task set.
    pub task: Task<'a>,
}

/// A range of a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// First byte.
    pub at: u64,
    /// Bytes.
    pub len: u64,
}

impl Span {
    /// The addresses of every disk.
    pub(crate) const EVERYTHING: Range<u64> = 0..u64::MAX;

    /// Its addresses.
    pub(crate) fn range(self) -> Range<u64> {
        self.at..self.at + self.len
    }
}

impl<'a, D: LogicalDisk> Context<'a, D> {
    /// The logical unit.
    pub(crate) fn lu(&self) -> &'a LogicalUnit<D> {
        &self.seat.lu
    }

    /// The bytes of `blocks` blocks at `lba`, or LBA OUT OF RANGE.
    pub(crate) fn span(&self, lba: u64, blocks: u64) -> Result<Span, CommandError> {
        span(self.lu(), lba, blocks)
    }

    /// Locks a range of the requested LU for this command. An ORDERED command locks everything, which places
    /// it after all older and before all younger commands (SAM-5 8.7).
    pub(crate) async fn lock(&self, span: Span, mode: LockMode) -> Result<RangeGuard<'a>, CommandError> {
        let lu = self.lu();
        let guard = match self.request.attribute {
            TaskAttribute::Ordered => lu.locks.exclusive(Span::EVERYTHING).await,
            _ => lu.locks.lock(span.range(), mode).await,
        };
        self.go_on()?;
        // A sanitize operation may have begun while it waited, also between two steps of the command.
        if self.command.needs >= Needs::Ready {
            lu.check_ready_since(self.request.arrival)?;
        }
        Ok(guard)
    }

    /// For a command with a step of data in memory that no transport has counted: room of the LU, and of the
    /// host.
    pub(crate) fn uncounted(&self) -> Result<(Permit, Permit), CommandError> {
        let of_lu = self.lu().uncounted.try_take(1).ok_or(CommandError::TaskSetFull)?;
        Ok((of_lu, self.view.host_traffic.uncounted.try_take(1).ok_or(CommandError::Busy)?))
    }

    /// For a copy: the same.
    pub(crate) fn copying(&self) -> Result<(Permit, Permit), CommandError> {
        let of_lu = self.lu().copying.try_take(1).ok_or(CommandError::Busy)?;
        Ok((of_lu, self.view.host_traffic.copying.try_take(1).ok_or(CommandError::Busy)?))
    }

    /// An error if the command was aborted; checked after every wait that can be long.
    pub(crate) fn go_on(&self) -> Result<(), CommandError> {
        if self.task.is_aborted() { Err(CommandError::Aborted) } else { Ok(()) }
    }

    /// The parameter list: the data-out, limited to the length in the CDB.
    pub(crate) fn list(&self) -> Result<Data, CommandError> {
        let wanted = self.command.data_out_len(&self.cdb, self.lu().block_bytes());
        let len = wanted.min(self.request.data_out.len() as u64) as usize;
        if wanted > LIST_BYTES_MAX as u64 {
            return Err(CommandError::ParameterListLength);
        }
        Ok(if len == 0 { Data::copy_of(&[]) } else { self.request.data_out.slice(0, len).joined() })
    }
}

/// The bytes of `blocks` blocks at `lba` of a logical unit, or LBA OUT OF RANGE.
pub(crate) fn span<D: LogicalDisk>(lu: &LogicalUnit<D>, lba: u64, blocks: u64) -> Result<Span, CommandError> {
    match lba.checked_add(blocks) {
        Some(end) if end <= lu.blocks() => {
            let block = u64::from(lu.block_bytes());
            Ok(Span { at: lba * block, len: blocks * block })
        }
        _ => Err(CommandError::LbaOutOfRange),
    }
}

/// The first `allocation_len` bytes of a command's data.
pub(crate) fn cut(bytes: &[u8], allocation_len: u64) -> Pieces {
    Pieces::copy_of(&bytes[..bytes.len().min(usize::try_from(allocation_len).unwrap_or(usize::MAX))])
}
