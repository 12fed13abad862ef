//! The context of an operation: the command that it belongs to.

use std::task::{Context, Poll};

use world::Trace;

use crate::task_set::TaskSet;

/// The command that an operation is part of, passed by value with each operation of a disk.
///
/// It tells whether the command was aborted. An operation that waits for its turn also waits for that
/// ([`CommandContext::poll_aborted`]), and ends with an error; an operation that has begun continues to its
/// end. There is no deadline: no iSCSI command carries one, hosts abort instead, and drives have their own
/// deadlines (`world`).
#[derive(Clone, Copy)]
pub struct CommandContext<'a>(Option<Running<'a>>);

#[derive(Clone, Copy)]
struct Running<'a> {
    set: &'a TaskSet,
    slot: usize,
    trace: Option<&'a Trace>,
}

impl<'a> CommandContext<'a> {
    /// Work without a command, which nobody aborts: the undo of an atomic write, a sanitize operation in the
    /// background.
    pub const DETACHED: CommandContext<'static> = CommandContext(None);

    pub(crate) fn of(set: &'a TaskSet, slot: usize, trace: Option<&'a Trace>) -> CommandContext<'a> {
        CommandContext(Some(Running { set, slot, trace }))
    }

    /// Where the stages of the command are recorded, if it is traced.
    pub fn trace(self) -> Option<&'a Trace> {
        self.0.and_then(|r| r.trace)
    }

    /// Whether the command was aborted: it should end soon, and its response is discarded.
    pub fn is_aborted(self) -> bool {
        self.0.is_some_and(|r| r.set.is_aborted(r.slot))
    }

    /// Ready once the command is aborted; the abort wakes the task. A command waits in one place at a time.
    pub fn poll_aborted(self, cx: &mut Context<'_>) -> Poll<()> {
        match self.0 {
            Some(r) if r.set.is_aborted(r.slot) => Poll::Ready(()),
            Some(r) => {
                r.set.wake_at_abort(r.slot, cx.waker());
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }
}
