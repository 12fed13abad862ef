//! COMPARE AND WRITE and ORWRITE: commands that need exclusive access to their blocks (SBC-4 5.2, 5.15).

use block::{Buf, LockMode, Pieces};
use lu::{Durability, LogicalDisk};

use crate::context::{Context, Span};
use crate::error::CommandError;
use crate::limits::COMPARE_AND_WRITE_BLOCKS_MAX;
use crate::read_write::{STEP_BYTES, transfer};
use crate::write_same::steps;

/// FUA of the commands here.
fn force_unit_access<D: LogicalDisk>(ctx: &Context<'_, D>) -> bool {
    ctx.cdb.bit(1, 0x08)
}

/// Reads a range step by step.
pub(crate) async fn read_span<D: LogicalDisk>(
    ctx: &Context<'_, D>,
    span: Span,
) -> Result<Pieces, CommandError> {
    let mut out = Pieces::new();
    for step in steps(span, STEP_BYTES) {
        ctx.lu().disk.read(ctx.task.context(), step.at, step.len as usize, &mut out).await?;
    }
    Ok(out)
}

/// COMPARE AND WRITE. The range is exclusive from before the comparison until after the write (and its
/// flush), against every other command on one of its blocks, and against no other command.
pub(crate) async fn compare_and_write<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (lba, blocks) = (ctx.cdb.u64(2), u64::from(ctx.cdb.u8(13)));
    let data = &ctx.request.data_out;
    if blocks > COMPARE_AND_WRITE_BLOCKS_MAX || blocks == 0 && !data.is_empty() {
        return Err(CommandError::field(13));
    }
    let span = ctx.span(lba, blocks)?;
    if data.len() as u64 != 2 * span.len {
        return Err(CommandError::DataOutLength);
    }
    if blocks == 0 {
        return Ok(Pieces::new());
    }
    let half = span.len as usize;
    let _guard = ctx.lock(span, LockMode::Exclusive).await?;
    let stored = read_span(ctx, span).await?;
    if let Some(offset) = stored.first_difference(data) {
        return Err(CommandError::Miscompare { offset: offset as u64 });
    }
    let new = data.slice(half, half);
    ctx.lu()
        .disk
        .write(ctx.task.context(), span.at, &new, ctx.lu().durability(force_unit_access(ctx)))
        .await?;
    ctx.lu().counting.written_bytes.add(span.len);
    Ok(Pieces::new())
}

/// ORWRITE(16): the bits that are set in either.
pub(crate) async fn or_write<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let span = transfer(ctx)?;
    let data = &ctx.request.data_out;
    if (data.len() as u64) < span.len {
        return Err(CommandError::DataOutLength);
    }
    let _guard = ctx.lock(span, LockMode::Exclusive).await?;
    for step in steps(span, STEP_BYTES) {
        let stored = read_span(ctx, step).await?;
        let given = data.slice((step.at - span.at) as usize, step.len as usize);
        let both = or(&stored, &given);
        ctx.lu().disk.write(ctx.task.context(), step.at, &both, Durability::Volatile).await?;
    }
    ctx.lu().flush_if_asked(force_unit_access(ctx)).await?;
    ctx.lu().counting.written_bytes.add(span.len);
    Ok(Pieces::new())
}

fn or(a: &Pieces, b: &Pieces) -> Pieces {
    let mut out = Buf::new(a.len());
    a.copy_to(&mut out);
    let mut at = 0;
    for piece in b.iter() {
        out[at..].iter_mut().zip(piece.iter()).for_each(|(to, from)| *to |= from);
        at += piece.len();
    }
    Pieces::from(out.freeze())
}
