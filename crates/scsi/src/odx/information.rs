//! RECEIVE ROD TOKEN INFORMATION (SPC-5 6.31): the result of a token command, and the token.

use block::Pieces;
use lu::LogicalDisk;

use crate::context::{Context, cut};
use crate::error::CommandError;
use crate::extended_copy::{Operation, Stage};

/// TRANSFER COUNT UNITS: logical blocks (SPC-5 table of transfer count units).
const UNITS_BLOCKS: u8 = 0xF1;
/// ESTIMATED STATUS UPDATE DELAY in milliseconds, while a copy runs: short.
const UPDATE_DELAY_MS: u32 = 100;
/// The same for a copy that has ended: no more updates (SPC-5 6.31).
const NO_MORE_UPDATES: u32 = 0xFFFF_FFFE;

/// RECEIVE ROD TOKEN INFORMATION. The result stays until another copy replaces it, so that a host may ask
/// again with a larger allocation length.
pub(crate) async fn receive_rod_token_information<D: LogicalDisk>(
    ctx: &Context<'_, D>,
) -> Result<Pieces, CommandError> {
    let operation =
        ctx.view.token_lists.find((ctx.seat.lun, ctx.cdb.u32(2))).ok_or(CommandError::field(2))?;
    Ok(cut(&encode(&operation, ctx.lu().block_bytes()), u64::from(ctx.cdb.u32(10))))
}

fn encode(op: &Operation, block_bytes: u32) -> Vec<u8> {
    let status = match op.stage {
        Stage::Done => 0x01,
        Stage::Failed => 0x02,
        Stage::Foreground => 0x11,
        Stage::Background => 0x12,
        Stage::Terminated => 0x60,
    };
    let mut out = vec![0; 4];
    out.extend([op.action & 0x1F, status]);
    // OPERATION COUNTER: one, this one.
    out.extend(1u16.to_be_bytes());
    out.extend(if op.stage.is_running() { UPDATE_DELAY_MS } else { NO_MORE_UPDATES }.to_be_bytes());
    // EXTENDED COPY COMPLETION STATUS: GOOD or CHECK CONDITION.
    let sense_len = u8::try_from(op.sense.len()).unwrap_or(0);
    out.extend([if op.stage == Stage::Failed { 0x02 } else { 0x00 }, sense_len, sense_len, UNITS_BLOCKS]);
    out.extend((op.bytes / u64::from(block_bytes.max(1))).to_be_bytes());
    out.extend(op.segments.to_be_bytes());
    out.extend([0; 6]);
    out.extend(&op.sense[..usize::from(sense_len)]);
    match &op.token {
        Some(token) => {
            out.extend((2 + token.len() as u32).to_be_bytes());
            out.extend([0; 2]);
            out.extend(&token[..]);
        }
        None => out.extend([0; 4]),
    }
    let available = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&available.to_be_bytes());
    out
}
