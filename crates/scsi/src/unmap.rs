//! UNMAP: releases blocks (SBC-4 5.34).

use block::{LockMode, Pieces};
use lu::LogicalDisk;

use crate::context::{Context, Span};
use crate::error::CommandError;
use crate::limits::{METADATA_STEP_BYTES, UNMAP_BLOCKS_MAX, UNMAP_DESCRIPTORS_MAX};
use crate::turns::Turns;
use crate::write_same::steps;

/// Length of the parameter list header and of each descriptor.
const HEADER_LEN: usize = 8;
const DESCRIPTOR_LEN: usize = 16;

/// UNMAP. The whole list is checked before the first block is released.
pub(crate) async fn unmap<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let lu = ctx.lu();
    let list = ctx.list()?;
    if ctx.cdb.uint(7, 2) == 0 {
        return Ok(Pieces::new());
    }
    let (spans, turns) = (parse(ctx, &list)?, Turns::default());
    for step in spans.into_iter().flat_map(|s| steps(s, METADATA_STEP_BYTES)) {
        turns.step().await;
        let _guard = ctx.lock(step, LockMode::Write).await?;
        lu.counting.reclaimed_bytes.add(lu.disk.unmap(ctx.task.context(), step.at, step.len).await?);
    }
    ctx.lu().flush_if_asked(false).await?;
    Ok(Pieces::new())
}

/// The ranges of the list. Empty descriptors are dropped after their LBA was checked; an incomplete last
/// descriptor is ignored (SBC-4 5.34.2).
fn parse<D: LogicalDisk>(ctx: &Context<'_, D>, list: &[u8]) -> Result<Vec<Span>, CommandError> {
    let header = list.get(..HEADER_LEN).ok_or(CommandError::ParameterListLength)?;
    let said = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let descriptors = &list[HEADER_LEN..];
    let descriptors = &descriptors[..descriptors.len().min(said)];
    let mut spans = Vec::with_capacity(descriptors.len() / DESCRIPTOR_LEN);
    let mut total = 0;
    for (i, descriptor) in descriptors.chunks_exact(DESCRIPTOR_LEN).enumerate() {
        let number =
            |from: usize, to: usize| descriptor[from..to].iter().fold(0u64, |n, &b| n << 8 | u64::from(b));
        let (lba, blocks) = (number(0, 8), number(8, 12));
        let span = ctx.span(lba, blocks)?;
        total += blocks;
        if i as u64 >= UNMAP_DESCRIPTORS_MAX {
            return Err(CommandError::parameter(2));
        }
        if total > UNMAP_BLOCKS_MAX {
            return Err(CommandError::parameter(HEADER_LEN + i * DESCRIPTOR_LEN + 8));
        }
        if blocks > 0 {
            spans.push(span);
        }
    }
    Ok(joined(spans))
}

/// The same blocks in as few ranges as there are: descriptors that are shorter than a page each may be whole
/// pages together. Their order does not matter, because the blocks are released or zeroed, whichever comes
/// first.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| span.at);
    spans.dedup_by(|next, span| {
        let touches = next.at <= span.at + span.len;
        if touches {
            span.len = span.len.max(next.at + next.len - span.at);
        }
        touches
    });
    spans
}
