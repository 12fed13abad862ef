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
use crate::mailbox::Lane;

/// Asks of hosts of one side that the other one has not answered yet. When there are so many, no more are
/// taken from the mailboxes. As many as one logical unit may have commands (`lu::TASKS_MAX`).
pub const PENDING_MAX: usize = 8192;
const _: () = assert!(PENDING_MAX >= lu::TASKS_MAX);
/// The same of the control plane, beside those of hosts: while a pool moves its owner holds commands, as many
/// as there are, and a request of the control plane ends this.
const CONTROL_MAX: usize = 1024;

/// How many asks of a lane may be unanswered.
pub(super) const fn unanswered_max(lane: Lane) -> usize {
    match lane {
        Lane::Control => CONTROL_MAX,
        Lane::Hosts => PENDING_MAX,
    }
}

/// Who waits for an answer.
pub(super) enum Waiting {
    Control(oneshot::Sender<Result<Reply, ControlError>>),
    Execute(oneshot::Sender<Response>),
    Manage(oneshot::Sender<TaskOutcome>),
    Copy(oneshot::Sender<CopyAnswer>),
    /// Nobody: it counts until it is delivered.
    Note,
}

impl Waiting {
    fn lane(&self) -> Lane {
        match self {
            Waiting::Control(_) | Waiting::Note => Lane::Control,
            Waiting::Execute(_) | Waiting::Manage(_) | Waiting::Copy(_) => Lane::Hosts,
        }
    }
}

/// The asks, by number. When it is dropped, all who wait learn that the controller is not there.
#[derive(Default)]
pub(super) struct Pending {
    asks: BTreeMap<u64, Waiting>,
    /// How many there are of each lane.
    counts: [usize; 2],
    last: u64,
}

impl Pending {
    pub(super) fn is_full(&self, lane: Lane) -> bool {
        self.counts[lane as usize] >= unanswered_max(lane)
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
        self.counts[waiting.lane() as usize] += 1;
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
        self.counts[waiting.lane() as usize] -= 1;
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
    if let Ok(Reply::Released(lus, _)) = &mut answer {
        moved::check(lus)?;
        moved::renumber(lus, |event| order.received(event));
    }
    Ok(answer)
}
