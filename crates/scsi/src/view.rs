//! What one host sees through one nexus: its logical units by number, and nothing else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use lu::{LogicalDisk, NexusId};

use crate::attention::{Attention, Attentions};
use crate::extended_copy::CopyLists;
use crate::host_view::{Elsewhere, Owner, Traffic};
use crate::nexus::{InitiatorPort, Nexus, TargetPort};
use crate::odx::{TokenLists, Tokens};
use crate::request::Lun;
use crate::unit::LogicalUnit;

/// What a view is made from.
pub struct ViewSpec<D: LogicalDisk> {
    /// The nexus.
    pub nexus: NexusId,
    /// The host's end.
    pub initiator: InitiatorPort,
    /// The array's end.
    pub port: Rc<TargetPort>,
    /// All target ports through which the same LUs are reached (REPORT TARGET PORT GROUPS).
    pub ports: Rc<[TargetPort]>,
    /// The tokens of the controller.
    pub tokens: Rc<Tokens<D>>,
    /// What went through the port.
    pub port_traffic: Rc<Traffic>,
}

/// A logical unit in its place within a view.
pub(crate) struct Seat<D: LogicalDisk> {
    /// Its number here.
    pub lun: Lun,
    /// The logical unit.
    pub lu: Rc<LogicalUnit<D>>,
    /// This nexus, as the logical unit knows it.
    pub nexus: Rc<Nexus>,
}

/// The view of one nexus. Dropping it ends the nexus.
pub struct View<D: LogicalDisk> {
    pub(crate) nexus: NexusId,
    pub(crate) initiator: Rc<InitiatorPort>,
    pub(crate) port: Rc<TargetPort>,
    pub(crate) ports: Rc<[TargetPort]>,
    pub(crate) tokens: Rc<Tokens<D>>,
    pub(crate) copy_lists: CopyLists,
    pub(crate) token_lists: TokenLists,
    pub(crate) seats: RefCell<BTreeMap<Lun, Rc<Seat<D>>>>,
    /// Logical units of other controllers, ordered by number.
    pub(crate) elsewhere: RefCell<Vec<Elsewhere>>,
    traffic: Traffic,
    port_traffic: Rc<Traffic>,
}

impl<D: LogicalDisk> View<D> {
    /// A view without logical units.
    pub fn new(spec: ViewSpec<D>) -> View<D> {
        View {
            nexus: spec.nexus,
            initiator: Rc::new(spec.initiator),
            port: spec.port,
            ports: spec.ports,
            tokens: spec.tokens,
            copy_lists: CopyLists::default(),
            token_lists: TokenLists::default(),
            seats: RefCell::default(),
            elsewhere: RefCell::default(),
            traffic: Traffic::default(),
            port_traffic: spec.port_traffic,
        }
    }

    /// Maps a logical unit. The host hears of it on every logical unit that it sees already (3Fh/0Eh).
    pub fn map(&self, lun: Lun, lu: Rc<LogicalUnit<D>>) {
        self.change(&[lun], BTreeMap::from([(lun, lu)]));
    }

    /// Takes logical units from the view, and maps others. The host hears of it once on each that it saw and still sees.
    pub fn change(&self, gone: &[Lun], fresh: BTreeMap<Lun, Rc<LogicalUnit<D>>>) {
        if gone.is_empty() && fresh.is_empty() {
            return;
        }
        for lun in gone {
            let seat = self.seats.borrow_mut().remove(lun);
            if let Some(seat) = seat {
                seat.lu.leave(&seat.nexus);
            }
        }
        self.luns_changed();
        fresh.into_iter().for_each(|(lun, lu)| self.seat_unit(lun, lu));
    }

    fn seat_unit(&self, lun: Lun, lu: Rc<LogicalUnit<D>>) {
        let nexus = Rc::new(Nexus {
            id: self.nexus,
            initiator: self.initiator.clone(),
            port: self.port.clone(),
            attentions: Attentions::default(),
            ended: false.into(),
        });
        nexus.attentions.raise(Attention::PowerOn);
        lu.join(nexus.clone());
        self.seats.borrow_mut().insert(lun, Rc::new(Seat { lun, lu, nexus }));
    }

