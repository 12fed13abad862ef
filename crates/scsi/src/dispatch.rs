//! From a request to its handler: the checks before every command, and the counters after it.

use block::Pieces;
use lu::LogicalDisk;
use world::Trace;

use crate::attention::Attention;
use crate::cdb::Cdb;
use crate::context::Context;
use crate::error::CommandError;
use crate::history::Stale;
use crate::limits::DATA_OUT_BYTES_MAX;
use crate::opcode::{self, Access, Command, Handler, Needs};
use crate::request::{Lun, Request, Response, Status};
use crate::sense::{Format, failure_of};
use crate::unit::LogicalUnit;
use crate::view::{Seat, View};
use crate::{
    atomic, capacity, compare_and_write, condition, extended_copy, inquiry, log, mode, odx, read_write,
    report, reservation, sanitize, target_port_groups, unavailable, unmap, verify, write_same,
};

/// Executes a command on a logical unit.
pub(crate) async fn execute<D: LogicalDisk>(
    view: &View<D>,
    seat: &Seat<D>,
    request: &Request,
    trace: Option<&Trace>,
) -> Response {
    let lu = &*seat.lu;
    let cdb = Cdb(request.cdb);
    let began = lu.world.now();
    let found = opcode::find(&cdb);
    let wanted = found.map_or(0, |c| c.data_out_len(&cdb, lu.block_bytes()));
    if let Some(response) = refuse_stale(seat, found, request, wanted) {
        return response;
    }
    let Some(task) = lu.tasks.enter(seat.nexus.id, request.tag) else {
        return respond_failed(&CommandError::TaskSetFull, lu.block_bytes(), lu.sense_format(), wanted);
    };
    let (result, aborted, told) = match admit(view, seat, found, request) {
        Err(error) => (Err(error), false, false),
        Ok(command) => {
            let task = task.traced(trace);
            let ctx = Context { view, seat, command, cdb, request, task };
            let result = run(&ctx).await;
            match ctx.task.is_without_nexus() && !view.has_ended() {
                // The LUN was taken from the host, which waits for an answer.
                true => (result.map_err(|_| CommandError::LunNotSupported), false, false),
                false => {
                    let told = ctx.task.is_aborted_by_other() && lu.modes.task_aborted_status();
                    (result, ctx.task.is_aborted(), told)
                }
            }
        }
    };
    if let Some(command) = found {
        count(lu, command, &result);
        let time = lu.world.now().since(began);
        lu.counting.latency[command.class as usize].record(time);
        view.host_traffic.record(command.class, time);
    }
    let mut response = match result {
        _ if aborted => respond_failed(&CommandError::Aborted, lu.block_bytes(), lu.sense_format(), wanted),
        Ok(data_in) => Response::good(data_in, wanted),
        Err(error) => respond_failed(&error, lu.block_bytes(), lu.sense_format(), wanted),
    };
    if response.status == Status::Good && found.is_some_and(|c| c.handler == Handler::Read) {
        response.data_in_wanted = read_write::read_len(&cdb, lu.block_bytes());
    }
    response.aborted = aborted && !told;
    response
}

/// The response to a command that something has overtaken at its transport.
fn refuse_stale<D: LogicalDisk>(
    seat: &Seat<D>,
    found: Option<&'static Command>,
    request: &Request,
    wanted: u64,
) -> Option<Response> {
    let lu = &*seat.lu;
    let respond = |error| respond_failed(&error, lu.block_bytes(), lu.sense_format(), wanted);
    match lu.history.check(request.arrival, (&seat.nexus, seat.lun)).err()? {
        // It says what is there now.
        Stale::ForAnother if found.is_some_and(|c| c.access == Access::Free) => None,
        Stale::ForAnother => Some(respond(CommandError::LunNotSupported)),
        // Maybe it came after that, and the host waits for an answer. Nothing of it was executed.
        Stale::Aborted { told: false } if request.arrival.is_rough => {
            Some(Response::failed(Status::Busy, Vec::new(), wanted))
        }
        Stale::Aborted { told } => Some(Response { aborted: !told, ..respond(CommandError::Aborted) }),
    }
}

