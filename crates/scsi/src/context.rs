//! What a handler works with: the command, whose it is, and the logical unit in its place.

use std::ops::Range;

use block::{Data, LockMode, Pieces, RangeGuard};
use lu::{LogicalDisk, Task};

use crate::cdb::Cdb;
use crate::error::CommandError;
use crate::opcode::Command;
use crate::request::{Request, TaskAttribute};
use crate::unit::LogicalUnit;
use crate::view::{Seat, View};

/// The longest parameter list: the largest that a 16-bit length can say, which also holds the longest EXTENDED COPY list.
pub(crate) const LIST_BYTES_MAX: usize = 0xffff;

/// What a handler works with.
pub(crate) struct Context<'a, D: LogicalDisk> {
    /// What the asking host sees.
    pub view: &'a View<D>,
    /// The logical unit in its place, and the nexus.
    pub seat: &'a Seat<D>,
    /// The table's entry.
    pub command: &'static Command,
    /// The CDB.
    pub cdb: Cdb,
    /// The request.
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

    /// Locks a range of the asking LU for this command. An ORDERED command locks everything, which puts it after all that is
    /// older and before all that is younger (SAM-5 8.7).
    pub(crate) async fn lock(&self, span: Span, mode: LockMode) -> Result<RangeGuard<'a>, CommandError> {
        let lu = self.lu();
        let guard = match self.request.attribute {
            TaskAttribute::Ordered => lu.locks.exclusive(Span::EVERYTHING).await,
            _ => lu.locks.lock(span.range(), mode).await,
        };
        self.go_on()?;
        Ok(guard)
    }

    /// Stops a command that was aborted: looked at after every wait that can be long.
    pub(crate) fn go_on(&self) -> Result<(), CommandError> {
        if self.task.is_aborted() { Err(CommandError::Aborted) } else { Ok(()) }
    }

    /// The parameter list: as much of the data-out as the CDB asks for.
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

/// The first `allocation_len` bytes of what a command gives.
pub(crate) fn cut(bytes: &[u8], allocation_len: u64) -> Pieces {
    Pieces::copy_of(&bytes[..bytes.len().min(usize::try_from(allocation_len).unwrap_or(usize::MAX))])
}
