//! The REPORT commands: LUNs, operation codes, task management functions, time.

use block::Pieces;
use lu::LogicalDisk;

use crate::cdb::Cdb;
use crate::context::{Context, cut};
use crate::error::CommandError;
use crate::opcode::{Command, Handler, TABLE, entries};
use crate::request::Lun;
use crate::unit::LogicalUnit;
use crate::view::View;

/// A LUN on the wire: peripheral addressing below 256, flat above (SAM-5 4.7.7).
fn lun_bytes(lun: Lun) -> [u8; 8] {
    let first = if lun.0 < 256 { lun.0 } else { 0x4000 | lun.0 & 0x3fff };
    let [high, low] = first.to_be_bytes();
    [high, low, 0, 0, 0, 0, 0, 0]
}

/// REPORT LUNS, SPC-5 6.36: the mapped LUNs. There are no well known logical units.
pub(crate) fn report_luns<D: LogicalDisk>(view: &View<D>, cdb: &Cdb) -> Result<Pieces, CommandError> {
    let luns = match cdb.u8(2) {
        0 | 2 => view.luns(),
        1 => Vec::new(),
        _ => return Err(CommandError::field(2)),
    };
    let mut out = Vec::with_capacity(8 + luns.len() * 8);
    out.extend((luns.len() as u32 * 8).to_be_bytes());
    out.extend([0; 4]);
    luns.into_iter().for_each(|l| out.extend(lun_bytes(l)));
    view.reported_luns.reported();
    Ok(cut(&out, cdb.uint(6, 4)))
}

/// Whether this logical unit supports the command: a thick one has no UNMAP, and one without records has no
/// command that needs them.
pub(crate) fn is_supported<D: LogicalDisk>(lu: &LogicalUnit<D>, command: &Command) -> bool {
    use Handler::*;
    match command.handler {
        Unmap => lu.capabilities.page_bytes.is_some(),
        Sanitize | WriteAtomic | PopulateToken | WriteUsingToken | ReceiveRodTokenInformation => {
            lu.capabilities.keeps_records
        }
        SetTargetPortGroups => lu.may_be_moved(),
        _ => true,
    }
}

/// The command timeouts descriptor (SPC-5 6.37.4).
fn timeouts(out: &mut Vec<u8>, command: &Command) {
    out.extend([0x00, 0x0a, 0, 0]);
    out.extend(command.timeouts_s[0].to_be_bytes());
    out.extend(command.timeouts_s[1].to_be_bytes());
}

/// REPORT SUPPORTED OPERATION CODES, SPC-5 6.37, from the table that dispatches.
pub(crate) fn report_opcodes<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (with_timeouts, options) = (ctx.cdb.bit(2, 0x80), ctx.cdb.u8(2) & 0x07);
    let (opcode, action) = (ctx.cdb.u8(3), ctx.cdb.u16(4));
    let supported = |c: &&Command| is_supported(ctx.lu(), c);
    let with_actions = entries(opcode).iter().any(|c| c.service_action.is_some());
    let named = |c: &&Command| c.service_action.map(u16::from) == Some(action);
    let found = match options {
        0 => return Ok(cut(&all_commands(ctx.lu(), with_timeouts), ctx.cdb.uint(6, 4))),
        1 if with_actions => return Err(CommandError::field_bit(2, 2)),
        2 if !with_actions && !entries(opcode).is_empty() => return Err(CommandError::field_bit(2, 2)),
        1 => entries(opcode).first(),
        2 => entries(opcode).iter().find(named),
        3 if with_actions => entries(opcode).iter().find(named),
        3 => entries(opcode).first().filter(|_| action == 0),
        _ => return Err(CommandError::field_bit(2, 2)),
    };
    Ok(cut(&one_command(found.filter(supported), with_timeouts), ctx.cdb.uint(6, 4)))
}

fn all_commands<D: LogicalDisk>(lu: &LogicalUnit<D>, with_timeouts: bool) -> Vec<u8> {
    let mut out = vec![0; 4];
    for command in TABLE.iter().filter(|c| is_supported(lu, c)) {
        let flags = u8::from(with_timeouts) << 1 | u8::from(command.service_action.is_some());
        out.extend([command.opcode, 0, 0, command.service_action.unwrap_or(0), 0, flags, 0, command.cdb_len]);
        if with_timeouts {
            timeouts(&mut out, command);
        }
    }
    let len = out.len() as u32 - 4;
    out[..4].copy_from_slice(&len.to_be_bytes());
    out
}

fn one_command(found: Option<&Command>, with_timeouts: bool) -> Vec<u8> {
    // SUPPORT: 001b not supported, 011b as the standard says.
    let Some(command) = found else { return vec![0, 0x01, 0, 0] };
    let mut out = vec![0, u8::from(with_timeouts) << 7 | 0x03, 0, command.cdb_len];
    out.extend(&command.usage[..usize::from(command.cdb_len)]);
    if with_timeouts {
        timeouts(&mut out, command);
    }
    out
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS, SPC-5 6.38.
pub(crate) fn report_task_functions<D: LogicalDisk>(ctx: &Context<'_, D>) -> Pieces {
    let mut out = [0; 16];
    // ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET, target reset.
    out[0] = 0x80 | 0x40 | 0x10 | 0x08 | 0x02;
    let extended = ctx.cdb.bit(2, 0x80);
    let len = if extended { 16 } else { 4 };
    out[3] = len - 4;
    cut(&out[..usize::from(len)], ctx.cdb.uint(6, 4))
}

/// REPORT IDENTIFYING INFORMATION, SPC-5 6.34: empty, because it cannot be set.
pub(crate) fn report_identifying_information<D: LogicalDisk>(
    ctx: &Context<'_, D>,
) -> Result<Pieces, CommandError> {
    match ctx.cdb.u8(10) >> 1 {
        // Peripheral device identifying information, and its text form.
        0 | 2 => Ok(cut(&[0; 4], ctx.cdb.uint(6, 4))),
        _ => Err(CommandError::field_bit(10, 7)),
    }
}

/// REPORT TIMESTAMP, SPC-5 6.40: milliseconds since power on (origin 000b).
pub(crate) fn report_timestamp<D: LogicalDisk>(ctx: &Context<'_, D>) -> Pieces {
    let milliseconds = ctx.lu().world.now().0 / 1_000_000;
    let mut out = [0; 12];
    out[1] = 10;
    out[4..10].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
    cut(&out, ctx.cdb.uint(6, 4))
}
