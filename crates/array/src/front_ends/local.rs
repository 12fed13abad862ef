//! Sessions without a network: commands reach a controller on its own thread, as values. The model world uses
//! them, with a modelled path between host and controller.

use std::rc::Rc;

use scsi::{HostView, Lun, Request, Response};

use crate::controller::{Controller, Seen};
use crate::hosts::{SessionRefusal, close_nexus, open_nexus};

/// A port for hosts on the controller's own thread.
#[derive(Clone)]
pub struct LocalPort(pub(crate) Rc<Controller>);

/// A host's session at a [`LocalPort`]. Dropping it ends the nexus at every controller.
pub struct LocalSession {
    controller: Rc<Controller>,
    seen: Rc<Seen>,
}

impl LocalPort {
    /// Opens a session for this initiator, with the LUs that are mapped to its host. `isid` distinguishes the
    /// sessions of one initiator.
    ///
    /// # Errors
    /// No host has this initiator name, or the array is stopping.
    pub fn open(&self, initiator: &str, isid: [u8; 6]) -> Result<LocalSession, SessionRefusal> {
        let controller = self.0.clone();
        let portal_group = controller.portal_group(controller.index);
        let seen = open_nexus(&controller, initiator, isid, portal_group, Rc::default())?;
        Ok(LocalSession { controller, seen })
    }
}

impl LocalSession {
    /// Executes a command on this controller or on the owner of the LU.
    pub async fn execute(&self, lun: Lun, request: Request) -> Response {
        let view = &self.seen.view;
        let trace = view.sample(&request.cdb, self.controller.world.now());
        let mut response = view.execute(Some(lun), Request { trace, ..request }).await;
        if let Some(trace) = response.trace.take() {
            view.traced(*trace, Some(lun), &response);
        }
        response
    }
}

#[cfg(test)]
impl LocalSession {
    /// Performs a task management function on a LU of this controller.
    pub(crate) async fn manage(&self, function: scsi::TaskFunction) -> scsi::TaskOutcome {
        self.seen.view.manage(function).await
    }

    /// Ends the session while its commands run.
    pub(crate) fn end(&self) {
        self.seen.view.end();
    }
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        close_nexus(&self.controller, &self.seen);
    }
}
