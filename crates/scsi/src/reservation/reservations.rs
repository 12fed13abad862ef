//! The reservations of a logical unit: pure state, serialised and saved.

use std::cell::{Cell, RefCell};

use lu::LogicalDisk;
use world::sync::Permits;

use super::it_nexus::ItNexus;
use super::record::{Persistence, RECORD_NAME};
use super::state::State;
use crate::error::CommandError;
use crate::nexus::Nexus;
use crate::opcode::Access;

/// The reservations and registrations of one logical unit.
pub(crate) struct Reservations {
    pub(crate) state: RefCell<State>,
    /// One permit: reservation commands run one after the other, because saving takes time.
    pub(super) turn: Permits,
    pub(super) persistence: Persistence,
    /// The saved record has what is no longer in force: the next PERSISTENT RESERVE OUT replaces it.
    pub(super) is_outdated: Cell<bool>,
}

impl Reservations {
    /// The state as last saved with the medium. An invalid record counts as no reservation: nobody could
    /// name its holder, and a logical unit that refuses everybody for ever helps nobody.
    pub(crate) fn load<D: LogicalDisk>(disk: &D, persistence: Persistence) -> Reservations {
        let saved =
            disk.load_record(RECORD_NAME).and_then(|record| State::restore(&record).ok()).unwrap_or_default();
        let had_registrants = saved.has_registrants();
        let state = saved.begun(persistence);
        let is_outdated = had_registrants && !state.has_registrants();
        Reservations { is_outdated: Cell::new(is_outdated), ..Reservations::with(state, persistence) }
    }

    /// This state, which is the saved one if it is to be.
    pub(crate) fn with(state: State, persistence: Persistence) -> Reservations {
        Reservations {
            state: RefCell::new(state),
            turn: Permits::new(1),
            persistence,
            is_outdated: Cell::default(),
        }
    }

    /// Releases a RESERVE whose holder is not one of these.
    pub(crate) fn keep_reserve_of(&self, is_here: impl Fn(&ItNexus) -> bool) {
        self.state.borrow_mut().legacy.take_if(|holder| !is_here(holder));
    }

    /// Whether the nexus may send a command of this class. On the hot path: no allocation, and one comparison
    /// if nothing is reserved.
    pub(crate) fn check(&self, nexus: &Nexus, access: Access) -> Result<(), CommandError> {
        if !self.state.borrow().is_reserved() {
            return Ok(());
        }
        self.check_of(&ItNexus::of(nexus), access)
    }

    /// The same of a nexus by its identity, at a port that may have appeared since hosts registered at all.
    pub(super) fn check_of(&self, nexus: &ItNexus, access: Access) -> Result<(), CommandError> {
        let mut state = self.state.borrow_mut();
        if !state.conflicts(nexus, access) {
            return Ok(());
        }
        let is_registered = state.everywhere.contains_key(&nexus.initiator) && state.appears(nexus.port);
        match is_registered && !state.conflicts(nexus, access) {
            true => Ok(()),
            false => Err(CommandError::ReservationConflict),
        }
    }

    /// Ends a nexus: its RESERVE is released, registrations remain.
    pub(crate) fn nexus_ended(&self, nexus: &Nexus) {
        self.state.borrow_mut().nexus_lost(&ItNexus::of(nexus));
    }

    /// LOGICAL UNIT RESET or target reset: RESERVE is released, persistent reservations stay.
    pub(crate) fn reset(&self) {
        self.state.borrow_mut().reset();
    }
}
