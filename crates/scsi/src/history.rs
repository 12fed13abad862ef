//! What has happened to a logical unit that commands from before it must not outlive, though no task set
//! knows them yet ([`crate::arrival`]).

use std::cell::{Cell, RefCell};

use lu::NexusId;
use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::nexus::Nexus;
use crate::request::Lun;
use crate::reservation::ItNexus;

/// PREEMPT AND ABORT is remembered for this many nexuses: more than may be registered at once.
const PREEMPTED_MAX: usize = 1024;

/// Commands were aborted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Abort {
    at: u64,
    /// Whose own commands its transport has aborted.
    #[serde(with = "crate::nexus::Id")]
    by: NexusId,
    /// Those at this LUN; none: at all of its LUNs.
    lun: Option<Lun>,
    /// The control mode page then said that hosts are told (TAS).
    told: bool,
    /// CLEAR TASK SET: who lost commands gets a unit attention.
    clears: bool,
}

/// Why a command is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// It is older than the logical unit: it was sent to another one.
    ForAnother,
    /// Another nexus aborted it. `told`: the host gets TASK ABORTED.
    Aborted { told: bool },
}

/// The last events of a logical unit; by default of one to which nothing has happened since the first
/// command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct History {
    /// The last of all: all that a command compares otherwise.
    latest: Cell<u64>,
    /// The logical unit came into being.
    began: u64,
    /// The last abort of the commands of all nexuses.
    all: Cell<Option<Abort>>,
    /// The aborts of single nexuses.
    preempted: RefCell<Vec<(ItNexus, Abort)>>,
    /// A sanitize operation began.
    sanitized: Cell<u64>,
}

impl History {
    /// That of a logical unit which comes into being.
    pub(crate) fn new() -> History {
        let began = Arrival::event();
        History {
            latest: Cell::new(began),
            began,
            all: Cell::default(),
            preempted: RefCell::default(),
            sanitized: Cell::default(),
        }
    }

    /// The same with other numbers of its events: in the order of another process.
    pub(crate) fn renumber(&mut self, number: impl Fn(u64) -> u64) {
        let History { latest, began, all, preempted, sanitized } = self;
        let of = |abort: &mut Abort| abort.at = number(abort.at);
        let numbers = [latest.get_mut(), began, sanitized.get_mut()];
        numbers.into_iter().for_each(|at| *at = number(*at));
        all.get_mut().iter_mut().for_each(of);
        preempted.get_mut().iter_mut().for_each(|(_, abort)| of(abort));
    }

    /// Whether it remembers no more than it may.
    pub(crate) fn is_within_limits(&self) -> bool {
        self.preempted.borrow().len() <= PREEMPTED_MAX
    }

    fn abort(&self, (by, lun): (NexusId, Option<Lun>), told: bool, clears: bool) -> Abort {
        let at = Arrival::event();
        self.latest.set(at);
        Abort { at, by, lun, told, clears }
    }

    /// Aborts the commands of all nexuses that arrived before this; gives its number. `by`: the nexus, and
    /// the LUN at which its transport has aborted its commands.
    pub(crate) fn abort_all(&self, by: (NexusId, Option<Lun>), told: bool, clears: bool) -> u64 {
        let abort = self.abort(by, told, clears);
        self.all.set(Some(abort));
        abort.at
    }

    /// PREEMPT AND ABORT: those of these nexuses.
    pub(crate) fn abort_of(&self, by: NexusId, nexuses: &[ItNexus], told: bool) {
        let abort = self.abort((by, None), told, false);
        let mut preempted = self.preempted.borrow_mut();
        preempted.retain(|(nexus, _)| !nexuses.contains(nexus));
        preempted.extend(nexuses.iter().map(|nexus| (nexus.clone(), abort)));
        let over = preempted.len().saturating_sub(PREEMPTED_MAX);
        preempted.drain(..over);
    }

    /// A sanitize operation begins.
    pub(crate) fn sanitize(&self) {
        self.sanitized.set(Arrival::event());
    }

    /// Whether a sanitize operation has begun since the command arrived.
    pub(crate) fn is_sanitized_since(&self, arrival: Arrival) -> bool {
        arrival.is_before(self.sanitized.get())
    }

    /// Whether a command of this nexus at this LUN must not be executed any more.
    pub(crate) fn check(&self, arrival: Arrival, (nexus, lun): (&Nexus, Lun)) -> Result<(), Stale> {
        if !arrival.is_before(self.latest.get()) {
            return Ok(());
        }
        if arrival.is_before(self.began) {
            return Err(Stale::ForAnother);
        }
        // The host may see the logical unit at a second LUN, of which the transport knows nothing.
        let is_own = |abort: &Abort| abort.by == nexus.id && abort.lun.is_none_or(|own| own == lun);
        let ends = |abort: &Abort| arrival.is_before(abort.at) && !is_own(abort);
        let preempted = || {
            let all = self.preempted.borrow();
            all.iter().find(|(of, abort)| ends(abort) && *of == ItNexus::of(nexus)).map(|(_, abort)| *abort)
        };
        let Some(abort) = self.all.get().filter(ends).or_else(preempted) else { return Ok(()) };
        if abort.clears {
            nexus.lost_commands(abort.at);
        }
        Err(Stale::Aborted { told: abort.told })
    }
}
