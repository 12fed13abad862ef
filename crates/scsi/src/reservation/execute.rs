//! The reservation commands on a logical unit: they change the pure state, and save it before it takes
//! effect.

use block::Pieces;
use lu::LogicalDisk;
use world::sync::Signal;

use super::it_nexus::ItNexus;
use super::out::{Surroundings, Verdict};
use super::record::RECORD_NAME;
use crate::context::{Context, cut};
use crate::error::CommandError;

/// Where APTPL is in the parameter list of PERSISTENT RESERVE OUT (SPC-5 6.17.3).
const APTPL_AT: usize = 20;

/// PERSISTENT RESERVE IN (SPC-5 6.16).
pub(crate) async fn persistent_in<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let durable = ctx.lu().capabilities.keeps_records;
    let mut state = ctx.lu().reservations.state.borrow_mut();
    ctx.view.ports.get().iter().for_each(|listed| _ = state.appears(listed.port.relative_id));
    let data = state.persistent_in(&ctx.cdb.0, durable)?;
    Ok(cut(&data, u64::from(ctx.cdb.u16(7))))
}

/// PERSISTENT RESERVE OUT (SPC-5 6.17).
pub(crate) async fn persistent_out<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let lu = ctx.lu();
    let list = ctx.list()?;
    let turn = lu.reservations.turn.take(1).await;
    ctx.go_on()?;
    // RESERVE waits for its turn as well, and nothing else changes the state that the clone could miss.
    let mut next = lu.reservations.state.borrow().clone();
    let ports: Vec<u16> = ctx.view.ports.get().iter().map(|listed| listed.port.relative_id).collect();
    let initiators: Vec<_> = lu.nexuses().iter().map(|nexus| nexus.initiator.clone()).collect();
    let persistence = lu.reservations.persistence;
    let around = Surroundings { ports: &ports, initiators: &initiators, persistence };
    let mut verdict = next.persistent_out(&ItNexus::of(&ctx.seat.nexus), &ctx.cdb.0, &list, around)?;
    if lu.reservations.is_outdated.get() {
        verdict.save.get_or_insert_with(|| next.encode(persistence));
    }
    if let Some(record) = &verdict.save {
        if !lu.capabilities.keeps_records {
            return Err(CommandError::parameter_bit(APTPL_AT, 0));
        }
        lu.disk.save_record(RECORD_NAME, record).await?;
        lu.reservations.is_outdated.set(false);
    }
    *lu.reservations.state.borrow_mut() = next;
    drop(turn);
    carry_out(ctx, &verdict).await;
    Ok(Pieces::new())
}

/// Raises unit attentions and aborts tasks of the logged-in nexuses that the verdict names.
async fn carry_out<D: LogicalDisk>(ctx: &Context<'_, D>, verdict: &Verdict) {
    let lu = ctx.lu();
    for (whom, attention) in &verdict.attentions {
        lu.raise_for(*attention, |nexus| ItNexus::of(nexus) == *whom);
    }
    if verdict.abort.is_empty() {
        return;
    }
    lu.history.abort_of(ctx.seat.nexus.id, &verdict.abort, lu.modes.task_aborted_status());
    let doomed: Vec<_> =
        lu.nexuses().iter().filter(|n| verdict.abort.contains(&ItNexus::of(n))).map(|n| n.id).collect();
    let aborted = lu.abort(Some(ctx.seat.nexus.id), Some(&ctx.task), |id| doomed.contains(&id));
    if aborted > 0 {
        // The command may itself be aborted while it waits; it must not wait for its own end.
        let mut ended = std::pin::pin!(lu.tasks.aborted_ended());
        let never = Signal::default();
        let mut own_end = std::pin::pin!(ctx.task.wait_for(&never, || None::<()>));
        std::future::poll_fn(|cx| {
            if ended.as_mut().poll(cx).is_ready() {
                std::task::Poll::Ready(())
            } else {
                own_end.as_mut().poll(cx).map(drop)
            }
        })
        .await;
    }
}

/// RESERVE(6), RESERVE(10).
pub(crate) async fn reserve<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let reservations = &ctx.lu().reservations;
    let _turn = reservations.turn.take(1).await;
    ctx.go_on()?;
    let mut state = reservations.state.borrow_mut();
    state.appears(ctx.seat.nexus.port.relative_id);
    state.reserve(&ItNexus::of(&ctx.seat.nexus))?;
    Ok(Pieces::new())
}

/// RELEASE(6), RELEASE(10).
pub(crate) async fn release<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let reservations = &ctx.lu().reservations;
    let _turn = reservations.turn.take(1).await;
    ctx.go_on()?;
    let mut state = reservations.state.borrow_mut();
    state.appears(ctx.seat.nexus.port.relative_id);
    state.release(&ItNexus::of(&ctx.seat.nexus))?;
    Ok(Pieces::new())
}
