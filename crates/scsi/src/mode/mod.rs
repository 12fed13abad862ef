//! Mode parameters: MODE SENSE and MODE SELECT (SPC-5 6.13 to 6.16, 7.5).

mod modes;
mod page;
mod select;

use block::Pieces;
use lu::LogicalDisk;
pub(crate) use modes::{Changeable, Modes};
pub(crate) use select::select;

use crate::context::{Context, cut};
use crate::error::CommandError;
use crate::unit::LogicalUnit;
use page::Which;

/// MODE SENSE(6) and (10).
pub(crate) fn sense<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (cdb, lu) = (&ctx.cdb, ctx.lu());
    let ten = cdb.opcode() == 0x5a;
    let which = match cdb.u8(2) >> 6 {
        0 => Which::Current,
        1 => Which::Changeable,
        2 => Which::Default,
        _ => Which::Saved,
    };
    let pages = page::pages(lu, cdb.u8(2) & 0x3f, cdb.u8(3), which)?;
    let long = ten && cdb.bit(1, 0x10);
    let descriptor = if cdb.bit(1, 0x08) { Vec::new() } else { block_descriptor(lu, long) };
    let mut out = Vec::with_capacity(256);
    if ten {
        out.extend(((6 + descriptor.len() + pages.len()) as u16).to_be_bytes());
        out.extend([0, device_specific(lu), u8::from(long), 0]);
        out.extend((descriptor.len() as u16).to_be_bytes());
    } else {
        let len = u8::try_from(3 + descriptor.len() + pages.len()).unwrap_or(u8::MAX);
        out.extend([len, 0, device_specific(lu), descriptor.len() as u8]);
    }
    out.extend(descriptor);
    out.extend(pages);
    Ok(cut(&out, if ten { cdb.uint(7, 2) } else { cdb.uint(4, 1) }))
}

/// DEVICE-SPECIFIC PARAMETER (SBC-4 6.5.1): WP and DPOFUA.
fn device_specific<D: LogicalDisk>(lu: &LogicalUnit<D>) -> u8 {
    u8::from(lu.check_writable().is_err()) << 7 | 0x10
}

/// The mode parameter block descriptor (SBC-4 6.5.2), short or long.
fn block_descriptor<D: LogicalDisk>(lu: &LogicalUnit<D>, long: bool) -> Vec<u8> {
    let block = lu.block_bytes().to_be_bytes();
    let mut out = Vec::with_capacity(16);
    if long {
        out.extend(lu.blocks().to_be_bytes());
        out.extend([0; 4]);
    } else {
        out.extend(u32::try_from(lu.blocks()).unwrap_or(u32::MAX).to_be_bytes());
    }
    // The short form has three bytes of block length behind a reserved one, which a length under 16 MiB
    // leaves 0.
    out.extend(block);
    out
}