/// The checks before every command: unit attention, opcode table, reservations, reserved bits, readiness,
/// write protection, and that its data has come.
fn admit<D: LogicalDisk>(
    view: &View<D>,
    seat: &Seat<D>,
    found: Option<&'static Command>,
    request: &Request,
) -> Result<&'static Command, CommandError> {
    let (lu, cdb) = (&*seat.lu, &Cdb(request.cdb));
    let asks_about_state = found.is_some_and(|c| c.access == Access::Free);
    let luns_changed = || request.arrival.luns_changed.then_some(Attention::ReportedLunsChanged);
    let attention =
        || seat.nexus.attentions.take().or_else(|| view.reported_luns.take()).or_else(luns_changed);
    if !asks_about_state && let Some(attention) = attention() {
        return Err(CommandError::Attention(attention));
    }
    let Some(command) = found.filter(|c| report::is_supported(lu, c)) else {
        return Err(unknown(cdb, found));
    };
    lu.reservations.check(&seat.nexus, command.access_of(cdb))?;
    if let Some((byte, bit)) = command.reserved_set(cdb) {
        return Err(CommandError::field_bit(byte, bit));
    }
    // SANITIZE checks this itself: it ends the failure mode.
    if command.needs >= Needs::Ready && command.handler != Handler::Sanitize {
        lu.check_ready_since(request.arrival)?;
    }
    if command.needs >= Needs::Writable {
        lu.check_writable()?;
    }
    // A host may announce less than the CDB requires, and then less is written; but all of that has to be
    // there. One that is too long is refused by its handler.
    let required = command.data_out_len(cdb, lu.block_bytes());
    if required <= DATA_OUT_BYTES_MAX
        && (request.data_out.len() as u64) < required.min(request.data_out_max.into())
    {
        return Err(CommandError::DataOutMissing);
    }
    Ok(command)
}

/// A CDB that is not in the table, or not supported by this LU: its operation code, or only its service
/// action.
fn unknown(cdb: &Cdb, found: Option<&Command>) -> CommandError {
    if opcode::entries(cdb.opcode()).is_empty() || found.is_some_and(|c| c.service_action.is_none()) {
        CommandError::InvalidOpcode
    } else {
        CommandError::field_bit(1, 4)
    }
}

fn count<D: LogicalDisk>(lu: &LogicalUnit<D>, command: &Command, result: &Result<Pieces, CommandError>) {
    let counting = &lu.counting;
    match result {
        Ok(_) => counting.commands[command.class as usize].add(1),
        Err(error) => {
            counting.failed.add(1);
            match error {
                CommandError::Miscompare { .. } if command.handler == Handler::CompareAndWrite => {
                    counting.compare_misses.add(1)
                }
                CommandError::ReservationConflict => counting.reservation_conflicts.add(1),
                CommandError::Block(_) if command.handler == Handler::Read => counting.read_errors.add(1),
                CommandError::Block(_) => counting.write_errors.add(1),
                _ => {}
            }
        }
    }
}

/// The future of a command includes those of the two commands of the hot path; the others are boxed, to keep
/// it small.
async fn run<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    match ctx.command.handler {
        Handler::Read => read_write::read(ctx).await,
        Handler::Write => read_write::write(ctx).await,
        _ => Box::pin(run_rare(ctx)).await,
    }
}

