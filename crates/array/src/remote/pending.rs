//! Asks that the other side has not answered yet.

use std::collections::BTreeMap;

use futures::channel::oneshot;
use scsi::{CopyAnswer, Response, TaskOutcome};

use super::error::RemoteError;
use super::messages::Answer;
use super::moved;
use super::order::Order;
use super::replies::Replied;
use crate::control::{ControlError, Reply};

/// Asks of one side that the other one has not answered yet. When there are so many, no more are taken from
/// the mailboxes. As many as one logical unit may have commands (`lu::TASKS_MAX`): while a pool moves its
/// owner holds commands, and the request of the control plane that ends this comes behind them.
pub const PENDING_MAX: usize = 8192;
const _: () = assert!(PENDING_MAX >= lu::TASKS_MAX);

/// Who waits for an answer.
pub(super) enum Waiting {
    Control(oneshot::Sender<Result<Reply, ControlError>>),
    Execute(oneshot::Sender<Response>),
    Manage(oneshot::Sender<TaskOutcome>),
    Copy(oneshot::Sender<CopyAnswer>),
    /// Nobody: it counts until it is delivered.
    Note,
}

/// The asks, by number. When it is dropped, all who wait learn that the controller is not there.
#[derive(Default)]
pub(super) struct Pending {
    asks: BTreeMap<u64, Waiting>,
    last: u64,
}

impl Pending {
    pub(super) fn is_full(&self) -> bool {
        self.asks.len() >= PENDING_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    pub(super) fn next_number(&self) -> u64 {
        self.last + 1
    }

    /// The ask with the next number.
    pub(super) fn add(&mut self, waiting: Waiting) {
        self.last += 1;
        self.asks.insert(self.last, waiting);
    }

    /// Passes an answer to who waits for it. One who waits no more is passed over.
    pub(super) fn settle(
        &mut self,
        (number, answer): (u64, Answer),
        payload: &[u8],
        order: &Order,
    ) -> Result<(), RemoteError> {
        let unasked = RemoteError::Unexpected { what: "an answer to what nobody has asked" };
        let waiting = self.asks.remove(&number).ok_or(unasked)?;
        match (waiting, answer) {
            (Waiting::Control(to), Answer::Control(answer)) => {
                let _ = to.send(reply(*answer, order)?);
            }
            (Waiting::Execute(to), Answer::Executed(response)) => {
                let _ = to.send(response.with(payload)?);
            }
            (Waiting::Manage(to), Answer::Managed(outcome)) => {
                let _ = to.send(outcome);
            }
            (Waiting::Copy(to), Answer::Copied(answer)) => {
                let _ = to.send(answer.with(payload));
            }
            (Waiting::Note, Answer::Delivered) | (_, Answer::Stopped) => {}
            _ => return Err(RemoteError::Unexpected { what: "an answer to another question" }),
        }
        Ok(())
    }
}

fn reply(
    answer: Result<Replied, super::failures::Failed>,
    order: &Order,
) -> Result<Result<Reply, ControlError>, RemoteError> {
    let mut answer = answer.map(Reply::from).map_err(|failed| failed.0);
    if let Ok(Reply::Released(lus)) = &mut answer {
        moved::check(lus)?;
        moved::renumber(lus, |event| order.received(event));
    }
    Ok(answer)
}
