//! EXTENDED COPY and RECEIVE COPY RESULTS on a logical unit.

use std::rc::Rc;

use block::Pieces;
use lu::{CommandContext, LogicalDisk};
use world::sync::Permit;

use super::across::move_across;
use super::background::in_background;
use super::copy::Copy;
use super::end::End;
use super::list::{List, Results};
use super::operations::{Operations, Running, Stage};
use super::results::{copy_status, copy_status_lid4, failed_segment_details, operating_parameters};
use super::segment::{Segment, TARGET_ITSELF};
use super::target::Target;
use crate::arrival::Arrival;
use crate::context::{Context, Span, cut};
use crate::error::CommandError;
use crate::host_view::{CopyAnswer, CopyRequest};
use crate::opcode::Access;
use crate::request::TaskAttribute;
use crate::sense::{Asc, failure_of};
use crate::turns::Turns;
use crate::unit::LogicalUnit;
use crate::view::{Seat, View};

/// 00h/00h: the standard has no code for it; here: a range past the end of its logical unit.
const NO_ADDITIONAL_SENSE: Asc = Asc(0x0000);
/// 08h/04h UNREACHABLE COPY TARGET: a segment names a target that is not in the list.
const UNREACHABLE_COPY_TARGET: Asc = Asc(0x0804);
/// 0Dh/01h THIRD PARTY DEVICE FAILURE: the target would have refused the host's own command.
const THIRD_PARTY_DEVICE_FAILURE: Asc = Asc(0x0D01);
/// 0Dh/02h COPY TARGET DEVICE NOT REACHABLE: no such logical unit is mapped to the host.
pub(crate) const COPY_TARGET_NOT_REACHABLE: Asc = Asc(0x0D02);
/// 0Dh/03h INCORRECT COPY TARGET DEVICE TYPE.
const INCORRECT_DEVICE_TYPE: Asc = Asc(0x0D03);
/// 26h/0Ah UNEXPECTED INEXACT SEGMENT: the length is not a multiple of the block length of the other LU.
const INEXACT_SEGMENT: Asc = Asc(0x260A);

/// The service action of EXTENDED COPY(LID4).
const LID4: u8 = 0x01;

/// EXTENDED COPY, with a list identifier of one byte (LID1) or of four (LID4).
pub(crate) async fn extended_copy<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let bytes = ctx.list()?;
    // Without a list there is no copy, and no error (SPC-4 6.4.1).
    if ctx.cdb.u32(10) == 0 {
        return Ok(Pieces::new());
    }
    if bytes.len() < ctx.cdb.u32(10) as usize {
        return Err(CommandError::ParameterListLength);
    }
    let action = ctx.cdb.u8(1) & 0x1F;
    let (list, kept) = match action {
        LID4 => (List::parse_lid4(&bytes)?, &ctx.view.copies_lid4),
        _ => (List::parse_lid1(&bytes)?, &ctx.view.copies_lid1),
    };
    // Copies without an identifier run concurrently; they cannot be queried.
    let own = Operations::default();
    let (id, operations) = match list.results {
        Results::Kept(id) => (id, kept),
        Results::Forgotten => (0, &own),
    };
    let permit = ctx.copying()?;
    let running = operations.begin((ctx.seat.lun, id), action)?;
    if ctx.request.attribute == TaskAttribute::Ordered {
        // Wait for all older commands. The lock is released, because copies whose locks this one needs would
        // wait for it.
        drop(ctx.lu().locks.exclusive(Span::EVERYTHING).await);
    }
    let seat = ctx.view.seat(ctx.seat.lun).ok_or(CommandError::LunNotSupported)?;
    let (ranges, arrival) = (resolve(ctx, &list).await, ctx.request.arrival);
    let job = Job { seat, ranges, arrival, running, _permit: permit };
    if list.immediate {
        job.running.update(|op| op.stage = Stage::Background);
        ctx.lu().world.spawn(copy_in_background(job));
        return Ok(Pieces::new());
    }
    let result = job.copy(ctx.task.context(), &|| ctx.go_on()).await;
    job.end(&result);
    result.map(|()| Pieces::new())
}

async fn copy_in_background<D: LogicalDisk>(job: Job<D>) {
    let copy = async |command: CommandContext<'_>, go_on: &dyn Fn() -> Result<(), CommandError>| {
        job.copy(command, go_on).await
    };
    let result = in_background(&job.seat, copy).await;
    job.end(&result);
}

