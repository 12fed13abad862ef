//! SANITIZE: destroys all data (SBC-4 4.11, 5.30).
//!
//! The operation is its own task; no reset, abort or lost session ends it. While it runs, and after it has
//! failed, commands that need the medium are refused. Its start is recorded on the medium first: after a
//! power failure the LU is in the failed state, never partly sanitized and readable.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockError, Data, Pieces};
use lu::{CommandContext, Durability, LogicalDisk};

use crate::context::{Context, Span};
use crate::error::CommandError;
use crate::limits::METADATA_STEP_BYTES;
use crate::odx::Tokens;
use crate::read_write::STEP_BYTES;
use crate::sanitizing::{RECORD, RECORD_RESTRICTED, RECORD_UNRESTRICTED, State};
use crate::turns::Turns;
use crate::unit::LogicalUnit;
use crate::write_same::{repeat, steps};

/// Service actions (SBC-4 table of SANITIZE service actions).
const OVERWRITE: u8 = 0x01;
const EXIT_FAILURE_MODE: u8 = 0x1f;

/// Overwrite rate of one LU: slow enough to leave the drives to other LUs, fast enough for a terabyte in
/// hours.
const OVERWRITE_BYTES_PER_S: u64 = 48 << 20;

/// The content after the operation.
#[derive(Clone)]
enum Method {
    /// Zeros: every page is released.
    Erase,
    Overwrite {
        pattern: Data,
        passes: u8,
        invert: bool,
    },
}

pub(crate) async fn sanitize<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let lu = &ctx.seat.lu;
    if let State::Running { done } = lu.sanitizing.state.get() {
        return Err(CommandError::SanitizeInProgress { done });
    }
    let action = ctx.cdb.u8(1) & 0x1f;
    let (immediate, unrestricted) = (ctx.cdb.bit(1, 0x80), ctx.cdb.bit(1, 0x20));
    let method = match action {
        OVERWRITE => parse_overwrite(&ctx.list()?, ctx.cdb.uint(7, 2), lu.block_bytes() as usize)?,
        _ if ctx.cdb.uint(7, 2) != 0 => return Err(CommandError::field(7)),
        EXIT_FAILURE_MODE => return exit_failure_mode(ctx).await,
        _ => Method::Erase,
    };
    // From here on no command reaches the disk. Running commands end first, because the operation locks all
    // of it.
    lu.sanitizing.set(State::Running { done: 0 });
    lu.history.sanitize();
    lu.world.spawn(sanitize_task(lu.clone(), ctx.view.tokens.clone(), method, unrestricted));
    if immediate {
        return Ok(Pieces::new());
    }
    let ended = || (!matches!(lu.sanitizing.state.get(), State::Running { .. })).then_some(());
    ctx.task.wait_for(&lu.sanitizing.changed, ended).await.ok_or(CommandError::Aborted)?;
    lu.sanitizing.check()?;
    Ok(Pieces::new())
}

/// The overwrite parameter list (SBC-4 5.30.2.2).
fn parse_overwrite(list: &[u8], list_len: u64, block: usize) -> Result<Method, CommandError> {
    // The list length of the CDB determines the longest pattern; a transport may have padded the data.
    if list_len < 5 || list_len > block as u64 + 4 {
        return Err(CommandError::field(7));
    }
    let list = list.get(..list_len as usize).ok_or(CommandError::ParameterListLength)?;
    let (passes, pattern_len) = (list[0] & 0x1f, usize::from(u16::from_be_bytes([list[2], list[3]])));
    if list[0] & 0x60 != 0 {
        return Err(CommandError::parameter_bit(0, 6));
    }
    if passes == 0 {
        return Err(CommandError::parameter_bit(0, 4));
    }
    if pattern_len == 0 || pattern_len > block || pattern_len > list.len() - 4 {
        return Err(CommandError::parameter(2));
    }
    // The pattern starts again in every block.
    let pattern = repeat(&list[4..4 + pattern_len], block).freeze();
    Ok(Method::Overwrite { pattern, passes, invert: list[0] & 0x80 != 0 })
}

