//! WRITE USING TOKEN (SBC-4 5.53): writes the data of a token.

use std::rc::Rc;

use block::Pieces;
use lu::{CommandContext, LogicalDisk};

use super::limits::{PIECE_BYTES_MAX, ZERO_PIECE_BYTES_MAX};
use super::ranges::{self, Range};
use super::store::{InUse, Rods};
use super::token::{RodType, Token};
use crate::context::{Context, Span};
use crate::error::CommandError;
use crate::extended_copy::{Running, Stage, sense_of};
use crate::opcode::Access;
use crate::sense::Asc;
use crate::unit::LogicalUnit;
use crate::view::Seat;

/// The length of the parameter list before the range descriptors.
pub(super) const FIXED_LEN: usize = 536;
/// The service action.
pub(super) const ACTION: u8 = 0x11;
/// The offset of the token in the list.
const TOKEN_AT: usize = 16;
/// 0Dh/04h COPY TARGET DEVICE DATA UNDERRUN: the ranges are longer than the data of the token.
const DATA_UNDERRUN: Asc = Asc(0x0D04);

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
    /// The data of a token, from this byte on.
    Rods {
        token: InUse<D>,
        from: u64,
        delete: bool,
    },
}

/// A checked copy, ready to start.
struct Job<D: LogicalDisk> {
    seat: Rc<Seat<D>>,
    source: Source<D>,
    spans: Vec<Span>,
    running: Running,
}

pub(crate) async fn write_using_token<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    if ctx.cdb.u32(10) == 0 {
        return Ok(Pieces::new());
    }
    let list = List::parse(&ctx.list()?)?;
    let spans = ranges::spans(ctx.lu(), &list.ranges, u64::MAX, FIXED_LEN)?;
    let source = source_of(ctx, &list, spans.iter().map(|s| s.len).sum())?;
    let seat = ctx.view.seat(ctx.seat.lun).ok_or(CommandError::LunNotSupported)?;
    let running = ctx.view.token_lists.begin((ctx.seat.lun, ctx.cdb.u32(6)), ACTION)?;
    let job = Job { seat, source, spans, running };
    if list.immediate {
        job.running.update(|op| op.stage = Stage::Background);
        ctx.lu().world.spawn(in_background(job));
        return Ok(Pieces::new());
    }
    let result = job.write(ctx.task.context(), || ctx.go_on()).await;
    job.end(&result);
    result.map(|()| Pieces::new())
}

/// IMMED: the copy continues as its own task; a reset or the end of the nexus aborts it like any other.
async fn in_background<D: LogicalDisk>(job: Job<D>) {
    let seat = job.seat.clone();
    let Some(task) = seat.lu.tasks.enter(seat.nexus.id, u64::MAX) else {
        return job.end(&Err(CommandError::TaskSetFull));
    };
    let go_on = || {
        if task.is_aborted() || seat.nexus.ended.get() {
            return Err(CommandError::Aborted);
        }
        // The command ended long ago; the checks of a write still apply to the rest.
        seat.lu.reservations.check(&seat.nexus, Access::Write)?;
        seat.lu.check_ready()?;
        seat.lu.check_writable()
    };
    let result = job.write(task.context(), go_on).await;
    job.end(&result);
}

fn source_of<D: LogicalDisk>(
    ctx: &Context<'_, D>,
    list: &List,
    wanted: u64,
) -> Result<Source<D>, CommandError> {
    if RodType::of(&list.token) == RodType::BLOCK_ZERO {
        return Ok(Source::Zeros);
    }
    let is_mapped = |naa: &[u8; 16]| ctx.view.find(|lu| lu.identity.naa == *naa).is_some();
    let token = ctx.view.tokens.take(&list.token, is_mapped).map_err(CommandError::Token)?;
    let from = list.offset.checked_mul(u64::from(ctx.lu().block_bytes()));
    let from = from.filter(|from| *from < token.rods.bytes).ok_or(CommandError::parameter(8))?;
    if wanted > token.rods.bytes - from {
        return Err(CommandError::CopyAborted { asc: DATA_UNDERRUN, segment: 0 });
    }
    Ok(Source::Rods { token, from, delete: list.delete })
}

impl<D: LogicalDisk> Job<D> {
    async fn write(
        &self,
        command: CommandContext<'_>,
        go_on: impl Fn() -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let mut from = match &self.source {
            Source::Zeros => 0,
            Source::Rods { from, .. } => *from,
        };
        for span in &self.spans {
            let mut done = 0;
            while done < span.len {
                let (at, left) = (span.at + done, span.len - done);
                let len = match &self.source {
                    Source::Zeros => zero(command, &self.seat.lu, at, left, &go_on).await?,
                    Source::Rods { token, .. } => {
                        copy(command, &self.seat.lu, &token.rods, from, at, left, &go_on).await?
                    }
                };
                from += len;
                done += len;
                self.running.update(|op| op.bytes += len);
            }
            self.running.update(|op| op.segments += 1);
        }
        Ok(())
    }

    fn end(&self, result: &Result<(), CommandError>) {
        self.running.end(result, |error| sense_of(&self.seat.lu, error));
        if let Source::Rods { token, delete: true, .. } = &self.source {
            token.delete();
        }
    }
}

/// Zeros some of `left` bytes at `at`; returns the length.
async fn zero<D: LogicalDisk>(
    command: CommandContext<'_>,
    lu: &LogicalUnit<D>,
    at: u64,
    left: u64,
    go_on: &impl Fn() -> Result<(), CommandError>,
) -> Result<u64, CommandError> {
    let len = left.min(ZERO_PIECE_BYTES_MAX);
    let _locked = lu.locks.shared(at..at + len).await;
    go_on()?;
    lu.disk.zero(command, at, len).await?;
    lu.counting.zeroed_bytes.add(len);
    Ok(len)
}

/// Copies some of `left` bytes to `at` from offset `from` of a token's data, within one ROD and one step;
/// returns the length.
async fn copy<D: LogicalDisk>(
    command: CommandContext<'_>,
    lu: &LogicalUnit<D>,
    rods: &Rods<D>,
    from: u64,
    at: u64,
    left: u64,
    go_on: &impl Fn() -> Result<(), CommandError>,
) -> Result<u64, CommandError> {
    let mut begin = 0;
    for (rod, rod_len) in &rods.list {
        let inside = from - begin;
        if inside >= *rod_len {
            begin += rod_len;
            continue;
        }
        let len = left.min(rod_len - inside).min(PIECE_BYTES_MAX);
        let _locked = lu.locks.shared(at..at + len).await;
        go_on()?;
        let copied = lu.disk.copy_from_rod(command, rod, inside, at, len).await?;
        lu.counting.moved_bytes.add(copied.moved_bytes);
        lu.counting.shared_bytes.add(copied.shared_bytes);
        return Ok(len);
    }
    // The lengths were checked before the copy began.
    Err(CommandError::CopyAborted { asc: DATA_UNDERRUN, segment: 0 })
}
