//! VERIFY, WRITE AND VERIFY, PRE-FETCH, SYNCHRONIZE CACHE (SBC-4 5.36, 5.56, 5.16, 5.33).

use block::{LockMode, Pieces};
use lu::{Durability, LogicalDisk};

use crate::compare_and_write::read_span;
use crate::context::{Context, Span};
use crate::error::CommandError;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::read_write::{STEP_BYTES, cut_to_data, lba_and_blocks, length_field, transfer, write_blocks};
use crate::turns::Turns;
use crate::write_same::{repeat, steps};

/// BYTCHK: the comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    /// None: the medium must be readable.
    Medium,
    /// With the data-out.
    Data,
    /// Every block with the single block of the data-out.
    OneBlock,
}

fn check_of<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Check, CommandError> {
    match ctx.cdb.u8(1) >> 1 & 3 {
        0 => Ok(Check::Medium),
        1 => Ok(Check::Data),
        3 => Ok(Check::OneBlock),
        _ => Err(CommandError::field_bit(1, 2)),
    }
}

/// VERIFY(10), (12), (16). MAXIMUM TRANSFER LENGTH limits it in every form (SBC-4 6.6.4), also without data:
/// the array reads as much as for a READ. It reads in steps and keeps nothing.
pub(crate) async fn verify<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let check = check_of(ctx)?;
    let span = transfer(ctx)?;
    let _permit = match check {
        // The transport has counted the data, and a step is no longer.
        Check::Data => None,
        _ => Some(ctx.uncounted()?),
    };
    match check {
        Check::Medium => {
            let turns = Turns::default();
            for step in steps(span, STEP_BYTES) {
                turns.step().await;
                let _guard = ctx.lock(step, LockMode::Shared).await?;
                read_span(ctx, step).await?;
            }
        }
        Check::Data => {
            if (ctx.request.data_out.len() as u64) < span.len {
                return Err(CommandError::DataOutLength);
            }
            let _guard = ctx.lock(span, LockMode::Shared).await?;
            compare(ctx, span).await?;
        }
        Check::OneBlock => verify_one_block(ctx, span).await?,
    }
    Ok(Pieces::new())
}

async fn verify_one_block<D: LogicalDisk>(ctx: &Context<'_, D>, span: Span) -> Result<(), CommandError> {
    let block = ctx.lu().block_bytes() as usize;
    if span.len == 0 {
        return Ok(());
    }
    if ctx.request.data_out.len() < block {
        return Err(CommandError::DataOutLength);
    }
    let pattern = ctx.request.data_out.slice(0, block).joined();
    let repeated = Pieces::from(repeat(&pattern, span.len.min(STEP_BYTES) as usize).freeze());
    let turns = Turns::default();
    for step in steps(span, STEP_BYTES) {
        turns.step().await;
        let _guard = ctx.lock(step, LockMode::Shared).await?;
        if let Some(offset) = read_span(ctx, step).await?.first_difference(&repeated) {
            return Err(CommandError::Miscompare { offset: (offset % block) as u64 });
        }
    }
    Ok(())
}

/// Compares a range with the beginning of the data-out.
async fn compare<D: LogicalDisk>(ctx: &Context<'_, D>, span: Span) -> Result<(), CommandError> {
    for step in steps(span, STEP_BYTES) {
        let from = (step.at - span.at) as usize;
        let given = ctx.request.data_out.slice(from, step.len as usize);
        if let Some(offset) = read_span(ctx, step).await?.first_difference(&given) {
            return Err(CommandError::Miscompare { offset: (from + offset) as u64 });
        }
    }
    Ok(())
}

/// WRITE AND VERIFY(10), (12), (16): durable, then read back. With shared access, a concurrent write to the
/// same blocks could show as a miscompare, so the range is exclusive.
pub(crate) async fn write_and_verify<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let check = check_of(ctx)?;
    if check == Check::OneBlock {
        return Err(CommandError::field_bit(1, 2));
    }
    let span = cut_to_data(ctx, transfer(ctx)?)?;
    let _guard = ctx.lock(span, LockMode::Exclusive).await?;
    write_blocks(ctx, span, Durability::Volatile).await?;
    ctx.lu().disk.flush().await?;
    match check {
        Check::Data => compare(ctx, span).await?,
        _ => {
            for step in steps(span, STEP_BYTES) {
                read_span(ctx, step).await?;
            }
        }
    }
    ctx.lu().counting.written_bytes.add(span.len);
    Ok(Pieces::new())
}

/// PRE-FETCH(10) and (16): checks the range. There is no cache to fill, so GOOD rather than CONDITION MET.
pub(crate) fn pre_fetch<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (lba, blocks) = lba_and_blocks(&ctx.cdb);
    // MAXIMUM PREFETCH LENGTH.
    if ctx.span(lba, blocks)?.len > TRANSFER_BYTES_MAX {
        return Err(CommandError::field(length_field(&ctx.cdb)));
    }
    Ok(Pieces::new())
}

/// SYNCHRONIZE CACHE(10) and (16): writes the whole cache, whatever the range; IMMED does not make it return
/// earlier.
pub(crate) async fn synchronize_cache<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (lba, blocks) = lba_and_blocks(&ctx.cdb);
    ctx.span(lba, blocks)?;
    ctx.lu().disk.flush().await?;
    Ok(Pieces::new())
}
