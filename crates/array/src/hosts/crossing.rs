//! Commands that cross to the controller that owns the LU.
//!
//! The port's controller sends the request with its data; the owner executes it on a view of its own for that nexus and sends
//! the response back. Both are plain values; buffers are shared memory and are not copied.

use futures::channel::oneshot;
use scsi::{Lun, Request, Response, Status, TaskFunction, TaskOutcome};

use crate::control::{ControllerHandle, Message};
use crate::controller::{Controller, Seen};
use crate::nexus::RemoteNexus;

/// Executes a command here, or at the controller that owns the LU.
pub(crate) async fn route(
    controller: &Controller,
    seen: &Seen,
    lun: Option<Lun>,
    request: Request,
) -> Response {
    match seen.owner_elsewhere(lun) {
        None => seen.view.execute(lun, request).await,
        Some(owner) => execute(controller.handle(owner), seen.nexus.clone(), lun, request).await,
    }
}

/// Executes a command at its owner. When the owner has stopped, the host is told to try again.
async fn execute(
    owner: &ControllerHandle,
    nexus: RemoteNexus,
    lun: Option<Lun>,
    request: Request,
) -> Response {
    let (reply, answer) = oneshot::channel();
    if owner.send(Message::Execute { nexus, lun, request, reply }).await.is_err() {
        return busy();
    }
    answer.await.unwrap_or_else(|_| busy())
}

/// Performs a task management function at another controller.
pub(crate) async fn manage(
    owner: &ControllerHandle,
    nexus: RemoteNexus,
    function: TaskFunction,
) -> TaskOutcome {
    let (reply, answer) = oneshot::channel();
    if owner.send(Message::Manage { nexus, function, reply }).await.is_err() {
        return TaskOutcome::NoSuchLun;
    }
    answer.await.unwrap_or(TaskOutcome::NoSuchLun)
}

fn busy() -> Response {
    Response {
        status: Status::Busy,
        sense: Vec::new(),
        data_in: block::Pieces::new(),
        data_out_wanted: 0,
        aborted: false,
    }
}
