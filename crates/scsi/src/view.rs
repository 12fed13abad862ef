//! The view of one host through one nexus: its logical units by LUN.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use lu::{LogicalDisk, NexusId};

use crate::attention::Attention;
use crate::error::TokenFault;
use crate::extended_copy::Operations;
use crate::formats::Formats;
use crate::holding::Holding;
use crate::host_view::{Elsewhere, HostTraffic, Owner, PortTraffic, Traffic};
use crate::nexus::{InitiatorPort, Nexus, Ports, TargetPort};
use crate::odx::{InUse, Token, Tokens};
use crate::places::Places;
use crate::reported_luns::ReportedLuns;
use crate::request::Lun;
use crate::trace::Tracer;
use crate::unit::{LogicalUnit, Unavailable};

/// The parameters of a view.
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct ViewSpec<D: LogicalDisk> {
    pub nexus: NexusId,
    /// The host's end.
    pub initiator: InitiatorPort,
    /// The array's end.
    pub port: Rc<TargetPort>,
    /// All target ports to the same LUs (REPORT TARGET PORT GROUPS).
    pub ports: Rc<Ports>,
    /// The other controllers of the array: copies reach the logical units there, too.
    pub others: Rc<[Rc<dyn Owner>]>,
    /// The ROD tokens of the controller.
    pub tokens: Rc<Tokens<D>>,
    /// Counts the commands and bytes of the port, over all its sessions.
    pub port_traffic: Rc<PortTraffic>,
    /// Counts those of the host, over all its sessions.
    pub host_traffic: Rc<HostTraffic>,
    /// Chooses the commands that are traced; none: no command of this view is.
    pub tracer: Option<Rc<Tracer>>,
    /// Whether the session is at a port of this controller. Only there the host hears that its LUNs have
    /// changed: what crosses to the owner has passed it.
    pub at_port: bool,
}

/// A logical unit at its LUN in a view.
pub(crate) struct Seat<D: LogicalDisk> {
    /// Its number here.
    pub lun: Lun,
    pub lu: Rc<LogicalUnit<D>>,
    /// This nexus, as the logical unit knows it.
    pub nexus: Rc<Nexus>,
}

/// The view of one nexus. Dropping it ends the nexus.
pub struct View<D: LogicalDisk> {
    pub(crate) nexus: NexusId,
    pub(crate) initiator: Arc<InitiatorPort>,
    pub(crate) port: Rc<TargetPort>,
    pub(crate) ports: Rc<Ports>,
    pub(crate) others: Rc<[Rc<dyn Owner>]>,
    pub(crate) tokens: Rc<Tokens<D>>,
    /// Copies with a one-byte list identifier.
    pub(crate) copies_lid1: Operations,
    /// Copies with a four-byte list identifier, and those of tokens.
    pub(crate) copies_lid4: Operations,
    pub(crate) seats: RefCell<BTreeMap<Lun, Rc<Seat<D>>>>,
    /// Logical units of other controllers, ordered by number.
    pub(crate) elsewhere: RefCell<Vec<Elsewhere>>,
    /// Logical units of this controller that cannot be served now.
    unavailable: RefCell<BTreeMap<Lun, Unavailable>>,
    pub(crate) places: Places,
    pub(crate) reported_luns: ReportedLuns,
    pub(crate) formats: Formats,
    pub(crate) holding: Holding,
    pub(crate) at_port: bool,
    traffic: Traffic,
    pub(crate) tracer: Option<Rc<Tracer>>,
    pub(crate) port_traffic: Rc<PortTraffic>,
    pub(crate) host_traffic: Rc<HostTraffic>,
}

impl<D: LogicalDisk> View<D> {
    /// An empty view.
    pub fn new(spec: ViewSpec<D>) -> View<D> {
        View {
            nexus: spec.nexus,
            initiator: Arc::new(spec.initiator),
            port: spec.port,
            ports: spec.ports,
            others: spec.others,
            tokens: spec.tokens,
            copies_lid1: Operations::default(),
            copies_lid4: Operations::default(),
            seats: RefCell::default(),
            elsewhere: RefCell::default(),
            unavailable: RefCell::default(),
            places: Places::default(),
            reported_luns: ReportedLuns::default(),
            formats: Formats::default(),
            holding: Holding::default(),
            at_port: spec.at_port,
            traffic: Traffic::default(),
            tracer: spec.tracer,
            port_traffic: spec.port_traffic,
            host_traffic: spec.host_traffic,
        }
    }

