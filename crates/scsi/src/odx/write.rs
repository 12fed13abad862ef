//! WRITE USING TOKEN (SBC-4 5.53): writes the data of a token.

use std::rc::Rc;

use block::Pieces;
use lu::{CommandContext, LogicalDisk};
use world::sync::Permit;

use super::limits::{DATA_UNDERRUN, PIECES, TOKEN_BYTES_MAX, ZERO_PIECES};
use super::ranges::{self, Range};
use super::store::{InUse, Rods, fault_of};
use super::token::{RodType, Token};
use crate::arrival::Arrival;
use crate::context::{Context, Span};
use crate::error::{CommandError, TokenFault};
use crate::extended_copy::{Running, Stage, ask, in_background, move_across, sense_of, write_piece};
use crate::host_view::{CopyAnswer, CopyRequest, Owner};
use crate::opcode::Access;
use crate::turns::Turns;
use crate::unit::LogicalUnit;
use crate::view::Seat;

/// The length of the parameter list before the range descriptors.
pub(super) const FIXED_LEN: usize = 536;
/// The service action.
pub(super) const ACTION: u8 = 0x11;
/// The offset of the token in the list.
const TOKEN_AT: usize = 16;

/// A parsed list.
pub(super) struct List {
    /// IMMED: the command ends when the copy has started.
    pub(super) immediate: bool,
    /// DEL_TKN.
    pub(super) delete: bool,
    /// In blocks of the destination.
    pub(super) offset: u64,
    pub(super) token: Token,
    pub(super) ranges: Vec<Range>,
}

impl List {
    pub(super) fn parse(bytes: &[u8]) -> Result<List, CommandError> {
        let ranges = ranges::parse(bytes, FIXED_LEN)?;
        Ok(List {
            immediate: bytes[2] & 0x01 != 0,
            delete: bytes[2] & 0x02 != 0,
            offset: u64::from_be_bytes(bytes[8..16].try_into().expect("eight bytes")),
            token: *bytes[TOKEN_AT..].first_chunk().ok_or(CommandError::ParameterListLength)?,
            ranges,
        })
    }
}

/// The source of the data.
enum Source<D: LogicalDisk> {
    Zeros,
    /// A token of this controller.
    Here(InUse<D>),
    /// A token that another controller made, and the length of its data in bytes.
    There(Rc<dyn Owner>, Box<Token>, u64),
}

/// A checked copy, ready to start.
struct Job<D: LogicalDisk> {
    seat: Rc<Seat<D>>,
    source: Source<D>,
    /// The first byte of the source's data.
    from: u64,
    /// DEL_TKN.
    delete: bool,
    spans: Vec<Span>,
    /// Of the command.
    arrival: Arrival,
    running: Running,
    /// One of the copies that the logical unit takes at once, and one of the host's.
    _permit: (Permit, Permit),
}

pub(crate) async fn write_using_token<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    if ctx.cdb.u32(10) == 0 {
        return Ok(Pieces::new());
    }
    let list = List::parse(&ctx.list()?)?;
    let spans = ranges::spans(ctx.lu(), &list.ranges, TOKEN_BYTES_MAX, FIXED_LEN)?;
    let source = source_of(ctx, &list.token).await?;
    let from = source.start(&list, ctx.lu().block_bytes(), spans.iter().map(|s| s.len).sum())?;
    let seat = ctx.view.seat(ctx.seat.lun).ok_or(CommandError::LunNotSupported)?;
    let permit = ctx.copying()?;
    let running = ctx.view.copies_lid4.begin((ctx.seat.lun, ctx.cdb.u32(6)), ACTION)?;
    let (delete, arrival) = (list.delete, ctx.request.arrival);
    let job = Job { seat, source, from, delete, spans, arrival, running, _permit: permit };
    if list.immediate {
        job.running.update(|op| op.stage = Stage::Background);
        ctx.lu().world.spawn(write_in_background(job));
        return Ok(Pieces::new());
    }
    let go_on = || ctx.go_on().and_then(|()| job.admit());
    let result = job.write(ctx.task.context(), go_on).await;
    job.end(&result).await;
    result.map(|()| Pieces::new())
}

/// IMMED: the command ended long ago.
async fn write_in_background<D: LogicalDisk>(job: Job<D>) {
    let seat = job.seat.clone();
    let write = async |command: CommandContext<'_>, go_on: &dyn Fn() -> Result<(), CommandError>| {
        job.write(command, || go_on().and_then(|()| job.admit())).await
    };
    let result = in_background(&seat, write).await;
    job.end(&result).await;
}

/// The source that a token stands for: here, or at the controller that made it.
async fn source_of<D: LogicalDisk>(ctx: &Context<'_, D>, token: &Token) -> Result<Source<D>, CommandError> {
    if RodType::of(token) == RodType::BLOCK_ZERO {
        return Ok(Source::Zeros);
    }
    let mut fault = match ctx.view.take_token(token) {
        Ok(in_use) => return Ok(Source::Here(in_use)),
        Err(fault) => fault,
    };
    for owner in ctx.view.others.iter() {
        // Another fault than this one is known only to the controller that made the token.
        if fault != TokenFault::Unknown {
            break;
        }
        match owner.copy(CopyRequest::FindToken(Box::new(*token))).await {
            Some(CopyAnswer::Token(Ok(bytes))) => {
                return Ok(Source::There(owner.clone(), Box::new(*token), bytes));
            }
            Some(CopyAnswer::Token(Err(other))) => fault = other,
            _ => {}
        }
    }
    Err(CommandError::Token(fault))
}

