//! IMMED: a copy that goes on after its command has ended.

use lu::{CommandContext, LogicalDisk};

use crate::error::CommandError;
use crate::view::Seat;

/// Runs the copy as a task of its own of the logical unit: a reset or the end of the nexus aborts it like any
/// other. `copy` gets what tells whether it may go on.
pub(crate) async fn in_background<D: LogicalDisk>(
    seat: &Seat<D>,
    copy: impl AsyncFnOnce(CommandContext<'_>, &dyn Fn() -> Result<(), CommandError>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let task = seat.lu.tasks.enter(seat.nexus.id, u64::MAX).ok_or(CommandError::TaskSetFull)?;
    let go_on = || match task.is_aborted() || seat.nexus.ended.get() {
        true => Err(CommandError::Aborted),
        false => Ok(()),
    };
    copy(task.context(), &go_on).await
}
