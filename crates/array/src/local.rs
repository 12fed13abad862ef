//! Hosts without a network: commands that reach a controller on its own thread, as values. The array in the model world is driven by these,
//! with whatever path between host and controller the model puts there.

use std::rc::Rc;

use iscsi::target::LoginRefusal;
use scsi::{HostView, Lun, Request, Response};

use crate::controller::{Controller, Seen};
use crate::hosts::{close_nexus, open_nexus};

/// The place of a port at a controller, for hosts on its thread.
#[derive(Clone)]
pub struct LocalPort(pub(crate) Rc<Controller>);

/// A session of a host at a [`LocalPort`]. Dropping it ends the nexus at every controller.
pub struct LocalSession {
    controller: Rc<Controller>,
    seen: Rc<Seen>,
}

impl LocalPort {
    /// Opens a session for the initiator of this name: it sees what its host is declared to see. `isid` tells the sessions of one initiator apart.
    pub fn open(&self, initiator: &str, isid: [u8; 6]) -> Result<LocalSession, LoginRefusal> {
        let controller = self.0.clone();
        let portal_group = controller.index as u16 + 1;
        let seen = open_nexus(&controller, initiator, isid, portal_group, Rc::default())?;
        Ok(LocalSession { controller, seen })
    }
}

impl LocalSession {
    /// Executes a command, here or at the controller that owns the LU.
    pub async fn execute(&self, lun: Lun, request: Request) -> Response {
        self.seen.view.execute(Some(lun), request).await
    }
}

#[cfg(test)]
impl LocalSession {
    /// Performs a task management function on a LU of this controller.
    pub(crate) async fn manage(&self, function: scsi::TaskFunction) -> scsi::TaskOutcome {
        self.seen.view.manage(function).await
    }
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        close_nexus(&self.controller, &self.seen.nexus);
    }
}
