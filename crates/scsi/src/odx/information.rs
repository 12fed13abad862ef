//! RECEIVE ROD TOKEN INFORMATION (SPC-5 6.31): the result of a token command, and the token.

use block::Pieces;
use lu::LogicalDisk;

use crate::context::{Context, cut};
use crate::error::CommandError;
use crate::extended_copy::{Operation, copy_status_lid4, with_available_len};

/// RECEIVE ROD TOKEN INFORMATION. The result stays until another copy replaces it, so that a host may ask
/// again with a larger allocation length.
pub(crate) async fn receive_rod_token_information<D: LogicalDisk>(
    ctx: &Context<'_, D>,
) -> Result<Pieces, CommandError> {
    let operation =
        ctx.view.copies_lid4.find((ctx.seat.lun, ctx.cdb.u32(2))).ok_or(CommandError::field(2))?;
    Ok(cut(&encode(&operation, ctx.lu().block_bytes()), u64::from(ctx.cdb.u32(10))))
}

fn encode(op: &Operation, block_bytes: u32) -> Vec<u8> {
    let mut out = copy_status_lid4(op, block_bytes);
    match &op.token {
        Some(token) => {
            out.extend((2 + token.len() as u32).to_be_bytes());
            out.extend([0; 2]);
            out.extend(&token[..]);
        }
        None => out.extend([0; 4]),
    }
    with_available_len(out)
}