/// SANITIZE with EXIT FAILURE MODE (SBC-4 5.30.2.5): only after an operation that allowed an unrestricted
/// exit.
async fn exit_failure_mode<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let lu = ctx.lu();
    match lu.sanitizing.state.get() {
        State::Failed { restricted: true } => return Err(CommandError::SanitizeFailed),
        State::Failed { restricted: false } => {
            lu.disk.save_record(RECORD, &[]).await?;
            lu.sanitizing.set(State::Idle);
        }
        State::Idle | State::Running { .. } => {}
    }
    Ok(Pieces::new())
}

async fn sanitize_task<D: LogicalDisk>(
    lu: Rc<LogicalUnit<D>>,
    tokens: Rc<Tokens<D>>,
    method: Method,
    unrestricted: bool,
) {
    let result = run(&lu, &tokens, method, unrestricted).await;
    lu.sanitizing.set(match result {
        Ok(()) => State::Idle,
        Err(_) => State::Failed { restricted: !unrestricted },
    });
}

async fn run<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    tokens: &Tokens<D>,
    method: Method,
    unrestricted: bool,
) -> Result<(), BlockError> {
    let record = if unrestricted { RECORD_UNRESTRICTED } else { RECORD_RESTRICTED };
    lu.disk.save_record(RECORD, record).await?;
    let _guard = lu.locks.exclusive(Span::EVERYTHING).await;
    // What they stand for is data of this logical unit, too.
    tokens.forget(|naa| *naa == lu.identity.naa);
    let whole = Span { at: 0, len: lu.blocks() * u64::from(lu.block_bytes()) };
    match method {
        Method::Erase => erase(lu, whole).await?,
        Method::Overwrite { pattern, passes, invert } => {
            for pass in 0..passes {
                // SBC-4 5.30.2.2: with INVERT every second pass writes the complement; the last one writes
                // the pattern.
                let inverted = invert && (passes - 1 - pass) % 2 == 1;
                overwrite(lu, whole, &pattern, inverted, (pass, passes)).await?;
            }
        }
    }
    lu.disk.flush().await?;
    lu.disk.save_record(RECORD, &[]).await
}

async fn erase<D: LogicalDisk>(lu: &LogicalUnit<D>, whole: Span) -> Result<(), BlockError> {
    let turns = Turns::default();
    for step in steps(whole, METADATA_STEP_BYTES) {
        turns.step().await;
        lu.disk.unmap(CommandContext::DETACHED, step.at, step.len).await?;
        progress(lu, step.at + step.len, whole.len);
    }
    Ok(())
}

async fn overwrite<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    whole: Span,
    pattern: &[u8],
    inverted: bool,
    (pass, passes): (u8, u8),
) -> Result<(), BlockError> {
    let mut buf = repeat(pattern, whole.len.min(STEP_BYTES) as usize);
    if inverted {
        buf.iter_mut().for_each(|b| *b = !*b);
    }
    let data = Pieces::from(buf.freeze());
    for step in steps(whole, STEP_BYTES) {
        let next = lu.world.now() + Duration::from_nanos(step.len * 1_000_000_000 / OVERWRITE_BYTES_PER_S);
        let data = data.slice(0, step.len as usize);
        lu.disk.write(CommandContext::DETACHED, step.at, &data, Durability::Volatile).await?;
        progress(lu, u64::from(pass) * whole.len + step.at + step.len, u64::from(passes) * whole.len);
        lu.world.sleep_until(next).await;
    }
    Ok(())
}

fn progress<D: LogicalDisk>(lu: &LogicalUnit<D>, done: u64, total: u64) {
    let done = u128::from(done) * 65_536 / u128::from(total.max(1));
    lu.sanitizing.state.set(State::Running { done: u16::try_from(done).unwrap_or(u16::MAX) });
}
