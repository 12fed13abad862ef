//! The mailbox of a controller, with two lanes: what the control plane asks passes the commands of hosts.
//!
//! Commands may wait at a controller for what the control plane does there, for example while a pool moves.
//! If they could fill the way that its next request takes, both would wait for ever.

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::{Either, select};
use scsi::{CopyAnswer, CopyRequest, Lun, Request, Response, TaskFunction, TaskOutcome};

use crate::control::{Control, ControlError, Reply};
use crate::event::EventSender;
use crate::move_request::MoveSender;
use crate::nexus::RemoteNexus;
use crate::nodes::Nodes;
use crate::trace::TraceSender;

/// Messages queued in each lane before the sender waits.
pub(crate) const QUEUE_LEN: usize = 1024;

/// A message to a controller from another thread.
pub(crate) enum Message {
    Control(Control, oneshot::Sender<Result<Reply, ControlError>>),
    Execute {
        nexus: RemoteNexus,
        lun: Option<Lun>,
        request: Request,
        reply: oneshot::Sender<Response>,
    },
    Manage {
        nexus: RemoteNexus,
        function: TaskFunction,
        reply: oneshot::Sender<TaskOutcome>,
    },
    Copy {
        nexus: RemoteNexus,
        request: CopyRequest,
        reply: oneshot::Sender<CopyAnswer>,
    },
    /// A nexus at the sender's port uses logical units that have moved here.
    Open {
        nexus: RemoteNexus,
    },
    Close {
        nexus: RemoteNexus,
    },
}

/// Which messages keep their order among each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The control plane's, and the beginnings and ends of nexuses: [`Control::Arrived`] counts on those that
    /// were announced before.
    Control,
    /// Of hosts: commands, and functions that abort them.
    Hosts,
}

impl Lane {
    /// In the order in which they are served.
    pub(crate) const ALL: [Lane; 2] = [Lane::Control, Lane::Hosts];
}

impl Message {
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Message::Control(..) | Message::Open { .. } | Message::Close { .. } => Lane::Control,
            Message::Execute { .. } | Message::Manage { .. } | Message::Copy { .. } => Lane::Hosts,
        }
    }
}

/// The sending end of a controller; cheap to clone, usable from every thread.
#[derive(Clone)]
pub struct ControllerHandle {
    /// The number of the controller.
    pub index: usize,
    lanes: [async_channel::Sender<Message>; 2],
}

/// The receiving end, given to the controller's thread, or to an [`Exchange`](crate::Exchange) that leads
/// to it. Cheap to clone: each message reaches one of the clones, so that it can be given to another one
/// when the first has ended.
#[derive(Clone)]
pub struct Mailbox {
    /// The number of the controller.
    pub(crate) index: usize,
    /// In the order of [`Lane::ALL`].
    pub(crate) lanes: [async_channel::Receiver<Message>; 2],
    pub(crate) events: Option<EventSender>,
    pub(crate) traces: Option<TraceSender>,
    pub(crate) moves: Option<MoveSender>,
    pub(crate) nodes: Option<Arc<Nodes>>,
    pub(crate) lasts: bool,
}

impl Mailbox {
    /// The next message: hosts' when the control plane asks for nothing. None: there is none any more.
    pub(crate) async fn next(&self) -> Option<Message> {
        let [control, hosts] = &self.lanes;
        // The first is looked at first.
        match select(std::pin::pin!(control.recv()), std::pin::pin!(hosts.recv())).await {
            Either::Left((Ok(message), _)) | Either::Right((Ok(message), _)) => Some(message),
            Either::Left((Err(_), hosts)) => hosts.await.ok(),
            Either::Right((Err(_), control)) => control.await.ok(),
        }
    }

    /// Takes no more.
    pub(crate) fn close(&self) {
        self.lanes.iter().for_each(|lane| _ = lane.close());
    }

    /// The same mailbox, which stays open when its controller has stopped: another one goes on with what
    /// waits in it. Who has a copy keeps it open; see also [`Mailbox::discard`].
    pub fn lasting(self) -> Mailbox {
        Mailbox { lasts: true, ..self }
    }

    /// Ends what waits in it, and takes no more: no controller comes any more.
    pub fn discard(self) {
        self.close();
        for lane in &self.lanes {
            while lane.try_recv().is_ok() {}
        }
    }

    /// The same mailbox, for a controller that also sends its events there.
    pub fn telling(self, events: EventSender) -> Mailbox {
        Mailbox { events: Some(events), ..self }
    }

    /// The same mailbox, for a controller that also sends the traces of commands there.
    pub fn tracing(self, traces: TraceSender) -> Mailbox {
        Mailbox { traces: Some(traces), ..self }
    }

