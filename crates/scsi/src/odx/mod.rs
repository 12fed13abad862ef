//! Offloaded data transfer: POPULATE TOKEN, WRITE USING TOKEN, RECEIVE ROD TOKEN INFORMATION.

use std::marker::PhantomData;

use block::Pieces;

use crate::dispatch::Context;
use crate::error::CommandError;
use crate::medium::Medium;

/// The tokens of all logical units of a controller: a token made on one LU is used on another, by any host that knows it.
pub struct Tokens<M: Medium>(PhantomData<M>);

impl<M: Medium> Default for Tokens<M> {
    fn default() -> Tokens<M> {
        Tokens(PhantomData)
    }
}

/// The token operations of one nexus, by list identifier.
#[derive(Default)]
pub struct TokenLists;

/// The descriptors of the third-party copy VPD page 8Fh, whole (each with its type and length).
pub(crate) fn vpd_descriptors(_block_bytes: u32) -> Vec<u8> {
    Vec::new()
}

pub(crate) async fn populate_token<M: Medium>(_ctx: &Context<'_, M>) -> Result<Pieces, CommandError> {
    Err(CommandError::InvalidOpcode)
}

pub(crate) async fn write_using_token<M: Medium>(_ctx: &Context<'_, M>) -> Result<Pieces, CommandError> {
    Err(CommandError::InvalidOpcode)
}

pub(crate) async fn receive_rod_token_information<M: Medium>(_ctx: &Context<'_, M>) -> Result<Pieces, CommandError> {
    Err(CommandError::InvalidOpcode)
}
