//! Reservations: persistent ones and RESERVE/RELEASE.

use block::Pieces;

use crate::dispatch::Context;
use crate::error::CommandError;
use crate::medium::Medium;
use crate::nexus::Nexus;
use crate::opcode::Access;

/// The reservations and registrations of one logical unit.
#[derive(Default)]
pub struct Reservations;

impl Reservations {
    /// The state as it was last saved with the medium (APTPL).
    pub(crate) fn load<M: Medium>(_medium: &M) -> Reservations {
        Reservations
    }

    /// Whether the nexus may give a command of this class. On the hot path: no allocation, and one compare when nothing is reserved.
    pub(crate) fn check(&self, _nexus: &Nexus, _access: Access) -> Result<(), CommandError> {
        Ok(())
    }

    /// The nexus has ended: a RESERVE of it is released, registrations stay.
    pub(crate) fn nexus_ended(&self, _nexus: &Nexus) {}

    /// LOGICAL UNIT RESET or target reset: RESERVE is released, persistent reservations stay.
    pub(crate) fn reset(&self) {}
}

pub(crate) async fn persistent_in<M: Medium>(_ctx: &Context<'_, M>) -> Result<Pieces, CommandError> {
    Err(CommandError::InvalidOpcode)
}

pub(crate) async fn persistent_out<M: Medium>(_ctx: &Context<'_, M>) -> Result<Pieces, CommandError> {
    Err(CommandError::InvalidOpcode)
}

pub(crate) async fn reserve<M: Medium>(_ctx: &Context<'_, M>) -> Result<Pieces, CommandError> {
    Err(CommandError::InvalidOpcode)
}

pub(crate) async fn release<M: Medium>(_ctx: &Context<'_, M>) -> Result<Pieces, CommandError> {
    Err(CommandError::InvalidOpcode)
}
