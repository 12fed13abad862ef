//! The state of a logical unit that is in memory only. It goes with the logical unit when that moves to
//! another controller of its array, so that a host that sees it over both notices no reset.

use std::rc::Rc;

use lu::{LogicalDisk, NexusId};
use serde::{Deserialize, Serialize};
use world::World;

use crate::attention::{Attention, Attentions};
use crate::counters::Counting;
use crate::history::History;
use crate::limits::COPIES_MAX;
use crate::mode::Modes;
use crate::nexus::Nexus;
use crate::reservation::{ItNexus, Persistence, Reservations, State};
use crate::unit::{Identity, LogicalUnit};

/// What a logical unit takes along: mode parameters that no host has saved, reservations (also those that do
/// not survive a power failure, and RESERVE), the unit attentions that nexuses have not heard of yet, its
/// counters, and which commands that arrived before must not be executed.
///
/// What does not go along: ROD tokens, and the results of copies. A host that asks for them learns that they
/// are unknown, and does the work itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolatileState {
    modes: crate::mode::Changeable,
    reservations: State,
    attentions: Vec<Waiting>,
    counting: Counting,
    history: History,
}

/// The unit attentions that a nexus has not heard of.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    #[serde(with = "crate::nexus::Id")]
    nexus: NexusId,
    attentions: Attentions,
}

impl Waiting {
    fn of((nexus, attentions): &(NexusId, Attentions)) -> Waiting {
        Waiting { nexus: *nexus, attentions: attentions.clone() }
    }
}

impl VolatileState {
    /// The same state for another process of the array, or from one: `number` gives the number there, or
    /// here, of an event ([`Arrival::event`](crate::Arrival::event)).
    pub fn renumber(&mut self, number: impl Fn(u64) -> u64) {
        self.history.renumber(number);
    }

    /// Whether no list in it is longer than a logical unit makes it: it may come from a wire.
    pub fn is_within_limits(&self) -> bool {
        self.history.is_within_limits()
    }
}

impl<D: LogicalDisk> LogicalUnit<D> {
    /// A logical unit on `disk` that has come from another controller with this state.
    pub(crate) fn moved_in(
        world: World,
        identity: Identity,
        disk: D,
        (state, persistence): (VolatileState, Persistence),
    ) -> Rc<LogicalUnit<D>> {
        let modes = Modes::load(&disk);
        modes.now.set(state.modes);
        let reservations = Reservations::with(state.reservations, persistence);
        let lu = LogicalUnit::of(world, identity, disk, (modes, reservations, state.counting, state.history));
        let moved = state.attentions.into_iter().map(|waiting| (waiting.nexus, waiting.attentions));
        *lu.moved.borrow_mut() = moved.collect();
        lu
    }

    /// The state that goes along when the logical unit has left all views ([`View::move_out`]) and no command
    /// runs.
    ///
    /// [`View::move_out`]: crate::View::move_out
    pub fn move_out(&self) -> VolatileState {
        VolatileState {
            modes: self.modes.now.get(),
            reservations: self.reservations.state.borrow().clone(),
            attentions: self.moved.borrow().iter().map(Waiting::of).collect(),
            counting: self.counting.clone(),
            history: self.history.clone(),
        }
    }

    /// A nexus leaves for another controller: it has not ended.
    pub(crate) fn nexus_moves(&self, nexus: &Rc<Nexus>) {
        self.forget(nexus);
        self.moved.borrow_mut().push((nexus.id, nexus.attentions.clone()));
    }

    /// The unit attentions with which a nexus begins: a new one hears of a reset, one that has moved of what
    /// it had not heard yet, and that the paths have changed.
    pub(crate) fn first_attentions(&self, id: NexusId) -> Attentions {
        let mut moved = self.moved.borrow_mut();
        let known = moved.iter().position(|(nexus, _)| *nexus == id).map(|at| moved.swap_remove(at).1);
        match known {
            Some(attentions) => {
                attentions.raise(Attention::AccessStateChanged);
                attentions
            }
            None => Attentions::of(Attention::PowerOn),
        }
    }

    /// The move is over: a nexus that has not come has ended meanwhile, and with it its RESERVE.
    pub fn arrived(&self) {
        self.moved.borrow_mut().clear();
        let nexuses = self.nexuses();
        self.reservations.keep_reserve_of(|holder| nexuses.iter().any(|nexus| *holder == ItNexus::of(nexus)));
    }

    /// Whether nothing runs on it that only its own end interrupts.
    pub fn may_move(&self) -> bool {
        !self.sanitizing.is_running() && self.atomics.check().is_ok()
    }

    /// Whether a host's copy runs on it, maybe in the background: it may take long, and nobody waits for it.
    pub fn is_copying(&self) -> bool {
        self.copying.free() < COPIES_MAX
    }
}
