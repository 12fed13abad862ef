//! Commands that cross to the controller that owns the LU.
//!
//! The port's controller sends the request with its data. The owner executes it on its own view of that nexus
//! and sends the response back. Both are plain values; buffers are shared memory and are not copied.

use std::rc::Rc;

use futures::channel::oneshot;
use scsi::{
    CopyAnswer, CopyRequest, Lun, Owner, Remote, Request, Response, Status, TaskFunction, TaskOutcome,
};
use world::World;

use crate::controller::Controller;
use crate::mailbox::{ControllerHandle, Message};
use crate::nexus::RemoteNexus;

/// Sends the commands of a nexus to another controller.
struct Crossing {
    world: World,
    owner: ControllerHandle,
    nexus: RemoteNexus,
}

/// The other controllers, which the copies of a nexus reach.
pub(super) fn others(controller: &Controller, nexus: &RemoteNexus) -> Rc<[Rc<dyn Owner>]> {
    let all = crossings(controller, nexus).into_iter().enumerate();
    all.filter(|(index, _)| *index != controller.index).map(|(_, owner)| owner).collect()
}

/// A crossing to each controller, by its number.
pub(super) fn crossings(controller: &Controller, nexus: &RemoteNexus) -> Vec<Rc<dyn Owner>> {
    let crossing = |owner: &ControllerHandle| -> Rc<dyn Owner> {
        let world = controller.world.clone();
        Rc::new(Crossing { world, owner: owner.clone(), nexus: nexus.clone() })
    };
    controller.handles().iter().map(crossing).collect()
}

impl Owner for Crossing {
    fn execute(&self, lun: Lun, request: Request) -> Remote<Response> {
        Box::pin(execute(self.owner.clone(), self.nexus.clone(), lun, request))
    }

    fn copy(&self, request: CopyRequest) -> Remote<Option<CopyAnswer>> {
        Box::pin(copy(self.owner.clone(), self.nexus.clone(), request))
    }

    fn manage(&self, function: TaskFunction) -> Remote<TaskOutcome> {
        Box::pin(manage(self.owner.clone(), self.nexus.clone(), function))
    }

    fn end(&self) {
        let close = || Message::Close { nexus: self.nexus.clone() };
        if !self.owner.try_send(close()) {
            // Its mailbox is full, or it has stopped. A view that stayed would keep its reservations.
            let (owner, close) = (self.owner.clone(), close());
            self.world.spawn(async move {
                let _ = owner.send(close).await;
            });
        }
    }
}

/// Executes a command at its owner. If the owner has stopped, the host gets BUSY.
async fn execute(owner: ControllerHandle, nexus: RemoteNexus, lun: Lun, request: Request) -> Response {
    let (reply, answer) = oneshot::channel();
    if owner.send(Message::Execute { nexus, lun: Some(lun), request, reply }).await.is_err() {
        return busy();
    }
    answer.await.unwrap_or_else(|_| busy())
}

/// Has the owner do its part of a copy.
async fn copy(owner: ControllerHandle, nexus: RemoteNexus, request: CopyRequest) -> Option<CopyAnswer> {
    let (reply, answer) = oneshot::channel();
    owner.send(Message::Copy { nexus, request, reply }).await.ok()?;
    answer.await.ok()
}

/// Performs a task management function at another controller.
async fn manage(owner: ControllerHandle, nexus: RemoteNexus, function: TaskFunction) -> TaskOutcome {
    let (reply, answer) = oneshot::channel();
    if owner.send(Message::Manage { nexus, function, reply }).await.is_err() {
        return TaskOutcome::NoSuchLun;
    }
    answer.await.unwrap_or(TaskOutcome::NoSuchLun)
}

fn busy() -> Response {
    Response::failed(Status::Busy, Vec::new(), 0)
}
