//! The signals that the daemon heeds, from its first moment on.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT stop the array, SIGHUP has it read its declaration again.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Stop,
    Reload,
}

impl Signals {
    /// From now on signals are kept until somebody asks for them.
    pub(super) fn heed() -> Result<Signals> {
        let heed = |kind| signal(kind).context("cannot heed signals");
        Ok(Signals {
            terminate: heed(SignalKind::terminate())?,
            interrupt: heed(SignalKind::interrupt())?,
            hang_up: heed(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// Returns when the array is to stop. What else is asked for meanwhile is forgotten.
    pub(super) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
