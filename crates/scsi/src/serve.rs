//! Serves a view: commands and task management, on this controller or on the owner of the logical unit.

use std::pin::Pin;
use std::rc::Rc;

use block::Pieces;
use lu::LogicalDisk;
use world::{Instant, Stage, Trace};

use crate::attention::Attention;
use crate::cdb::Cdb;
use crate::dispatch::{self, respond_failed};
use crate::error::CommandError;
use crate::holding::Wait;
use crate::host_view::{Elsewhere, HostView, Owner};
use crate::limits::DATA_OUT_BYTES_MAX;
use crate::opcode::{self, Access, Handler};
use crate::request::{Lun, Request, Response, Status, TaskFunction, TaskOutcome};
use crate::sense::{Asc, Format};
use crate::trace::CommandTrace;
use crate::view::{Seat, View};

/// The data-out length that a CDB requires on a logical unit with this block length.
fn data_out_len(cdb: &[u8; 16], block_bytes: u32) -> u64 {
    let cdb = Cdb(*cdb);
    let asked =
        opcode::find(&cdb).map_or(0, |c| c.data_out_len(&cdb, block_bytes) + c.data_out_over(block_bytes));
    if asked <= DATA_OUT_BYTES_MAX { asked } else { 0 }
}

/// MODE SENSE(6) of the control mode page alone: its current values, without block descriptors.
const CONTROL_PAGE: [u8; 16] = [0x1a, 0x08, 0x0a, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The format of sense data, by its response code (SPC-5 4.4.1).
fn format_of(sense: &[u8]) -> Option<Format> {
    match sense.first()? & 0x7f {
        0x70 | 0x71 => Some(Format::Fixed),
        0x72 | 0x73 => Some(Format::Descriptor),
        _ => None,
    }
}

/// The format that a control mode page selects, behind a header of four bytes (SPC-5 7.5.10).
fn format_selected(modes: &[u8]) -> Option<Format> {
    let d_sense = modes.get(4 + 2)? & 0x04 != 0;
    Some(if d_sense { Format::Descriptor } else { Format::Fixed })
}

/// The additional sense code of sense data.
fn asc_of(sense: &[u8]) -> Option<Asc> {
    let at = if sense.first()? & 0x7f < 0x72 { 12 } else { 2 };
    Some(Asc(u16::from_be_bytes(*sense.get(at..)?.first_chunk()?)))
}

impl<D: LogicalDisk> View<D> {
    /// The response on a LUN without a logical unit (SPC-5 4.2, SAM-5 4.7.4).
    fn execute_without_unit(&self, lun: Option<Lun>, request: &Request) -> Response {
        let cdb = Cdb(request.cdb);
        match dispatch::without_unit(self, lun, &cdb) {
            Ok(data_in) => Response::good(data_in, 0),
            Err(error) => respond_failed(&error, 1, Format::Fixed, 0),
        }
    }

    /// The same as any other command, in whose trace the stages are recorded. Boxed: few commands are traced,
    /// and the future of the others need not hold this one.
    fn execute_traced<'a>(
        &'a self,
        seat: &'a Seat<D>,
        request: &'a Request,
        mut traced: Box<CommandTrace>,
    ) -> Pin<Box<impl Future<Output = Response>>> {
        Box::pin(async move {
            let world = seat.lu.world.clone();
            let trace = Trace::resume(move || world.now(), std::mem::take(&mut traced.stages));
            traced.block_bytes = seat.lu.block_bytes();
            let span = trace.begin("lu", "");
            let mut response = dispatch::execute(self, seat, request, span.trace()).await;
            drop(span);
            traced.stages = trace.take();
            response.trace = Some(traced);
            response
        })
    }

    /// Whether a command was sent to another logical unit than the one that is at its LUN now. Those that
    /// only ask what is there are told.
    fn is_for_another(&self, lun: Lun, key: u64, request: &Request) -> bool {
        let is_other = match request.arrival.unit {
            Some(unit) => unit != key,
            // In a view for commands that cross, the first of them is older than all.
            None => self.at_port && self.places.is_newer(lun, request.arrival),
        };
        is_other && opcode::find(&Cdb(request.cdb)).is_none_or(|c| c.access != Access::Free)
    }

    /// The response to a command whose logical unit has gone, and another one is at its LUN.
    fn refuse_for_another(block_bytes: u32, format: Format) -> Response {
        respond_failed(&CommandError::LunNotSupported, block_bytes, format, 0)
    }

    /// A command on a logical unit of another controller.
    async fn cross(&self, unit: &Elsewhere, owner: &dyn Owner, mut request: Request) -> Response {
        if self.is_for_another(unit.lun, unit.key, &request) {
            // The owner refuses it, in the format of the logical unit: no other has this key.
            request.arrival = request.arrival.for_unit(!unit.key, false);
            return owner.execute(unit.lun, request).await;
        }
        // Commands seldom find the condition pending; only then it matters what they are.
        if !self.reported_luns.is_pending() {
            request.arrival = request.arrival.for_unit(unit.key, false);
            let cdb = request.cdb;
            let response = owner.execute(unit.lun, request).await;
            self.hear(unit, owner, (&cdb, &response)).await;
            return response;
        }
        let found = opcode::find(&Cdb(request.cdb));
        let lists_luns = found.is_some_and(|c| c.handler == Handler::ReportLuns);
        let asks_about_state = found.is_some_and(|c| c.access == Access::Free);
        let is_told = !asks_about_state && self.reported_luns.take().is_some();
        request.arrival = request.arrival.for_unit(unit.key, is_told);
        let cdb = request.cdb;
        let response = owner.execute(unit.lun, request).await;
        self.hear(unit, owner, (&cdb, &response)).await;
        if is_told && asc_of(&response.sense) != Some(Attention::ReportedLunsChanged.asc()) {
            // Something else came first.
            self.reported_luns.changed();
        }
        if lists_luns && response.status == Status::Good {
            self.reported_luns.reported();
        }
        response
    }

    /// Learns the sense data format of a logical unit of another controller, for what the transport refuses
    /// itself: from its sense data, and after a MODE SELECT of this host by asking. That of another host
    /// raises a unit attention, whose sense data has the new format.
    async fn hear(&self, unit: &Elsewhere, owner: &dyn Owner, (cdb, response): (&[u8; 16], &Response)) {
        let selects = opcode::find(&Cdb(*cdb)).is_some_and(|c| c.handler == Handler::ModeSelect);
        let format = match format_of(&response.sense) {
            None if selects && response.status == Status::Good => {
                let mut ask = Request::new(CONTROL_PAGE, Pieces::new(), 0xff);
                ask.arrival = ask.arrival.for_unit(unit.key, false);
                let told = Box::pin(owner.execute(unit.lun, ask)).await;
                format_of(&told.sense).or_else(|| format_selected(&told.data_in.joined()))
            }
            told => told,
        };
        format.into_iter().for_each(|format| self.formats.hear(unit.lun, unit.key, format));
    }

    /// The response to a command that was aborted while its logical unit moved.
    fn aborted_while_held(&self) -> Response {
        Response { aborted: true, ..respond_failed(&CommandError::Aborted, 1, Format::Fixed, 0) }
    }

    /// Aborts the commands that wait for a logical unit that moves, and waits until it has: the rest is its
    /// new owner's.
    async fn manage_held(&self, function: TaskFunction) {
        if !self.holding.is_on() {
            return;
        }
        match function {
            TaskFunction::AbortTask(lun, tag) => self.holding.abort(|l, t| (l, t) == (lun, tag)),
            TaskFunction::AbortTaskSet(lun)
            | TaskFunction::ClearTaskSet(lun)
            | TaskFunction::LunReset(lun) => {
                self.holding.abort(|l, _| l == lun);
            }
            TaskFunction::TargetReset => self.holding.abort(|_, _| true),
        }
        self.holding.over(function.lun()).await;
    }

    /// A task management function on the logical units of this controller. It returns after the commands that
    /// it aborted have ended.
    async fn manage_here(&self, function: TaskFunction) -> TaskOutcome {
        match function {
            TaskFunction::AbortTask(lun, tag) => {
                let Some(seat) = self.seat(lun) else { return self.manage_without_unit(lun) };
                seat.lu.abort_one(self.nexus, tag);
                seat.lu.tasks.aborted_ended().await;
            }
            TaskFunction::AbortTaskSet(lun) => {
                let Some(seat) = self.seat(lun) else { return self.manage_without_unit(lun) };
                seat.lu.abort(Some(self.nexus), None, |id| id == self.nexus);
                seat.lu.tasks.aborted_ended().await;
            }
            TaskFunction::ClearTaskSet(lun) => {
                let Some(seat) = self.seat(lun) else { return self.manage_without_unit(lun) };
                seat.lu.clear_task_set((self.nexus, lun)).await;
            }
            TaskFunction::LunReset(lun) => {
                let Some(seat) = self.seat(lun) else { return self.manage_without_unit(lun) };
                seat.lu.reset((self.nexus, Some(lun)), Attention::DeviceReset).await;
            }
            TaskFunction::TargetReset => {
                let seats: Vec<_> = self.seats.borrow().values().cloned().collect();
                for seat in seats {
                    seat.lu.reset((self.nexus, None), Attention::PowerOn).await;
                }
            }
        }
        TaskOutcome::Complete
    }

    /// No task is at a LUN without a logical unit.
    fn manage_without_unit(&self, lun: Lun) -> TaskOutcome {
        match self.unavailable(Some(lun)) {
            Some(_) => TaskOutcome::Complete,
            None => TaskOutcome::NoSuchLun,
        }
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
}

impl<D: LogicalDisk> HostView for View<D> {
    /// 0 for a command that will be refused for its length. If excess data is an error, one block more, so
    /// that the transport brings the evidence.
    fn data_out_len(&self, lun: Option<Lun>, cdb: &[u8; 16]) -> u64 {
        let seats = self.seats.borrow();
        match lun.and_then(|l| seats.get(&l)) {
            Some(seat) => data_out_len(cdb, seat.lu.block_bytes()),
            None => self.elsewhere(lun).map_or(0, |unit| data_out_len(cdb, unit.block_bytes)),
        }
    }

    fn sense_format(&self, lun: Option<Lun>) -> Format {
        if let Some(seat) = lun.and_then(|l| self.seat(l)) {
            return seat.lu.sense_format();
        }
        self.elsewhere(lun).map_or(Format::Fixed, |unit| self.formats.of(unit.lun, unit.key))
    }

    fn waits(&self) -> Option<&Stage> {
        Some(&self.port_traffic.waits)
    }

    fn sample(&self, cdb: &[u8; 16], arrived: Instant) -> Option<Box<CommandTrace>> {
        self.tracer.as_ref()?.sample(cdb, arrived)
    }

    fn traced(&self, mut trace: CommandTrace, lun: Option<Lun>, response: &Response) {
        let Some(tracer) = &self.tracer else { return };
        trace.lun = lun;
        trace.initiator.clone_from(&self.initiator.name);
        trace.port = self.port.name();
        tracer.end(trace, response);
    }

    /// A command must not be dropped, but aborted ([`HostView::manage`], [`HostView::end`]): its drive
    /// operations continue, and only its future knows when to unlock the blocks.
    async fn execute(&self, lun: Option<Lun>, mut request: Request) -> Response {
        let bytes_in = request.data_out.len() as u64;
        if self.at_port {
            self.reported_luns.asked();
        }
        if self.holding.is_on()
            && let Some(lun) = lun
        {
            match Box::pin(self.holding.pass(lun, request.tag)).await {
                Wait::Over => {}
                Wait::Aborted => return self.aborted_while_held(),
                Wait::Stopped => return Response::failed(Status::Busy, Vec::new(), 0),
            }
        }
        let response = if let Some(seat) = lun.and_then(|l| self.seat(l)) {
            let key = seat.lu.identity.key;
            match request.trace.take() {
                _ if self.is_for_another(seat.lun, key, &request) => {
                    Self::refuse_for_another(seat.lu.block_bytes(), seat.lu.sense_format())
                }
                None => dispatch::execute(self, &seat, &request, None).await,
                Some(trace) => self.execute_traced(&seat, &request, trace).await,
            }
        } else if let Some((unit, owner)) = self.owner(lun) {
            self.cross(&unit, &*owner, request).await
        } else if self.elsewhere(lun).is_some() {
            // It came here from another controller's port while the logical unit moved on.
            Response::failed(Status::Busy, Vec::new(), 0)
        } else {
            self.execute_without_unit(lun, &request)
        };
        let bytes_out = response.data_in.len() as u64;
        self.count(bytes_in, bytes_out);
        response
    }

    /// It returns after the commands that it aborted have ended.
    async fn manage(&self, function: TaskFunction) -> TaskOutcome {
        self.manage_held(function).await;
        let Some(lun) = function.lun() else {
            self.reset_elsewhere().await;
            return self.manage_here(function).await;
        };
        match self.owner(Some(lun)) {
            None => self.manage_here(function).await,
            Some((_, owner)) => owner.manage(function).await,
        }
    }

    /// Aborts its commands and releases a RESERVE.
    fn end(&self) {
        self.end_nexus();
    }
}
