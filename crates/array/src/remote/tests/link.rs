//! Two exchanges whose frames a test passes on.

use futures::FutureExt;

use crate::event::{EventReceiver, EventSender, event_channel};
use crate::mailbox::{ControllerHandle, Mailbox, Message};
use crate::move_request::{MoveReceiver, MoveSender, move_channel};
use crate::remote::{Exchange, RemoteError, Told};

/// The owner with controller 0 and a node with controller 1. No controller runs: a test takes its messages.
pub(super) struct Link {
    pub(super) owner: Exchange,
    pub(super) node: Exchange,
    /// At the owner, for controller 1.
    pub(super) to_node: ControllerHandle,
    /// At the node, for controller 0.
    pub(super) to_owner: ControllerHandle,
    /// What comes to controller 0.
    pub(super) at_owner: Mailbox,
    /// What comes to controller 1.
    pub(super) at_node: Mailbox,
    pub(super) events: (EventSender, EventReceiver),
    pub(super) moves: (MoveSender, MoveReceiver),
    pub(super) refused: (async_channel::Sender<u64>, async_channel::Receiver<u64>),
}

impl Link {
    /// Both sides have heard each other's first frame.
    pub(super) fn new() -> Link {
        let link = Link::unheard();
        link.pass_on();
        link
    }

    pub(super) fn unheard() -> Link {
        let ((to_node, away), (here, at_owner)) = (ControllerHandle::new(1), ControllerHandle::new(0));
        let ((events, log), (moves, mover), (refused, epochs)) =
            (event_channel(), move_channel(), async_channel::bounded(8));
        let told = Told::Owner { events, moves, refused };
        let owner = Exchange::in_one_process(vec![away], vec![here], told);
        let ((to_owner, away), (here, at_node)) = (ControllerHandle::new(0), ControllerHandle::new(1));
        let ((events, of_events), (moves, of_moves), (refused, of_groups)) =
            (event_channel(), move_channel(), async_channel::bounded(8));
        let told = Told::Node { events: of_events, moves: of_moves, refused: of_groups };
        let node = Exchange::in_one_process(vec![away], vec![here], told);
        let (events, moves, refused) = ((events, log), (moves, mover), (refused, epochs));
        Link { owner, node, to_node, to_owner, at_owner, at_node, events, moves, refused }
    }

    /// Passes frames on until neither side has one.
    pub(super) fn pass_on(&self) {
        while pass(&self.owner, &self.node).expect("valid") + pass(&self.node, &self.owner).expect("valid")
            > 0
        {}
    }
}

/// The next frame, if there is one.
pub(super) fn frame(from: &Exchange) -> Option<Vec<u8>> {
    from.outgoing().now_or_never().flatten()
}

/// Takes a frame, length field included.
pub(super) fn take(to: &Exchange, frame: &[u8]) -> Result<(), RemoteError> {
    to.incoming(&frame[4..]).now_or_never().expect("it never waits")
}

/// Passes on all frames that there are; gives how many.
pub(super) fn pass(from: &Exchange, to: &Exchange) -> Result<usize, RemoteError> {
    let mut passed = 0;
    while let Some(frame) = frame(from) {
        assert_eq!(frame[..4], ((frame.len() - 4) as u32).to_le_bytes());
        take(to, &frame)?;
        passed += 1;
    }
    Ok(passed)
}

/// The next message of a mailbox.
pub(super) fn next(mailbox: &Mailbox) -> Message {
    mailbox.next().now_or_never().flatten().expect("a message")
}

/// How many messages there are.
pub(super) fn waiting(mailbox: &Mailbox) -> usize {
    mailbox.lanes.iter().map(async_channel::Receiver::len).sum()
}
