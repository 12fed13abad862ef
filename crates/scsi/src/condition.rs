//! The condition of the logical unit: REQUEST SENSE, START STOP UNIT, PREVENT ALLOW MEDIUM REMOVAL,
//! diagnostics.

use block::Pieces;
use lu::LogicalDisk;

use crate::context::{Context, cut};
use crate::error::CommandError;
use crate::sense::{Format, Key, Sense, failure_of};

/// REQUEST SENSE, SPC-5 6.43: a unit attention (which it clears), else the reason why the LU is not ready,
/// else no sense.
pub(crate) fn request_sense<D: LogicalDisk>(ctx: &Context<'_, D>) -> Pieces {
    let lu = ctx.lu();
    let attention = ctx.seat.nexus.attentions.take().or_else(|| ctx.view.reported_luns.take());
    let pending = attention.map(CommandError::Attention).or_else(|| lu.check_ready().err());
    let sense =
        pending.and_then(|e| failure_of(&e, lu.block_bytes()).sense).unwrap_or(Sense::new(Key::NoSense, 0));
    let format = if ctx.cdb.bit(1, 0x01) { Format::Descriptor } else { Format::Fixed };
    cut(&sense.encode(format), ctx.cdb.uint(4, 1))
}

/// REQUEST SENSE on a LUN whose commands fail with this error.
pub(crate) fn request_sense_for(error: &CommandError, cdb: &crate::cdb::Cdb) -> Pieces {
    let sense = failure_of(error, 1).sense.unwrap_or(Sense::new(Key::NoSense, 0));
    let format = if cdb.bit(1, 0x01) { Format::Descriptor } else { Format::Fixed };
    cut(&sense.encode(format), cdb.uint(4, 1))
}

/// START STOP UNIT, SBC-4 5.31. One host must not stop a logical unit that several hosts share: a stop makes
/// the data durable and leaves the LU ready. There is nothing to load or eject, and there are no other power
/// conditions.
pub(crate) async fn start_stop<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let flags = ctx.cdb.u8(4);
    if flags & 0xf0 != 0 {
        return Err(CommandError::field_bit(4, 7));
    }
    if flags & 0x02 != 0 {
        return Err(CommandError::field_bit(4, 1));
    }
    let (stop, no_flush) = (flags & 0x01 == 0, flags & 0x04 != 0);
    if stop && !no_flush {
        ctx.lu().disk.flush().await?;
    }
    Ok(Pieces::new())
}

/// PREVENT ALLOW MEDIUM REMOVAL, SPC-5 6.17: the medium cannot be removed anyway.
pub(crate) fn prevent_allow() -> Pieces {
    Pieces::new()
}

/// SEND DIAGNOSTIC, SPC-5 6.44: the default and the two foreground self-tests read the first and the last
/// block. There are no background self-tests and no diagnostic pages to send.
pub(crate) async fn send_diagnostic<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (flags, list_len) = (ctx.cdb.u8(1), ctx.cdb.uint(3, 2));
    let (code, self_test) = (flags >> 5, flags & 0x04 != 0);
    if list_len != 0 {
        return Err(CommandError::field(3));
    }
    match (self_test, code) {
        (true, 0) | (false, 5 | 6) => {}
        (false, 0) => return Ok(Pieces::new()),
        _ => return Err(CommandError::field_bit(1, 7)),
    }
    let lu = ctx.lu();
    let block = u64::from(lu.block_bytes());
    for lba in [0, lu.blocks().saturating_sub(1)] {
        let mut out = Pieces::new();
        lu.disk.read(ctx.task.context(), lba * block, block as usize, &mut out).await?;
    }
    Ok(Pieces::new())
}

/// RECEIVE DIAGNOSTIC RESULTS, SPC-5 6.31: the list of supported pages, which contains only itself.
pub(crate) fn receive_diagnostic<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    if ctx.cdb.bit(1, 0x01) && ctx.cdb.u8(2) != 0 {
        return Err(CommandError::field(2));
    }
    Ok(cut(&[0, 0, 0, 1, 0], ctx.cdb.uint(3, 2)))
}