/// A copy, ready to start.
struct Job<D: LogicalDisk> {
    /// Of the logical unit that got the command.
    seat: Rc<Seat<D>>,
    /// The ranges of the segments, up to one that cannot be copied.
    ranges: Vec<Result<Range<D>, CommandError>>,
    /// Of the command.
    arrival: Arrival,
    running: Running,
    /// One of the copies that the logical unit takes at once, and one of the host's.
    _permit: (Permit, Permit),
}

/// A range to copy, in bytes, within both ends.
struct Range<D: LogicalDisk> {
    source: End<D>,
    from: u64,
    destination: End<D>,
    at: u64,
    len: u64,
}

impl<D: LogicalDisk> Job<D> {
    /// Copies the ranges in order.
    async fn copy(
        &self,
        command: CommandContext<'_>,
        go_on: &dyn Fn() -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let turns = Turns::default();
        let done = |bytes| self.running.update(|op| op.bytes += bytes);
        for (segment, range) in (0u16..).zip(&self.ranges) {
            let range = range.as_ref().map_err(Clone::clone)?;
            let copy = range.copy(command, (&turns, self.arrival), go_on, done);
            copy.await.map_err(|error| at_segment(error, segment))?;
            self.running.update(|op| op.segments += 1);
        }
        Ok(())
    }

    fn end(&self, result: &Result<(), CommandError>) {
        self.running.end(result, |error| sense_of(&self.seat.lu, error));
    }
}

impl<D: LogicalDisk> Range<D> {
    async fn copy(
        &self,
        command: CommandContext<'_>,
        (turns, arrival): (&Turns, Arrival),
        go_on: &dyn Fn() -> Result<(), CommandError>,
        done: impl Fn(u64),
    ) -> Result<(), CommandError> {
        let Range { source, from, destination, at, len } = self;
        // Called before every piece: a new reservation applies to the rest of the copy. The other controller
        // checks its own end.
        let go_on = || {
            for (end, access) in [(source, Access::Read), (destination, Access::Write)] {
                if let End::Here(seat) = end {
                    check_access(seat, access, arrival)?;
                }
            }
            go_on()
        };
        if let (End::Here(source), End::Here(destination)) = (source, destination) {
            let (source, destination) = (&source.lu, &destination.lu);
            return Copy { command, source, from: *from, destination, at: *at, len: *len }
                .run(turns, go_on, done)
                .await;
        }
        let read = async |offset, len| source.read(command, from + offset, len).await;
        let write = async |offset, data| destination.write(command, (at + offset, data), arrival).await;
        move_across(*len, turns, read, write, go_on, done).await
    }
}

/// The sense data of an error, stored with the copy.
pub(crate) fn sense_of<D: LogicalDisk>(lu: &LogicalUnit<D>, error: &CommandError) -> Vec<u8> {
    failure_of(error, lu.block_bytes()).sense.map_or_else(Vec::new, |sense| sense.encode(lu.sense_format()))
}

/// An error below a segment is COPY ABORTED with that cause (SPC-4 6.4.3).
fn at_segment(error: CommandError, segment: u16) -> CommandError {
    match error {
        CommandError::CopyAborted { asc, .. } => CommandError::CopyAborted { asc, segment },
        CommandError::Block(_) => {
            let asc = failure_of(&error, 1).sense.map_or(NO_ADDITIONAL_SENSE, |sense| sense.asc);
            CommandError::CopyAborted { asc, segment }
        }
        other => other,
    }
}

pub(crate) fn aborted(asc: Asc) -> CommandError {
    CommandError::CopyAborted { asc, segment: 0 }
}

/// The ranges of the segments, up to the first one that cannot be copied.
async fn resolve<D: LogicalDisk>(ctx: &Context<'_, D>, list: &List) -> Vec<Result<Range<D>, CommandError>> {
    let mut ranges = Vec::with_capacity(list.segments.len());
    for (index, segment) in (0u16..).zip(&list.segments) {
        let range = range_of(ctx, list, segment).await.map_err(|error| at_segment(error, index));
        let is_last = range.is_err();
        ranges.push(range);
        if is_last {
            break;
        }
    }
    ranges
}

async fn range_of<D: LogicalDisk>(
    ctx: &Context<'_, D>,
    list: &List,
    segment: &Segment,
) -> Result<Range<D>, CommandError> {
    let source = end_of(ctx, list, segment.source).await?;
    let destination = end_of(ctx, list, segment.destination).await?;
    let counted = if segment.counts_destination { &destination } else { &source };
    let len = u64::from(segment.blocks) * u64::from(counted.block_bytes());
    let from = place(&source, segment.source_lba, len)?;
    let at = place(&destination, segment.destination_lba, len)?;
    Ok(Range { source, from, destination, at, len })
}