impl<D: LogicalDisk> Source<D> {
    /// The first byte of its data for a copy of `wanted` bytes.
    fn start(&self, list: &List, block_bytes: u32, wanted: u64) -> Result<u64, CommandError> {
        let available = match self {
            Source::Zeros => return Ok(0),
            Source::Here(token) => token.rods.bytes,
            Source::There(_, _, bytes) => *bytes,
        };
        let from = list.offset.checked_mul(u64::from(block_bytes));
        let from = from.filter(|from| *from < available).ok_or(CommandError::parameter(8))?;
        if wanted > available - from {
            return Err(CommandError::CopyAborted { asc: DATA_UNDERRUN, segment: 0 });
        }
        Ok(from)
    }
}

impl<D: LogicalDisk> Job<D> {
    /// The checks of a write apply to each piece: others may have reserved or sanitized the logical unit
    /// while the copy waited.
    fn admit(&self) -> Result<(), CommandError> {
        let lu = &self.seat.lu;
        lu.reservations.check(&self.seat.nexus, Access::Write)?;
        lu.check_ready_since(self.arrival)?;
        lu.check_writable()
    }

    async fn write(
        &self,
        command: CommandContext<'_>,
        go_on: impl Fn() -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let (mut from, turns) = (self.from, Turns::default());
        let done = |len| self.running.update(|op| op.bytes += len);
        for span in &self.spans {
            match &self.source {
                Source::There(owner, token, _) => {
                    self.bring(command, (&**owner, token), from, *span, (&turns, &go_on)).await?;
                }
                Source::Zeros => {
                    let piece = async |offset, len| {
                        zero(command, &self.seat.lu, (span.at + offset, len), &go_on).await
                    };
                    ZERO_PIECES.run(span.len, &turns, piece, done).await?;
                }
                Source::Here(token) => {
                    let piece = async |offset, len| {
                        let at = (from + offset, span.at + offset);
                        copy(command, &self.seat.lu, &token.rods, at, len, &go_on).await
                    };
                    PIECES.run(span.len, &turns, piece, done).await?;
                }
            }
            from += span.len;
            self.running.update(|op| op.segments += 1);
        }
        Ok(self.seat.lu.flush_if_asked(false).await?)
    }

    /// Brings the bytes of a span from the controller that made the token.
    async fn bring(
        &self,
        command: CommandContext<'_>,
        (owner, token): (&dyn Owner, &Token),
        from: u64,
        span: Span,
        (turns, go_on): (&Turns, impl Fn() -> Result<(), CommandError>),
    ) -> Result<(), CommandError> {
        let read = async |offset, len| {
            let token = Box::new(*token);
            ask(owner, CopyRequest::ReadToken { token, at: from + offset, len }).await
        };
        let lu = &self.seat.lu;
        let write = async |offset, data| write_piece(lu, command, (span.at + offset, &data), &go_on).await;
        let done = |len| self.running.update(|op| op.bytes += len);
        move_across(span.len, turns, read, write, &go_on, done).await
    }

    async fn end(&self, result: &Result<(), CommandError>) {
        self.running.end(result, |error| sense_of(&self.seat.lu, error));
        match &self.source {
            Source::Here(token) if self.delete => token.delete(),
            Source::There(owner, token, _) if self.delete => {
                // An owner that has stopped has no token any more.
                let _ = ask(&**owner, CopyRequest::DeleteToken(token.clone())).await;
            }
            _ => {}
        }
    }
}

async fn zero<D: LogicalDisk>(
    command: CommandContext<'_>,
    lu: &LogicalUnit<D>,
    (at, len): (u64, u64),
    go_on: &impl Fn() -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let _locked = lu.locks.write(at..at + len).await;
    go_on()?;
    lu.disk.zero(command, at, len).await?;
    lu.counting.zeroed_bytes.add(len);
    Ok(())
}

/// Copies `len` bytes from offset `from` of a token's data to `at`: of one ROD, or of some that follow each
/// other.
async fn copy<D: LogicalDisk>(
    command: CommandContext<'_>,
    lu: &LogicalUnit<D>,
    rods: &Rods<D>,
    (mut from, mut at): (u64, u64),
    len: u64,
    go_on: &impl Fn() -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let end = at + len;
    let _locked = lu.locks.write(at..end).await;
    go_on()?;
    while at < end {
        // The lengths were checked before the copy began.
        let underrun = CommandError::CopyAborted { asc: DATA_UNDERRUN, segment: 0 };
        let (rod, inside, rest) = rods.at(from).ok_or(underrun)?;
        let len = rest.min(end - at);
        let copied = lu.disk.copy_from_rod(command, rod, inside, at, len).await;
        let copied = copied.map_err(|error| fault_of(&lu.disk, rod, error))?;
        lu.counting.moved_bytes.add(copied.moved_bytes);
        lu.counting.shared_bytes.add(copied.shared_bytes);
        (from, at) = (from + len, at + len);
    }
    Ok(())
}
