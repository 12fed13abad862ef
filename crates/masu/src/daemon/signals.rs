//! Signal handling, from the beginning of the daemon.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT stop the array; SIGHUP applies its declaration again.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Stop,
    Reload,
}

impl Signals {
    /// Installs the handlers; signals are queued from now on.
    pub(super) fn heed() -> Result<Signals> {
        let heed = |kind| signal(kind).context("cannot install signal handlers");
        Ok(Signals {
            terminate: heed(SignalKind::terminate())?,
            interrupt: heed(SignalKind::interrupt())?,
            hang_up: heed(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// Returns when the array is to stop. Other signals meanwhile are discarded.
    pub(super) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
