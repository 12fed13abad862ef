//! WRITE SAME(10) and (16): writes one block repeatedly, or zeros (SBC-4 5.50, 5.51).

use block::{Buf, LockMode, Pieces};
use lu::{Durability, LogicalDisk};

use crate::context::{Context, Span};
use crate::error::CommandError;
use crate::limits::{METADATA_STEP_BYTES, WRITE_SAME_BYTES_MAX};
use crate::read_write::{STEP_BYTES, lba_and_blocks, length_field};
use crate::turns::Turns;

/// WRITE SAME. Zeros are a metadata operation: the medium unmaps the range. Anything else is written, also
/// with UNMAP = 1, because unmapped blocks would not read as the host's data (LBPRZ).
pub(crate) async fn write_same<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (cdb, lu) = (&ctx.cdb, ctx.lu());
    let (unmap, no_data) = (cdb.bit(1, 0x08), cdb.opcode() == 0x93 && cdb.bit(1, 0x01));
    let thin = lu.capabilities.page_bytes.is_some();
    if unmap && !thin {
        return Err(CommandError::field_bit(1, 3));
    }
    let span = blocks(ctx)?;
    let block = lu.block_bytes() as usize;
    let data = &ctx.request.data_out;
    if !no_data && data.len() != block {
        return Err(CommandError::DataOutLength);
    }
    let pattern = if no_data { None } else { Some(data.joined()).filter(|d| d.iter().any(|&b| b != 0)) };
    match pattern {
        Some(pattern) => {
            let _permit = ctx.uncounted()?;
            fill(ctx, span, &pattern).await?;
        }
        None => zero(ctx, span, unmap).await?,
    }
    ctx.lu().flush_if_asked(false).await?;
    Ok(Pieces::new())
}

/// The blocks of the command: 0 means to the end of the medium (WSNZ = 0), and no more than the block limits
/// page allows.
fn blocks<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Span, CommandError> {
    let (lba, blocks) = lba_and_blocks(&ctx.cdb);
    let mut span = ctx.span(lba, blocks)?;
    if blocks == 0 {
        span.len = ctx.lu().blocks() * u64::from(ctx.lu().block_bytes()) - span.at;
        if span.len == 0 {
            return Err(CommandError::LbaOutOfRange);
        }
    }
    if span.len > WRITE_SAME_BYTES_MAX {
        return Err(CommandError::field(length_field(&ctx.cdb)));
    }
    Ok(span)
}

/// Writes zeros in steps: each step locks its own range, so that a command on another part waits for one step
/// at most.
async fn zero<D: LogicalDisk>(ctx: &Context<'_, D>, span: Span, unmap: bool) -> Result<(), CommandError> {
    let lu = ctx.lu();
    for step in steps(span, METADATA_STEP_BYTES) {
        let _guard = ctx.lock(step, LockMode::Write).await?;
        if unmap {
            lu.counting.reclaimed_bytes.add(lu.disk.unmap(ctx.task.context(), step.at, step.len).await?);
        } else {
            lu.disk.zero(ctx.task.context(), step.at, step.len).await?;
        }
        lu.counting.zeroed_bytes.add(step.len);
    }
    Ok(())
}

/// Writes the pattern repeatedly from one buffer.
async fn fill<D: LogicalDisk>(ctx: &Context<'_, D>, span: Span, pattern: &[u8]) -> Result<(), CommandError> {
    let repeated = Pieces::from(repeat(pattern, span.len.min(STEP_BYTES) as usize).freeze());
    let turns = Turns::default();
    for step in steps(span, STEP_BYTES) {
        turns.step().await;
        let _guard = ctx.lock(step, LockMode::Write).await?;
        let all = step.len == repeated.len() as u64;
        let data = if all { repeated.clone() } else { repeated.slice(0, step.len as usize) };
        ctx.lu().disk.write(ctx.task.context(), step.at, &data, Durability::Volatile).await?;
        ctx.lu().counting.patterned_bytes.add(step.len);
    }
    Ok(())
}

/// `len` bytes of repeated `pattern`.
pub(crate) fn repeat(pattern: &[u8], len: usize) -> Buf {
    let mut buf = Buf::new(len);
    for chunk in buf.chunks_mut(pattern.len().max(1)) {
        let n = chunk.len();
        chunk.copy_from_slice(&pattern[..n]);
    }
    buf
}

/// Splits a range into steps of at most `step` bytes, at multiples of it: a page is not in two steps.
pub(crate) fn steps(span: Span, step: u64) -> impl Iterator<Item = Span> {
    let end = span.at + span.len;
    let cut = move |i: u64| (i * step).clamp(span.at, end);
    let parts = if span.len == 0 { 0..0 } else { span.at / step..end.div_ceil(step) };
    parts.map(move |i| Span { at: cut(i), len: cut(i + 1) - cut(i) })
}