    /// Maps a logical unit. The host gets one unit attention (3Fh/0Eh).
    pub fn map(&self, lun: Lun, lu: Rc<LogicalUnit<D>>) {
        self.change(&[lun], BTreeMap::from([(lun, lu)]));
    }

    /// Unmaps logical units, and maps others. The host gets one unit attention.
    pub fn change(&self, gone: &[Lun], fresh: BTreeMap<Lun, Rc<LogicalUnit<D>>>) {
        if gone.is_empty() && fresh.is_empty() {
            return;
        }
        for lun in gone {
            let seat = self.seats.borrow_mut().remove(lun);
            if let Some(seat) = seat {
                seat.lu.leave(&seat.nexus);
                self.gone(*lun);
            }
        }
        // One that moves between controllers stays where the host sees it.
        if gone.iter().chain(fresh.keys()).any(|lun| !self.holding.holds(*lun)) {
            self.reported_luns.changed();
        }
        fresh.into_iter().for_each(|(lun, lu)| self.seat_unit(lun, lu));
    }

    fn seat_unit(&self, lun: Lun, lu: Rc<LogicalUnit<D>>) {
        let attentions = lu.first_attentions(self.nexus);
        if self.places.put(lun, lu.identity.key) {
            attentions.raise(Attention::InquiryDataChanged);
        }
        let nexus = Rc::new(Nexus {
            id: self.nexus,
            initiator: self.initiator.clone(),
            port: self.port.clone(),
            attentions,
            ended: false.into(),
            cleared: 0.into(),
        });
        lu.join(nexus.clone());
        self.seats.borrow_mut().insert(lun, Rc::new(Seat { lun, lu, nexus }));
    }

    /// Unmaps a logical unit. Running commands on it are aborted.
    pub fn unmap(&self, lun: Lun) {
        let seat = self.seats.borrow_mut().remove(&lun);
        if let Some(seat) = seat {
            seat.lu.leave(&seat.nexus);
            self.gone(lun);
            self.reported_luns.changed();
        }
    }

    /// Nothing is at a LUN any more, unless it is held: then it moves.
    fn gone(&self, lun: Lun) {
        if !self.holding.holds(lun) {
            self.places.clear(lun);
        }
    }

    /// The mapped logical units of other controllers.
    pub fn set_elsewhere(&self, mut units: Vec<Elsewhere>) {
        // Searched by every command: there may be thousands.
        units.sort_unstable_by_key(|unit| unit.lun);
        let before = self.elsewhere.replace(units);
        let now = self.elsewhere.borrow();
        let stays = |unit: &&Elsewhere| !self.holding.holds(unit.lun);
        let which = |unit: &Elsewhere| (unit.lun, unit.key);
        if !before.iter().filter(stays).map(which).eq(now.iter().filter(stays).map(which)) {
            self.reported_luns.changed();
        }
        let seats = self.seats.borrow();
        for unit in &before {
            if !seats.contains_key(&unit.lun) && now.binary_search_by_key(&unit.lun, |u| u.lun).is_err() {
                self.gone(unit.lun);
            }
        }
        for unit in now.iter() {
            self.places.put(unit.lun, unit.key);
        }
    }

    /// The mapped logical units of this controller that cannot be served now. Called after the others are
    /// mapped: one that is open by now stays where the host has seen it.
    pub fn set_unavailable(&self, units: BTreeMap<Lun, Unavailable>) {
        let before = self.unavailable.replace(units);
        let now = self.unavailable.borrow();
        let is_there =
            |lun: &Lun| self.seats.borrow().contains_key(lun) || self.elsewhere(Some(*lun)).is_some();
        before.keys().filter(|lun| !now.contains_key(lun) && !is_there(lun)).for_each(|lun| self.gone(*lun));
        now.iter().for_each(|(lun, unit)| _ = self.places.put(*lun, unit.key));
        if before.keys().any(|lun| !now.contains_key(lun)) || now.keys().any(|lun| !before.contains_key(lun))
        {
            self.reported_luns.changed();
        }
    }

    /// Holds these LUNs, and no others: their commands wait, because the logical units move between
    /// controllers.
    pub fn hold(&self, luns: BTreeSet<Lun>) {
        self.holding.set(luns);
    }

    /// Whether any LUN is held.
    pub fn is_holding(&self) -> bool {
        self.holding.is_on()
    }

    /// The controller stops: commands that wait for a logical unit that moves are to be sent again.
    pub fn stop_holding(&self) {
        self.holding.stop();
    }

