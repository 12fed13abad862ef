//! WRITE ATOMIC(16): all of it or nothing, for other commands and over a power failure (SBC-4 4.29, 5.46).
//!
//! The medium writes blocks, and a power failure may leave some of them old and some new. So the old blocks
//! are first saved in records of the medium:
//!
//! ```text
//!   old blocks into records ── head record: "undo this" ── write, flush ── head record removed: done
//!        crash: nothing            crash, failure: the old blocks are written back
//!        has changed
//! ```
//!
//! The head is the commit point: while it exists, the write has not happened. The write runs in its own task,
//! because a command whose session ends must not leave the head behind. One atomic write at a time per LU:
//! this is for metadata.

use std::cell::RefCell;
use std::rc::Rc;

use block::{BlockError, Pieces};
use lu::{CommandContext, Durability, LogicalDisk};
use world::sync::Signal;

use crate::arrival::Arrival;
use crate::atomics::{State, forget, save, undo};
use crate::context::{Context, Span};
use crate::error::CommandError;
use crate::limits::ATOMIC_BYTES_MAX;
use crate::unit::LogicalUnit;

/// The outcome of an atomic write, and its waiters.
#[derive(Default)]
struct Outcome {
    result: RefCell<Option<Result<(), CommandError>>>,
    ended: Signal,
}

/// WRITE ATOMIC(16).
pub(crate) async fn write_atomic<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let span = ctx.span(ctx.cdb.u64(2), ctx.cdb.uint(12, 2))?;
    if span.len > ATOMIC_BYTES_MAX {
        return Err(CommandError::field(12));
    }
    if (ctx.request.data_out.len() as u64) < span.len {
        return Err(CommandError::DataOutLength);
    }
    if span.len == 0 {
        return Ok(Pieces::new());
    }
    let (lu, data) = (ctx.seat.lu.clone(), ctx.request.data_out.slice(0, span.len as usize));
    let outcome = Rc::new(Outcome::default());
    lu.world.spawn(write_task(lu.clone(), (span, data), ctx.request.arrival, outcome.clone()));
    outcome.ended.wait_for(|| outcome.result.borrow_mut().take()).await?;
    lu.counting.written_bytes.add(span.len);
    Ok(Pieces::new())
}

async fn write_task<D: LogicalDisk>(
    lu: Rc<LogicalUnit<D>>,
    (span, data): (Span, Pieces),
    arrival: Arrival,
    outcome: Rc<Outcome>,
) {
    let _turn = lu.atomics.one_at_a_time.exclusive(0..1).await;
    let _guard = lu.locks.exclusive(span.range()).await;
    // A sanitize operation may have begun while it waited.
    let result = match lu.check_ready_since(arrival) {
        Ok(()) => write(&lu, span, &data).await.map_err(CommandError::from),
        Err(error) => Err(error),
    };
    *outcome.result.borrow_mut() = Some(result);
    outcome.ended.wake_all();
}

async fn write<D: LogicalDisk>(lu: &LogicalUnit<D>, span: Span, data: &Pieces) -> Result<(), BlockError> {
    let (disk, command) = (&lu.disk, CommandContext::DETACHED);
    let mut old = Pieces::new();
    disk.read(command, span.at, span.len as usize, &mut old).await?;
    let old = old.joined();
    save(disk, span.at, &old).await?;
    if let Err(error) = disk.write(command, span.at, data, Durability::Durable).await {
        // Nothing has happened: restore the old blocks. If that fails, too, nobody may read the range.
        if undo(disk, span.at, &old).await.is_err() {
            lu.atomics.state.set(State::Failed);
        }
        return Err(error);
    }
    forget(disk, old.len()).await
}