async fn run_rare<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    match ctx.command.handler {
        Handler::Read => read_write::read(ctx).await,
        Handler::Write => read_write::write(ctx).await,
        Handler::CompareAndWrite => compare_and_write::compare_and_write(ctx).await,
        Handler::OrWrite => compare_and_write::or_write(ctx).await,
        Handler::WriteAtomic => atomic::write_atomic(ctx).await,
        Handler::WriteSame => write_same::write_same(ctx).await,
        Handler::Unmap => unmap::unmap(ctx).await,
        Handler::Verify => verify::verify(ctx).await,
        Handler::WriteAndVerify => verify::write_and_verify(ctx).await,
        Handler::PreFetch => verify::pre_fetch(ctx),
        Handler::SynchronizeCache => verify::synchronize_cache(ctx).await,
        Handler::Sanitize => sanitize::sanitize(ctx).await,
        Handler::Inquiry => inquiry::inquiry(ctx),
        Handler::TestUnitReady => Ok(Pieces::new()),
        Handler::RequestSense => Ok(condition::request_sense(ctx)),
        Handler::StartStop => condition::start_stop(ctx).await,
        Handler::PreventAllow => Ok(condition::prevent_allow()),
        Handler::SendDiagnostic => condition::send_diagnostic(ctx).await,
        Handler::ReceiveDiagnostic => condition::receive_diagnostic(ctx),
        Handler::ModeSense => mode::sense(ctx),
        Handler::ModeSelect => mode::select(ctx).await,
        Handler::LogSense => log::sense(ctx),
        Handler::LogSelect => log::select(ctx),
        Handler::ReadCapacity10 => Ok(capacity::read_capacity_10(ctx)),
        Handler::ReadCapacity16 => Ok(capacity::read_capacity_16(ctx)),
        Handler::GetLbaStatus => capacity::get_lba_status(ctx).await,
        Handler::ReadDefectData => Ok(capacity::read_defect_data(ctx)),
        Handler::ReportLuns => report::report_luns(ctx.view, &ctx.cdb),
        Handler::ReportOpcodes => report::report_opcodes(ctx),
        Handler::ReportTaskFunctions => Ok(report::report_task_functions(ctx)),
        Handler::ReportTargetPortGroups => target_port_groups::report_target_port_groups(ctx),
        Handler::SetTargetPortGroups => target_port_groups::set_target_port_groups(ctx),
        Handler::ReportIdentifyingInformation => report::report_identifying_information(ctx),
        Handler::ReportTimestamp => Ok(report::report_timestamp(ctx)),
        Handler::PersistentReserveIn => reservation::persistent_in(ctx).await,
        Handler::PersistentReserveOut => reservation::persistent_out(ctx).await,
        Handler::Reserve => reservation::reserve(ctx).await,
        Handler::Release => reservation::release(ctx).await,
        Handler::ExtendedCopy => extended_copy::extended_copy(ctx).await,
        Handler::ReceiveCopyResults => extended_copy::receive_copy_results(ctx).await,
        Handler::ReceiveCopyStatus => extended_copy::receive_copy_status(ctx).await,
        Handler::PopulateToken => odx::populate_token(ctx).await,
        Handler::WriteUsingToken => odx::write_using_token(ctx).await,
        Handler::ReceiveRodTokenInformation => odx::receive_rod_token_information(ctx).await,
    }
}

/// A LUN without a logical unit (SPC-5 4.2, SAM-5 4.7.4): the three commands that a host may send to any LUN.
/// Where one is mapped that cannot be served now, they tell of it.
pub(crate) fn without_unit<D: LogicalDisk>(
    view: &View<D>,
    lun: Option<Lun>,
    cdb: &Cdb,
) -> Result<Pieces, CommandError> {
    let command = opcode::find(cdb).filter(|c| c.access == Access::Free);
    if let Some((byte, bit)) = command.and_then(|c| c.reserved_set(cdb)) {
        return Err(CommandError::field_bit(byte, bit));
    }
    let handler = command.map(|c| c.handler);
    if let Some(unit) = view.unavailable(lun) {
        return unavailable::execute(view, (&unit, &view.port), (handler, cdb));
    }
    match handler {
        Some(Handler::Inquiry) => inquiry::without_unit(cdb),
        Some(Handler::ReportLuns) => report::report_luns(view, cdb),
        Some(Handler::RequestSense) => Ok(condition::request_sense_for(&CommandError::LunNotSupported, cdb)),
        _ => Err(CommandError::LunNotSupported),
    }
}

/// The response to a command that failed.
pub(crate) fn respond_failed(
    error: &CommandError,
    block_bytes: u32,
    format: Format,
    wanted: u64,
) -> Response {
    let failure = failure_of(error, block_bytes);
    Response::failed(failure.status, failure.sense.map_or_else(Vec::new, |s| s.encode(format)), wanted)
}
