//! EXTENDED COPY (LID1) and RECEIVE COPY RESULTS.

use block::Pieces;

use crate::dispatch::Context;
use crate::error::CommandError;
use crate::medium::Medium;

/// The copy lists of one nexus, by list identifier.
#[derive(Default)]
pub struct CopyLists;

pub(crate) async fn extended_copy<M: Medium>(_ctx: &Context<'_, M>) -> Result<Pieces, CommandError> {
    Err(CommandError::InvalidOpcode)
}

pub(crate) async fn receive_copy_results<M: Medium>(_ctx: &Context<'_, M>) -> Result<Pieces, CommandError> {
    Err(CommandError::InvalidOpcode)
}