/// The byte where a range of this length begins.
fn place<D: LogicalDisk>(end: &End<D>, lba: u64, len: u64) -> Result<u64, CommandError> {
    let block = u64::from(end.block_bytes());
    if !len.is_multiple_of(block) {
        return Err(aborted(INEXACT_SEGMENT));
    }
    let at = lba.checked_mul(block).filter(|at| at.checked_add(len).is_some_and(|to| to <= end.len_bytes()));
    at.ok_or(aborted(NO_ADDITIONAL_SENSE))
}

/// The logical unit of a segment, looked up only in the views of the requesting host: here, then at the other
/// controllers.
async fn end_of<D: LogicalDisk>(
    ctx: &Context<'_, D>,
    list: &List,
    index: u16,
) -> Result<End<D>, CommandError> {
    let unreachable = || aborted(COPY_TARGET_NOT_REACHABLE);
    if index == TARGET_ITSELF {
        return ctx.view.seat(ctx.seat.lun).map(End::Here).ok_or_else(unreachable);
    }
    let target = list.targets.get(usize::from(index)).ok_or(aborted(UNREACHABLE_COPY_TARGET))?;
    if target.device_type != 0 {
        return Err(aborted(INCORRECT_DEVICE_TYPE));
    }
    let end = match ctx.view.find(|lu| is_named(lu, target)) {
        Some(seat) => End::Here(seat),
        None => elsewhere(ctx.view, target).await.ok_or_else(unreachable)?,
    };
    if target.block_bytes != 0 && target.block_bytes != end.block_bytes() {
        return Err(CommandError::parameter(target.at + 29));
    }
    Ok(end)
}

async fn elsewhere<D: LogicalDisk>(view: &View<D>, target: &Target) -> Option<End<D>> {
    let naa = target.naa()?;
    for owner in view.others.iter() {
        if let Some(CopyAnswer::End(Some(end))) = owner.copy(CopyRequest::Find(naa)).await {
            return Some(End::There(owner.clone(), end));
        }
    }
    None
}

fn is_named<D: LogicalDisk>(lu: &LogicalUnit<D>, target: &Target) -> bool {
    target.is_naa(&lu.identity.naa)
}

/// A copy must not do what the host could not do itself.
pub(crate) fn check_access<D: LogicalDisk>(
    seat: &Seat<D>,
    access: Access,
    arrival: Arrival,
) -> Result<(), CommandError> {
    // The LUN was taken from the host after the copy had found it.
    if seat.nexus.ended.get() {
        return Err(aborted(COPY_TARGET_NOT_REACHABLE));
    }
    let lu = &seat.lu;
    let ready = lu.check_ready_since(arrival).and_then(|()| lu.reservations.check(&seat.nexus, access));
    let all = if access == Access::Write { ready.and_then(|()| lu.check_writable()) } else { ready };
    all.map_err(|_| aborted(THIRD_PARTY_DEVICE_FAILURE))
}

/// RECEIVE COPY RESULTS. There is no held data, so RECEIVE DATA (01h) is not in the table.
pub(crate) async fn receive_copy_results<D: LogicalDisk>(
    ctx: &Context<'_, D>,
) -> Result<Pieces, CommandError> {
    let unknown = || CommandError::field(2);
    let operation = ctx.view.copies_lid1.find((ctx.seat.lun, u32::from(ctx.cdb.u8(2))));
    let data = match ctx.cdb.u8(1) & 0x1F {
        0x00 => copy_status(&operation.ok_or_else(unknown)?),
        0x03 => operating_parameters(ctx.lu().block_bytes()),
        0x04 => {
            let failed = operation.filter(|op| op.stage == Stage::Failed).ok_or_else(unknown)?;
            failed_segment_details(&failed)
        }
        _ => return Err(CommandError::field_bit(1, 4)),
    };
    Ok(cut(&data, u64::from(ctx.cdb.u32(10))))
}

/// RECEIVE COPY STATUS(LID4).
pub(crate) async fn receive_copy_status<D: LogicalDisk>(
    ctx: &Context<'_, D>,
) -> Result<Pieces, CommandError> {
    let operation =
        ctx.view.copies_lid4.find((ctx.seat.lun, ctx.cdb.u32(2))).ok_or(CommandError::field(2))?;
    Ok(cut(&copy_status_lid4(&operation, ctx.lu().block_bytes()), u64::from(ctx.cdb.u32(10))))
}
