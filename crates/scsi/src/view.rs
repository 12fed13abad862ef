//! What one host sees through one nexus: its logical units by number, and nothing else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use block::Pieces;
use lu::{LogicalDisk, NexusId};

use crate::attention::{Attention, Attentions};
use crate::cdb::Cdb;
use crate::dispatch;
use crate::error::CommandError;
use crate::extended_copy::CopyLists;
use crate::host_view::{Elsewhere, HostView, Owner, Traffic};
use crate::nexus::{InitiatorPort, Nexus, TargetPort};
use crate::odx::{TokenLists, Tokens};
use crate::opcode;
use crate::request::{Lun, Request, Response, Status, TaskFunction, TaskOutcome};
use crate::sense::{Format, failure_of};
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

/// How much data-out a CDB asks for on a logical unit with this block length.
fn data_out_len(cdb: &[u8; 16], block_bytes: u32) -> u64 {
    let cdb = Cdb(*cdb);
    let asked =
        opcode::find(&cdb).map_or(0, |c| c.data_out_len(&cdb, block_bytes) + c.data_out_over(block_bytes));
    if asked <= dispatch::DATA_OUT_BYTES_MAX { asked } else { 0 }
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
    seats: RefCell<BTreeMap<Lun, Rc<Seat<D>>>>,
    /// Logical units of other controllers, ordered by number.
    elsewhere: RefCell<Vec<Elsewhere>>,
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

    fn elsewhere(&self, lun: Option<Lun>) -> Option<Elsewhere> {
        let units = self.elsewhere.borrow();
        let found = units.binary_search_by_key(&lun?, |unit| unit.lun).ok()?;
        Some(units[found].clone())
    }

    /// The controller that serves a number when it is another one.
    fn owner(&self, lun: Option<Lun>) -> Option<Rc<dyn Owner>> {
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

    /// What is answered where no logical unit is (SPC-5 4.2, SAM-5 4.7.4).
    fn execute_without_unit(&self, request: &Request) -> Response {
        let cdb = Cdb(request.cdb);
        match dispatch::without_unit(self, &cdb) {
            Ok(data_in) => Response {
                status: Status::Good,
                sense: Vec::new(),
                data_in,
                data_out_wanted: 0,
                aborted: false,
            },
            Err(error) => respond_failed(&error, 1, Format::Fixed, 0),
        }
    }

    /// A function on the logical units of this controller. It returns when the commands that it ended have ended.
    async fn manage_here(&self, function: TaskFunction) -> TaskOutcome {
        let on = |lun| self.seat(lun);
        match function {
            TaskFunction::AbortTask(lun, tag) => {
                let Some(seat) = on(lun) else { return TaskOutcome::NoSuchLun };
                seat.lu.abort_one(self.nexus, tag);
                seat.lu.tasks.aborted_ended().await;
            }
            TaskFunction::AbortTaskSet(lun) => {
                let Some(seat) = on(lun) else { return TaskOutcome::NoSuchLun };
                seat.lu.abort(Some(self.nexus), None, |id| id == self.nexus);
                seat.lu.tasks.aborted_ended().await;
            }
            TaskFunction::ClearTaskSet(lun) => {
                let Some(seat) = on(lun) else { return TaskOutcome::NoSuchLun };
                seat.lu.clear_task_set(self.nexus).await;
            }
            TaskFunction::LunReset(lun) => {
                let Some(seat) = on(lun) else { return TaskOutcome::NoSuchLun };
                seat.lu.reset(self.nexus, Attention::DeviceReset).await;
            }
            TaskFunction::TargetReset => {
                let seats: Vec<_> = self.seats.borrow().values().cloned().collect();
                for seat in seats {
                    seat.lu.reset(self.nexus, Attention::PowerOn).await;
                }
            }
        }
        TaskOutcome::Complete
    }

    /// A target reset reaches every controller that serves this host.
    async fn reset_elsewhere(&self) {
        let mut owners: Vec<Rc<dyn Owner>> = Vec::new();
        for owner in self.elsewhere.borrow().iter().filter_map(|unit| unit.owner.as_ref()) {
            if !owners.iter().any(|known| Rc::ptr_eq(known, owner)) {
                owners.push(owner.clone());
            }
        }
        for owner in owners {
            owner.manage(TaskFunction::TargetReset).await;
        }
    }

    fn leave_all(&self) {
        self.seats.borrow().values().for_each(|s| s.lu.leave(&s.nexus));
    }
}

impl<D: LogicalDisk> HostView for View<D> {
    /// 0 for a command that will be refused for its length. Where too much data is an error, it is one block more, so that the transport
    /// brings what shows the error.
    fn data_out_len(&self, lun: Option<Lun>, cdb: &[u8; 16]) -> u64 {
        let seats = self.seats.borrow();
        match lun.and_then(|l| seats.get(&l)) {
            Some(seat) => data_out_len(cdb, seat.lu.block_bytes()),
            None => self.elsewhere(lun).map_or(0, |unit| data_out_len(cdb, unit.block_bytes)),
        }
    }

    /// A command is not to be dropped in the middle, but aborted ([`HostView::manage`], [`HostView::end`]): what it has asked of the drives
    /// goes on, and only its future knows when to unlock the blocks.
    async fn execute(&self, lun: Option<Lun>, request: Request) -> Response {
        let bytes_in = request.data_out.len() as u64;
        let response = match (lun.and_then(|l| self.seat(l)), lun, self.owner(lun)) {
            (Some(seat), ..) => dispatch::execute(self, &seat, &request).await,
            (None, Some(lun), Some(owner)) => owner.execute(lun, request).await,
            (None, ..) => self.execute_without_unit(&request),
        };
        let bytes_out = response.data_in.len() as u64;
        self.traffic.add(bytes_in, bytes_out);
        self.port_traffic.add(bytes_in, bytes_out);
        response
    }

    /// It returns when the commands that it ended have ended.
    async fn manage(&self, function: TaskFunction) -> TaskOutcome {
        let (TaskFunction::AbortTask(lun, _)
        | TaskFunction::AbortTaskSet(lun)
        | TaskFunction::ClearTaskSet(lun)
        | TaskFunction::LunReset(lun)) = function
        else {
            self.reset_elsewhere().await;
            return self.manage_here(function).await;
        };
        match self.owner(Some(lun)) {
            None => self.manage_here(function).await,
            Some(owner) => owner.manage(function).await,
        }
    }

    /// Its commands are aborted, and a RESERVE is released.
    fn end(&self) {
        self.leave_all();
    }
}

impl<D: LogicalDisk> Drop for View<D> {
    fn drop(&mut self) {
        self.leave_all();
    }
}

/// The response of a command that failed.
pub(crate) fn respond_failed(
    error: &CommandError,
    block_bytes: u32,
    format: Format,
    wanted: u64,
) -> Response {
    let failure = failure_of(error, block_bytes);
    Response {
        status: failure.status,
        sense: failure.sense.map_or_else(Vec::new, |s| s.encode(format)),
        data_in: Pieces::new(),
        data_out_wanted: wanted,
        aborted: false,
    }
}