    /// Takes a held logical unit out of the view: it moves to another controller, and its nexus with it.
    pub fn move_out(&self, lun: Lun) {
        let seat = self.seats.borrow_mut().remove(&lun);
        let Some(seat) = seat else { return };
        seat.lu.nexus_moves(&seat.nexus);
        // Transports go on asking how much data its commands have.
        let unit =
            Elsewhere { lun, key: seat.lu.identity.key, block_bytes: seat.lu.block_bytes(), owner: None };
        let mut elsewhere = self.elsewhere.borrow_mut();
        let at = elsewhere.partition_point(|other| other.lun < lun);
        elsewhere.insert(at, unit);
    }

    /// The list of target ports has changed: the host gets a unit attention from each logical unit of this
    /// controller.
    pub fn access_state_changed(&self) {
        for seat in self.seats.borrow().values() {
            seat.nexus.attentions.raise(Attention::AccessStateChanged);
        }
    }

    /// Whether the session has ended.
    pub fn has_ended(&self) -> bool {
        self.holding.has_ended()
    }

    /// The traffic of this nexus.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Counts a command.
    pub(crate) fn count(&self, bytes_in: u64, bytes_out: u64) {
        self.traffic.add(bytes_in, bytes_out);
        self.port_traffic.traffic.add(bytes_in, bytes_out);
        if self.at_port {
            self.host_traffic.traffic.add(bytes_in, bytes_out);
        }
    }

    pub(crate) fn elsewhere(&self, lun: Option<Lun>) -> Option<Elsewhere> {
        let units = self.elsewhere.borrow();
        let found = units.binary_search_by_key(&lun?, |unit| unit.lun).ok()?;
        Some(units[found].clone())
    }

    /// A logical unit of another controller, with its owner, if commands may cross.
    pub(crate) fn owner(&self, lun: Option<Lun>) -> Option<(Elsewhere, Rc<dyn Owner>)> {
        let mut unit = self.elsewhere(lun)?;
        let owner = unit.owner.take()?;
        Some((unit, owner))
    }

    /// The logical units of this controller, by LUN.
    pub fn mapped(&self) -> Vec<(Lun, Rc<LogicalUnit<D>>)> {
        self.seats.borrow().values().map(|s| (s.lun, s.lu.clone())).collect()
    }

    /// All mapped LUNs, on this and on other controllers, in order.
    pub(crate) fn luns(&self) -> Vec<Lun> {
        let mut luns: Vec<Lun> = self.seats.borrow().keys().copied().collect();
        luns.extend(self.elsewhere.borrow().iter().map(|unit| unit.lun));
        luns.extend(self.unavailable.borrow().keys());
        luns.sort_unstable();
        luns.dedup();
        luns
    }

    /// What is mapped to a LUN and cannot be served now.
    pub(crate) fn unavailable(&self, lun: Option<Lun>) -> Option<Unavailable> {
        self.unavailable.borrow().get(&lun?).cloned()
    }

    /// The seat of a LUN.
    pub(crate) fn seat(&self, lun: Lun) -> Option<Rc<Seat<D>>> {
        self.seats.borrow().get(&lun).cloned()
    }

    /// The first seat whose logical unit `is` selects. Third-party copies use it to find the LU of a
    /// descriptor, and never one that is not mapped to the requesting host.
    pub(crate) fn find(&self, is: impl Fn(&LogicalUnit<D>) -> bool) -> Option<Rc<Seat<D>>> {
        self.seats.borrow().values().find(|s| is(&s.lu)).cloned()
    }

    /// A token that this controller made, if its source is mapped to the host.
    pub(crate) fn take_token(&self, token: &Token) -> Result<InUse<D>, TokenFault> {
        self.tokens.take(token, |naa| self.find(|lu| lu.identity.naa == *naa).is_some())
    }

    /// Ends the nexus on every logical unit: aborts its commands and releases a RESERVE. The controllers that
    /// its commands may have reached are told at once, not when the last command has ended: the host may have
    /// sent it again over another path, and one that runs on would write over what came after it.
    pub fn end_nexus(&self) {
        let has_ended = self.holding.end();
        self.seats.borrow().values().for_each(|s| s.lu.leave(&s.nexus));
        if self.at_port && !has_ended {
            self.others.iter().for_each(|other| other.end());
        }
    }
}

impl<D: LogicalDisk> Drop for View<D> {
    fn drop(&mut self) {
        self.end_nexus();
    }
}
