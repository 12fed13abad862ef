//! Traces of commands, and their channel from the controllers to whoever sends them on.
//!
//! A controller sends the trace of a command and continues. If the receiver does not keep up, traces are lost
//! and counted: nothing on the data path waits for a collector.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scsi::{CommandTrace, TraceSink};

use crate::config::Config;
use crate::controller::Controller;

/// Capacity of the channel: some seconds of the largest number of traces that a declaration allows.
const QUEUE_LEN: usize = 8192;

/// The trace of a command, with the declaration that was in force: it has the names of what the command
/// passed, and says where the trace goes.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Traced {
    pub config: Arc<Config>,
    /// The controller of the port.
    pub controller: usize,
    pub command: CommandTrace,
}

/// Traces that nobody will see, since the start.
#[derive(Default)]
struct Lost {
    queue: AtomicU64,
    limit: AtomicU64,
}

/// The sending end. Cheap to clone, usable from every thread; sending never waits.
#[derive(Clone)]
pub struct TraceSender {
    sender: async_channel::Sender<Traced>,
    lost: Arc<Lost>,
}

/// The receiving end.
#[derive(Clone)]
pub struct TraceReceiver {
    receiver: async_channel::Receiver<Traced>,
    lost: Arc<Lost>,
}

/// Creates the channel.
pub fn trace_channel() -> (TraceSender, TraceReceiver) {
    with_room(QUEUE_LEN)
}

fn with_room(len: usize) -> (TraceSender, TraceReceiver) {
    let (sender, receiver) = async_channel::bounded(len);
    let lost = Arc::new(Lost::default());
    (TraceSender { sender, lost: lost.clone() }, TraceReceiver { receiver, lost })
}

impl TraceReceiver {
    /// Waits for the next trace; `None` when all senders are dropped and nothing is queued.
    pub async fn next(&self) -> Option<Traced> {
        self.receiver.recv().await.ok()
    }

    /// The next trace, if one is queued.
    pub fn try_next(&self) -> Option<Traced> {
        self.receiver.try_recv().ok()
    }

    /// Traces that were lost because the channel was full.
    pub fn lost_in_queue(&self) -> u64 {
        self.lost.queue.load(Ordering::Relaxed)
    }

    /// Commands that were chosen, and not traced because of the limit per second.
    pub fn over_limit(&self) -> u64 {
        self.lost.limit.load(Ordering::Relaxed)
    }
}

/// The traces of one controller's ports.
struct Outlet {
    controller: Weak<Controller>,
    to: TraceSender,
}

impl TraceSink for Outlet {
    fn take(&self, mut command: CommandTrace) {
        let Some(controller) = self.controller.upgrade() else { return };
        name_drives(&controller, &mut command);
        let traced = Traced { config: controller.config(), controller: controller.index, command };
        if self.to.sender.try_send(traced).is_err() {
            self.to.lost.queue.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn over_limit(&self) {
        self.to.lost.limit.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends the traces of a controller there.
pub(crate) fn send_traces(controller: &Rc<Controller>, to: TraceSender) {
    controller.tracer.send_to(Outlet { controller: Rc::downgrade(controller), to });
}

/// Chooses commands as the declaration says.
pub(crate) fn choose_traced(controller: &Controller, config: &Config) {
    match &config.traces {
        Some(traces) => controller.tracer.set(traces.share_millionths, traces.per_second),
        None => controller.tracer.set(0, 0),
    }
}

/// Layers below know a drive by its medium. Here it gets the name that the declaration gives it, on the
/// controller that has it.
pub(crate) fn name_drives(controller: &Controller, command: &mut CommandTrace) {
    let state = controller.state();
    for span in command.stages.spans.iter_mut().filter(|span| span.stage == "drive") {
        let found = state.drives.iter().find(|(_, drive)| drive.info().name == span.object);
        if let Some((name, _)) = found {
            span.object.clone_from(name);
        }
    }
}

#[cfg(test)]
pub(crate) fn small_channel(len: usize) -> (TraceSender, TraceReceiver) {
    with_room(len)
}
