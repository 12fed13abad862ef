//! EXTENDED COPY and RECEIVE COPY RESULTS on a logical unit.

use block::Pieces;
use lu::LogicalDisk;

use super::across::move_across;
use super::copy::Copy;
use super::end::End;
use super::list::{List, Results};
use super::operations::{Operations, Running, Stage};
use super::results::{copy_status, failed_segment_details, operating_parameters};
use super::segment::{Segment, TARGET_ITSELF};
use super::target::Target;
use crate::context::{Context, Span, cut};
use crate::error::CommandError;
use crate::host_view::{CopyAnswer, CopyRequest};
use crate::opcode::Access;
use crate::request::TaskAttribute;
use crate::sense::{Asc, failure_of};
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

/// EXTENDED COPY(LID1).
pub(crate) async fn extended_copy<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let bytes = ctx.list()?;
    // Without a list there is no copy, and no error (SPC-4 6.4.1).
    if ctx.cdb.u32(10) == 0 {
        return Ok(Pieces::new());
    }
    if bytes.len() < ctx.cdb.u32(10) as usize {
        return Err(CommandError::ParameterListLength);
    }
    let list = List::parse(&bytes)?;
    let (id, kept) = match list.results {
        Results::Kept(id) => (u32::from(id), true),
        Results::Forgotten => (u32::from(u8::MAX) + 1, false),
    };
    // Copies without an identifier run concurrently; they cannot be queried.
    let own = Operations::default();
    let operations = if kept { &ctx.view.copy_lists } else { &own };
    let running = operations.begin((ctx.seat.lun, id), 0x00)?;
    let result = copy_all(ctx, &list, &running).await;
    running.end(&result, |error| sense_of(ctx.lu(), error));
    result.map(|()| Pieces::new())
}

/// The sense data of an error, stored with the copy.
pub(crate) fn sense_of<D: LogicalDisk>(lu: &LogicalUnit<D>, error: &CommandError) -> Vec<u8> {
    failure_of(error, lu.block_bytes()).sense.map_or_else(Vec::new, |sense| sense.encode(lu.sense_format()))
}

async fn copy_all<D: LogicalDisk>(
    ctx: &Context<'_, D>,
    list: &List,
    running: &Running,
) -> Result<(), CommandError> {
    if ctx.request.attribute == TaskAttribute::Ordered {
        // Wait for all older commands. The lock is released, because copies whose locks this one needs would
        // wait for it.
        let lu = ctx.lu();
        drop(lu.locks.exclusive(Span::EVERYTHING).await);
    }
    for (index, segment) in (0u16..).zip(&list.segments) {
        copy_segment(ctx, list, segment, running).await.map_err(|error| at_segment(error, index))?;
        running.update(|op| op.segments += 1);
    }
    Ok(())
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

async fn copy_segment<D: LogicalDisk>(
    ctx: &Context<'_, D>,
    list: &List,
    segment: &Segment,
    running: &Running,
) -> Result<(), CommandError> {
    let source = end_of(ctx, list, segment.source).await?;
    let destination = end_of(ctx, list, segment.destination).await?;
    let counted = if segment.counts_destination { &destination } else { &source };
    let len = u64::from(segment.blocks) * u64::from(counted.block_bytes());
    let from = place(&source, segment.source_lba, len)?;
    let at = place(&destination, segment.destination_lba, len)?;
    let command = ctx.task.context();
    // Called before every piece: a new reservation applies to the rest of the copy. The other controller
    // checks its own end.
    let go_on = || {
        for (end, access) in [(&source, Access::Read), (&destination, Access::Write)] {
            if let End::Here(seat) = end {
                check_access(seat, access)?;
            }
        }
        ctx.go_on()
    };
    let done = |bytes| running.update(|op| op.bytes += bytes);
    if let (End::Here(source), End::Here(destination)) = (&source, &destination) {
        let (source, destination) = (&source.lu, &destination.lu);
        return Copy { command, source, from, destination, at, len }.run(go_on, done).await;
    }
    let read = async |offset, len| source.read(command, from + offset, len).await;
    let write = async |offset, data| destination.write(command, at + offset, data).await;
    move_across(len, read, write, go_on, done).await
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
pub(crate) fn check_access<D: LogicalDisk>(seat: &Seat<D>, access: Access) -> Result<(), CommandError> {
    let lu = &seat.lu;
    let ready = lu.check_ready().and_then(|()| lu.reservations.check(&seat.nexus, access));
    let all = if access == Access::Write { ready.and_then(|()| lu.check_writable()) } else { ready };
    all.map_err(|_| aborted(THIRD_PARTY_DEVICE_FAILURE))
}

/// RECEIVE COPY RESULTS. There is no held data, so RECEIVE DATA (01h) is not in the table.
pub(crate) async fn receive_copy_results<D: LogicalDisk>(
    ctx: &Context<'_, D>,
) -> Result<Pieces, CommandError> {
    let unknown = || CommandError::field(2);
    let operation = ctx.view.copy_lists.find((ctx.seat.lun, u32::from(ctx.cdb.u8(2))));
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
