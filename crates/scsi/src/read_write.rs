//! READ and WRITE: the hot path.

use block::{LockMode, Pieces};
use lu::{Durability, LogicalDisk};

use crate::cdb::Cdb;
use crate::context::{Context, Span};
use crate::error::CommandError;
use crate::limits::TRANSFER_BYTES_MAX;

/// Longest piece of a transfer that the medium gets at once: a buffer has at most 8 MiB, and shorter pieces
/// keep the memory of a command in small, common size classes.
pub(crate) const STEP_BYTES: u64 = 1 << 20;

/// LBA and number of blocks of a READ, WRITE, VERIFY or WRITE SAME, by the length of its CDB.
pub(crate) fn lba_and_blocks(cdb: &Cdb) -> (u64, u64) {
    match cdb.opcode() >> 5 {
        0 => {
            let blocks = u64::from(cdb.u8(4));
            (cdb.uint(1, 3) & 0x1f_ffff, if blocks == 0 { 256 } else { blocks })
        }
        1 | 2 => (cdb.uint(2, 4), cdb.uint(7, 2)),
        5 => (cdb.uint(2, 4), cdb.uint(6, 4)),
        _ => (cdb.u64(2), cdb.uint(10, 4)),
    }
}

/// The byte of the number of blocks in the CDB, for the field pointer.
pub(crate) fn length_field(cdb: &Cdb) -> u16 {
    match cdb.opcode() >> 5 {
        0 => 4,
        1 | 2 => 7,
        5 => 6,
        _ => 10,
    }
}

/// Checks the blocks of a transfer: within the disk, and not more than one command may transfer.
pub(crate) fn transfer<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Span, CommandError> {
    let (lba, blocks) = lba_and_blocks(&ctx.cdb);
    let span = ctx.span(lba, blocks)?;
    if span.len > TRANSFER_BYTES_MAX {
        return Err(CommandError::field(length_field(&ctx.cdb)));
    }
    Ok(span)
}

/// FUA: bit 3 of byte 1, but not of the six-byte commands.
fn force_unit_access(cdb: &Cdb) -> bool {
    cdb.opcode() >> 5 != 0 && cdb.bit(1, 0x08)
}

/// READ(6), (10), (12), (16): SBC-4 5.17 and following. With FUA, volatile data of the blocks are made
/// durable before they are returned. DPO is a hint and ignored.
///
/// Of a longer transfer only the blocks are read that the host can accept: the transport counts that much
/// memory, and nothing else would limit what commands with short buffers hold. All blocks are checked and
/// locked, and [`read_len`] tells the transport their length.
pub(crate) async fn read<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let span = transfer(ctx)?;
    let lu = ctx.lu();
    let _guard = ctx.lock(span, LockMode::Shared).await?;
    if force_unit_access(&ctx.cdb) {
        lu.disk.sync(span.at, span.len).await?;
    }
    let room = u64::from(ctx.request.data_in_max).next_multiple_of(u64::from(lu.block_bytes()));
    let wanted = span.len.min(room);
    let mut out = Pieces::new();
    let mut done = 0;
    while done < wanted {
        let len = (wanted - done).min(STEP_BYTES);
        lu.disk.read(ctx.task.context(), span.at + done, len as usize, &mut out).await?;
        done += len;
    }
    lu.counting.read_bytes.add(wanted);
    Ok(out)
}

/// The data-in length that the CDB of a READ requires.
pub(crate) fn read_len(cdb: &Cdb, block_bytes: u32) -> u64 {
    lba_and_blocks(cdb).1 * u64::from(block_bytes)
}

/// WRITE(6), (10), (12), (16): SBC-4 5.43 and following.
pub(crate) async fn write<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let span = transfer(ctx)?;
    let span = cut_to_data(ctx, span)?;
    // A host that has lost a path sends a write again over another one, and goes on when that has ended. The
    // first one may still be under way here, and must not land on what the host has written since.
    let _guard = ctx.lock(span, LockMode::Write).await?;
    write_blocks(ctx, span, ctx.lu().durability(force_unit_access(&ctx.cdb))).await?;
    ctx.lu().counting.written_bytes.add(span.len);
    Ok(Pieces::new())
}

/// If the host sends less than the CDB requires, the complete blocks are written (the transport reports the
/// residual); a partial block is refused.
pub(crate) fn cut_to_data<D: LogicalDisk>(ctx: &Context<'_, D>, span: Span) -> Result<Span, CommandError> {
    let len = span.len.min(ctx.request.data_out.len() as u64);
    if !len.is_multiple_of(u64::from(ctx.lu().block_bytes())) {
        return Err(CommandError::DataOutLength);
    }
    Ok(Span { at: span.at, len })
}

/// Writes the beginning of the data-out to `span`.
pub(crate) async fn write_blocks<D: LogicalDisk>(
    ctx: &Context<'_, D>,
    span: Span,
    durability: Durability,
) -> Result<(), CommandError> {
    let (disk, command, data) = (&ctx.lu().disk, ctx.task.context(), &ctx.request.data_out);
    if span.len == data.len() as u64 && span.len <= STEP_BYTES {
        if span.len > 0 {
            disk.write(command, span.at, data, durability).await?;
        }
        return Ok(());
    }
    let mut done = 0;
    while done < span.len {
        let len = (span.len - done).min(STEP_BYTES);
        let part = data.slice(done as usize, len as usize);
        disk.write(command, span.at + done, &part, Durability::Volatile).await?;
        done += len;
    }
    if durability == Durability::Durable {
        disk.sync(span.at, span.len).await?;
    }
    Ok(())
}
