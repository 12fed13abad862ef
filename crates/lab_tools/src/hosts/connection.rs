//! How the commands of a host reach an array: in a session over iSCSI, or by a modelled path.

use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::{Done, Error, Session};
use scsi::Lun;
use world::TcpCounts;

use super::cdb::Cdb;
use super::meter::thread_cpu;
use super::modelled::ModelledHost;

/// A host's way to the LUs that it sees; clones are the same.
#[derive(Clone)]
pub enum Connection {
    /// A session over iSCSI.
    Session(Session),
    /// Processors and a wire that are modelled, in the model world.
    Modelled(Rc<ModelledHost>),
}

impl Connection {
    pub(super) async fn command(
        &self,
        lun: Lun,
        cdb: Cdb,
        data_out: Pieces,
        in_len: u32,
    ) -> Result<Done, Error> {
        match self {
            Connection::Session(session) => session.command(lun, cdb, data_out, in_len).await,
            Connection::Modelled(host) => Ok(host.command(lun, cdb, data_out, in_len).await),
        }
    }

    /// What crossed it so far.
    pub fn tcp_counts(&self) -> TcpCounts {
        match self {
            Connection::Session(session) => session.tcp_counts(),
            Connection::Modelled(host) => host.tcp_counts(),
        }
    }

    /// How long the host's processor has worked: the clock of the calling thread, or the modelled one.
    pub fn cpu(&self) -> Duration {
        match self {
            Connection::Session(_) => thread_cpu(),
            Connection::Modelled(host) => host.cpu(),
        }
    }
}

impl From<Session> for Connection {
    fn from(session: Session) -> Connection {
        Connection::Session(session)
    }
}