    /// Takes a logical unit from the view. Commands that run on it are aborted.
    pub fn unmap(&self, lun: Lun) {
        let seat = self.seats.borrow_mut().remove(&lun);
        if let Some(seat) = seat {
            seat.lu.leave(&seat.nexus);
            self.luns_changed();
        }
    }

    /// The logical units that the host sees on other controllers.
    pub fn set_elsewhere(&self, mut units: Vec<Elsewhere>) {
        // Every command looks here: there may be thousands.
        units.sort_unstable_by_key(|unit| unit.lun);
        let before = self.elsewhere.replace(units);
        if !before.iter().map(|unit| unit.lun).eq(self.elsewhere.borrow().iter().map(|unit| unit.lun)) {
            self.luns_changed();
        }
    }

    /// What went through this nexus.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Counts a command.
    pub(crate) fn count(&self, bytes_in: u64, bytes_out: u64) {
        self.traffic.add(bytes_in, bytes_out);
        self.port_traffic.add(bytes_in, bytes_out);
    }

    pub(crate) fn elsewhere(&self, lun: Option<Lun>) -> Option<Elsewhere> {
        let units = self.elsewhere.borrow();
        let found = units.binary_search_by_key(&lun?, |unit| unit.lun).ok()?;
        Some(units[found].clone())
    }

    /// The controller that serves a number when it is another one.
    pub(crate) fn owner(&self, lun: Option<Lun>) -> Option<Rc<dyn Owner>> {
        self.elsewhere(lun)?.owner
    }

    /// The logical units here, by number.
    pub fn mapped(&self) -> Vec<(Lun, Rc<LogicalUnit<D>>)> {
        self.seats.borrow().values().map(|s| (s.lun, s.lu.clone())).collect()
    }

    /// Every number under which the host sees a logical unit, here or on another controller, in order.
    pub(crate) fn luns(&self) -> Vec<Lun> {
        let mut luns: Vec<Lun> = self.seats.borrow().keys().copied().collect();
        luns.extend(self.elsewhere.borrow().iter().map(|unit| unit.lun));
        luns.sort_unstable();
        luns.dedup();
        luns
    }

    /// Tells every LU of this nexus, unless the host is yet to be told that the nexus is new: then it looks anyway.
    fn luns_changed(&self) {
        let seats = self.seats.borrow();
        let asked_before = seats.values().filter(|s| !s.nexus.attentions.has(Attention::PowerOn));
        asked_before.for_each(|s| s.nexus.attentions.raise(Attention::ReportedLunsChanged));
    }

    /// REPORT LUNS was answered: nothing about it is pending on any LU of this nexus (SPC-5 6.36).
    pub(crate) fn luns_reported(&self) {
        self.seats.borrow().values().for_each(|s| s.nexus.attentions.clear(Attention::ReportedLunsChanged));
    }

    /// The seat of a number.
    pub(crate) fn seat(&self, lun: Lun) -> Option<Rc<Seat<D>>> {
        self.seats.borrow().get(&lun).cloned()
    }

    /// The first seat whose logical unit `is` selects: how third-party copies find what a descriptor names, and nothing
    /// that is not mapped to the asking host.
    pub(crate) fn find(&self, is: impl Fn(&LogicalUnit<D>) -> bool) -> Option<Rc<Seat<D>>> {
        self.seats.borrow().values().find(|s| is(&s.lu)).cloned()
    }

    /// Ends the nexus on every logical unit: its commands are aborted, and a RESERVE is released.
    pub(crate) fn leave_all(&self) {
        self.seats.borrow().values().for_each(|s| s.lu.leave(&s.nexus));
    }
}

impl<D: LogicalDisk> Drop for View<D> {
    fn drop(&mut self) {
        self.leave_all();
    }
}
