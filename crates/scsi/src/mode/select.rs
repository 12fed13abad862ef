//! MODE SELECT(6) and (10): the whole list is checked before anything changes.

use block::Pieces;
use lu::LogicalDisk;

use super::modes::Changeable;
use super::page::{Which, page};
use crate::attention::Attention;
use crate::context::Context;
use crate::error::CommandError;
use crate::unit::LogicalUnit;

/// MODE SELECT(6) and (10), SPC-5 6.13 and 6.14.
pub(crate) async fn select<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (lu, ten) = (ctx.lu(), ctx.cdb.opcode() == 0x55);
    // PF = 0 is vendor specific.
    if !ctx.cdb.bit(1, 0x10) {
        return Err(CommandError::field_bit(1, 4));
    }
    if ctx.cdb.bit(1, 0x01) && !lu.capabilities.keeps_records {
        return Err(CommandError::SavingNotSupported);
    }
    let list = ctx.list()?;
    let before = lu.modes.now.get();
    let after = if list.is_empty() { before } else { parse(lu, &list, ten, before)? };
    if after != before {
        lu.modes.now.set(after);
        lu.raise_for_others(ctx.seat.nexus.id, Attention::ModeParametersChanged);
    }
    // Data written under WCE = 1 are still volatile.
    if after.write_through && !before.write_through {
        lu.disk.flush().await?;
    }
    // SP.
    if ctx.cdb.bit(1, 0x01) {
        lu.modes.save(&lu.disk).await?;
    }
    Ok(Pieces::new())
}

/// The parameters after applying the list.
fn parse<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    list: &[u8],
    ten: bool,
    before: Changeable,
) -> Result<Changeable, CommandError> {
    let header_len = if ten { 8 } else { 4 };
    let header = list.get(..header_len).ok_or(CommandError::ParameterListLength)?;
    let (long, descriptors_len) = if ten {
        (header[4] & 1 != 0, u16::from_be_bytes([header[6], header[7]]))
    } else {
        (false, u16::from(header[3]))
    };
    if header[if ten { 2 } else { 1 }] != 0 {
        return Err(CommandError::parameter(if ten { 2 } else { 1 }));
    }
    let pages_at = header_len + usize::from(descriptors_len);
    let descriptors = list.get(header_len..pages_at).ok_or(CommandError::ParameterListLength)?;
    check_block_descriptor(lu, descriptors, long, header_len)?;
    let mut after = before;
    let mut at = pages_at;
    while at < list.len() {
        at = apply_page(lu, list, at, &mut after)?;
    }
    Ok(after)
}

/// No block descriptor, or the one of MODE SENSE: block length and capacity cannot be changed. A number of
/// blocks of 0 or all ones means the current one (SBC-4 6.5.2).
fn check_block_descriptor<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    bytes: &[u8],
    long: bool,
    at: usize,
) -> Result<(), CommandError> {
    if bytes.is_empty() {
        return Ok(());
    }
    if bytes.len() != if long { 16 } else { 8 } {
        return Err(CommandError::parameter(at - if at == 8 { 2 } else { 1 }));
    }
    let number = |b: &[u8]| b.iter().fold(0u64, |n, &b| n << 8 | u64::from(b));
    let (blocks, all_ones, block_at) = if long {
        (number(&bytes[..8]), u64::MAX, 12)
    } else {
        (number(&bytes[..4]), u64::from(u32::MAX), 5)
    };
    if blocks != 0 && blocks != all_ones && blocks != lu.blocks() {
        return Err(CommandError::parameter(at));
    }
    let block = number(&bytes[block_at..]);
    if block != 0 && block != u64::from(lu.block_bytes()) {
        return Err(CommandError::parameter(at + block_at));
    }
    Ok(())
}

/// Checks the page at `at`, applies it to `after`, and returns the offset of the next page.
fn apply_page<D: LogicalDisk>(
    lu: &LogicalUnit<D>,
    list: &[u8],
    at: usize,
    after: &mut Changeable,
) -> Result<usize, CommandError> {
    let rest = &list[at..];
    let (code, has_subpage) = (rest[0] & 0x3f, rest[0] & 0x40 != 0);
    let header_len = if has_subpage { 4 } else { 2 };
    let header = rest.get(..header_len).ok_or(CommandError::ParameterListLength)?;
    let (subpage, body_len) = if has_subpage {
        (header[1], u16::from_be_bytes([header[2], header[3]]))
    } else {
        (0, u16::from(header[1]))
    };
    let current = page(lu, code, subpage, Which::Current).ok_or(CommandError::parameter_bit(at, 5))?;
    let mask = page(lu, code, subpage, Which::Changeable).ok_or(CommandError::parameter_bit(at, 5))?;
    let len = header_len + usize::from(body_len);
    if len != current.len() {
        return Err(CommandError::parameter(at + header_len - if has_subpage { 2 } else { 1 }));
    }
    let given = rest.get(..len).ok_or(CommandError::ParameterListLength)?;
    for i in header_len..len {
        let wrong = (given[i] ^ current[i]) & !mask[i];
        if wrong != 0 {
            return Err(CommandError::parameter_bit(at + i, 7 - wrong.leading_zeros() as u8));
        }
    }
    match (code, subpage) {
        (0x08, 0) => after.write_through = given[2] & 0x04 == 0,
        (0x0a, 0) => {
            after.d_sense = given[2] & 0x04 != 0;
            after.swp = given[4] & 0x08 != 0;
            after.tas = given[5] & 0x40 != 0;
        }
        _ => {}
    }
    Ok(at + len)
}