    /// The same mailbox, for a controller that also sends there which pools hosts want to be moved.
    pub fn moving(self, moves: MoveSender) -> Mailbox {
        Mailbox { moves: Some(moves), ..self }
    }

    /// The same mailbox, for a controller that knows these nodes before it takes the first message: without
    /// them it would write labels without an epoch.
    pub fn knowing(self, nodes: Arc<Nodes>) -> Mailbox {
        Mailbox { nodes: Some(nodes), ..self }
    }
}

impl ControllerHandle {
    /// The two ends of a controller's mailbox.
    pub fn new(index: usize) -> (ControllerHandle, Mailbox) {
        let (control, hosts) = (async_channel::bounded(QUEUE_LEN), async_channel::bounded(QUEUE_LEN));
        let handle = ControllerHandle { index, lanes: [control.0, hosts.0] };
        let lanes = [control.1, hosts.1];
        let (events, traces, moves, nodes) = (None, None, None, None);
        (handle, Mailbox { index, lanes, events, traces, moves, nodes, lasts: false })
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    ///
    /// The controller has stopped, or refuses; the text says why.
    pub async fn ask(&self, control: Control) -> Result<Reply, ControlError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Control(control, reply)).await?;
        answer.await.map_err(|_| ControlError::Stopped(self.index))?
    }

    fn lane(&self, message: &Message) -> &async_channel::Sender<Message> {
        &self.lanes[message.lane() as usize]
    }

    pub(crate) async fn send(&self, message: Message) -> Result<(), ControlError> {
        self.lane(&message).send(message).await.map_err(|_| ControlError::Stopped(self.index))
    }

    /// Sends without waiting; gives the message back if the lane has no room. One to a controller that has
    /// stopped is dropped.
    #[expect(clippy::result_large_err, reason = "the message itself comes back")]
    pub(crate) fn offer(&self, message: Message) -> Result<(), Message> {
        match self.lane(&message).try_send(message) {
            Ok(()) | Err(async_channel::TrySendError::Closed(_)) => Ok(()),
            Err(async_channel::TrySendError::Full(message)) => Err(message),
        }
    }

    /// As if the controller had stopped.
    #[cfg(test)]
    pub(crate) fn close(&self) {
        self.lanes.iter().for_each(|lane| _ = lane.close());
    }

    /// Whether the controller has stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        self.lanes.iter().all(async_channel::Sender::is_closed)
    }

    /// For a sender that cannot wait (a drop). Returns whether the lane had room.
    pub(crate) fn try_send(&self, message: Message) -> bool {
        self.lane(&message).try_send(message).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use scsi::{InitiatorPort, NexusId};

    use super::*;
    use crate::nexus::target_port;

    fn nexus() -> RemoteNexus {
        let initiator = InitiatorPort { name: "iqn.2026-11.test:a".into(), isid: [0; 6] };
        RemoteNexus { id: NexusId(1), initiator, port: target_port("iqn.2026-11.test:array", 1) }
    }

    fn manage() -> Message {
        Message::Manage { nexus: nexus(), function: TaskFunction::TargetReset, reply: oneshot::channel().0 }
    }

    /// Commands that waited at a controller kept the request out that would have let them go on.
    #[test]
    fn requests_of_the_control_plane_pass_all_commands_that_wait() {
        let (handle, mailbox) = ControllerHandle::new(0);
        while handle.offer(manage()).is_ok() {}
        assert!(handle.send(manage()).now_or_never().is_none(), "a host waits for room");
        assert!(handle.send(Message::Open { nexus: nexus() }).now_or_never().is_some());
        let mut ask = Box::pin(handle.ask(Control::Arrived));
        assert!(ask.as_mut().now_or_never().is_none());
        let next = || mailbox.next().now_or_never().flatten();
        assert!(matches!(next(), Some(Message::Open { .. })), "in order among each other");
        let Some(Message::Control(Control::Arrived, reply)) = next() else { panic!("a request") };
        assert!(reply.send(Ok(Reply::Done(vec![]))).is_ok());
        assert!(ask.now_or_never().is_some());
        assert!((0..QUEUE_LEN).all(|_| matches!(next(), Some(Message::Manage { .. }))));
        assert!(next().is_none());
    }

    #[test]
    fn what_waits_in_a_closed_mailbox_is_still_taken() {
        let (handle, mailbox) = ControllerHandle::new(0);
        assert!(handle.offer(manage()).is_ok() && !handle.has_stopped());
        mailbox.close();
        assert!(handle.has_stopped());
        assert!(matches!(mailbox.next().now_or_never(), Some(Some(Message::Manage { .. }))));
        assert!(matches!(mailbox.next().now_or_never(), Some(None)));
    }
}
